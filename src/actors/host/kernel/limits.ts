/** What the agent asks of the kernel for itself: not to be killed first, and enough open files. */
import { writeFile } from 'node:fs/promises';
import { OperationError } from '../../../kernel/json.ts';
import type { Port } from '../../../kernel/operation.ts';
import { messageOf } from '../../../kernel/thrown.ts';
import type { hostOperations } from '../../../machines/model/operations/host.ts';
import { errnoOf } from '../below-root.ts';
import { runCommand } from '../commands.ts';
import type { SystemCalls } from './syscall.ts';

type Operations = typeof hostOperations;

export function limitPorts(root: string, system: SystemCalls | null) {
  const setOomScoreAdj: Port<Operations['host.setOomScoreAdj']> = async ({ input }) => {
    const path = `${root}/proc/self/oom_score_adj`;
    try {
      await writeFile(path, String(input.value));
    } catch (error) {
      const why = messageOf(error);
      throw new OperationError(`failed to write ${input.value} to ${path}: ${why}`, { code: errnoOf(error) });
    }
    return null;
  };
  const setOpenFilesLimit: Port<Operations['host.setOpenFilesLimit']> = async ({ input: { limit } }) => {
    if (!Number.isSafeInteger(limit) || limit <= 0) throw new OperationError(`not a limit of open files: ${limit}`);
    if (system) system.setOpenFilesLimit(limit);
    else await runCommand('prlimit', [`--pid=${process.pid}`, `--nofile=${limit}:${limit}`]);
    return null;
  };
  return { 'host.setOomScoreAdj': setOomScoreAdj, 'host.setOpenFilesLimit': setOpenFilesLimit };
}
