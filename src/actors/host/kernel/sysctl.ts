/** `host.tuneKernel`: settings of the kernel below /proc/sys, read and, where that was asked for, changed. */
import { readFile, writeFile } from 'node:fs/promises';
import type { Port } from '../../../kernel/operation.ts';
import type { hostOperations } from '../../../machines/model/operations/host.ts';

export function sysctlPorts(root: string) {
  const tuneKernel: Port<(typeof hostOperations)['host.tuneKernel']> = async ({ input: { expected, modify } }) => {
    const errors: string[] = [];
    for (const [name, value] of Object.entries(expected)) {
      const error = await tune(`${root}/proc/sys/${name}`, name, value, modify).catch(
        (thrown: Error) => thrown.message,
      );
      if (error !== null) errors.push(error);
    }
    return { errors };
  };
  return { 'host.tuneKernel': tuneKernel };
}

async function tune(path: string, name: string, value: number, modify: boolean): Promise<string | null> {
  const actual = Number((await readFile(path, 'utf8')).trim());
  if (actual === value) return null;
  if (!modify) return `invalid kernel flag: ${name}, expected value: ${value}, actual value: ${actual}`;
  await writeFile(path, String(value));
  return null;
}
