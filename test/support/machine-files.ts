/** Machines described by files: the trees of test/golden/machines in a folder of the test. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { temporaryFolder } from './host-ports.ts';

const MACHINES = new URL('../golden/machines/', import.meta.url);

export type MachineName = 'cgroup-v1' | 'cgroup-v2';

/** The root of the tree; `more` has additional files, and `null` for files to remove. */
export async function machineFiles(name: MachineName, more: Readonly<Record<string, string>> = {}): Promise<string> {
  return writeMachine(await temporaryFolder(), name, more);
}

/** The same in a folder that the caller removes. */
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

/** The content of one of the machine's files. */
export const machineFile = (name: MachineName, path: string): string => filesOf(name)[path]!;

const filesOf = (name: MachineName): Record<string, string> =>
  JSON.parse(readFileSync(new URL(`${name}.json`, MACHINES), 'utf8'));
