/** A machine that is described by files: the trees of test/golden/machines in a folder of the test's own. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { temporaryFolder } from './host-ports.ts';

const MACHINES = new URL('../golden/machines/', import.meta.url);

export type MachineName = 'cgroup-v1' | 'cgroup-v2';

/** The root of the tree; `more` is added to it, or taken away where it is `null`. */
export async function machineFiles(name: MachineName, more: Readonly<Record<string, string>> = {}): Promise<string> {
  return writeMachine(await temporaryFolder(), name, more);
}

/** The same in a folder that somebody else removes. */
export function writeMachine(
  root: string,
  name: MachineName = 'cgroup-v1',
  more: Readonly<Record<string, string>> = {},
): string {
  for (const [path, content] of Object.entries({ ...filesOf(name), ...more })) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  return root;
}

/** What the machine says in one of its files. */
export const machineFile = (name: MachineName, path: string): string => filesOf(name)[path]!;

const filesOf = (name: MachineName): Record<string, string> =>
  JSON.parse(readFileSync(new URL(`${name}.json`, MACHINES), 'utf8'));
