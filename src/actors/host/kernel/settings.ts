/** Ports: the OOM score and the limit of open files of this process, and the kernel settings below /proc/sys. */
import { readFile, writeFile } from 'node:fs/promises';
import { OperationError } from '../../../kernel/json.ts';
import type { Port } from '../../../kernel/operation.ts';
import { messageOf } from '../../../kernel/thrown.ts';
import type { hostOperations } from '../../../machines/model/operations/host.ts';
import { errnoOf } from '../root-folder.ts';
import { runCommand, type SystemCalls } from './syscall.ts';

export function limitPorts(root: string, system: SystemCalls | null) {
  const setOomScoreAdj: Port<(typeof hostOperations)['host.setOomScoreAdj']> = async ({ input }) => {
    const path = `${root}/proc/self/oom_score_adj`;
    try {
      await writeFile(path, String(input.value));
    } catch (error) {
      const why = messageOf(error);
      throw new OperationError(`failed to write ${input.value} to ${path}: ${why}`, { code: errnoOf(error) });
    }
    return null;
  };
  const setOpenFilesLimit: Port<(typeof hostOperations)['host.setOpenFilesLimit']> = async ({ input: { limit } }) => {
    if (!Number.isSafeInteger(limit) || limit <= 0) throw new OperationError(`not a limit of open files: ${limit}`);
    if (system) system.setOpenFilesLimit(limit);
    else await runCommand('prlimit', [`--pid=${process.pid}`, `--nofile=${limit}:${limit}`]);
    return null;
  };
  return { 'host.setOomScoreAdj': setOomScoreAdj, 'host.setOpenFilesLimit': setOpenFilesLimit };
}

/** `host.tuneKernel`: settings below /proc/sys are compared and, where `modify` says so, changed. */
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
