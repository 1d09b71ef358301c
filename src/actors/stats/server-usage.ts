/**
 * Usage of file systems of servers (NFS), as stat(1) reads it: a server that does not answer costs a process, which is
 * killed, and no thread of the agent.
 *
 * Invariants: a server is asked at most once a minute for a volume, as upstream asks, and not while an earlier question
 * hangs; a request for statistics waits only briefly.
 */
import pLimit from 'p-limit';
import { NFS_PLUGIN } from '../../machines/model/volumes/network.ts';
import { boundedCall } from '../host/bounded-calls.ts';
import { type Ending, runKillable } from '../host/killable.ts';
import { type FileSystemUsage, fileSystemUsage } from './disk-usage.ts';

/** Upstream's default of `volumeStatsAggPeriod`. */
const PERIOD_MS = 60_000;
/** How long a server is waited for. */
const TIMEOUT_MS = 2_000;
/** Processes at once. */
const QUESTIONS_MAX = 8;

interface Question {
  readonly askedMs: number;
  readonly answer: Promise<FileSystemUsage | null>;
}

const atOnce = pLimit(QUESTIONS_MAX);
const questions = new Map<string, Question>();
/** Paths that a process looks at. One that cannot be killed stays. */
const stuck = new Set<string>();

/** Whether a path is in the folder of a volume of a server. */
export const isOnServer = (path: string): boolean => path.includes(`/volumes/${NFS_PLUGIN}/`);

interface ServerUsageOptions {
  readonly now?: () => number;
  /** The name or path of stat(1). */
  readonly program?: string;
}

/** The usage of the file system at a path; `null` if its server does not answer, or nothing is there. */
export function serverUsage(path: string, options: ServerUsageOptions = {}): Promise<FileSystemUsage | null> {
  const { now = () => performance.now(), program = 'stat' } = options;
  const known = questions.get(path);
  if (known !== undefined && (stuck.has(path) || now() - known.askedMs < PERIOD_MS)) return known.answer;
  for (const [each, { askedMs }] of questions) if (now() - askedMs >= PERIOD_MS) questions.delete(each);
  const answer = atOnce(() => ask(path, program));
  questions.set(path, { askedMs: now(), answer });
  return answer;
}

async function ask(path: string, program: string): Promise<FileSystemUsage | null> {
  stuck.add(path);
  const free = () => void stuck.delete(path);
  const ending = await runKillable(program, ['-f', '-c', '%s %b %f %a %c %d', path], {
    timeoutMs: TIMEOUT_MS,
    onLate: free,
  });
  if (!ending.isAbandoned) free();
  if (ending.isMissing) return await boundedCall(path, () => fileSystemUsage(path)).catch(() => null);
  return usageIn(ending);
}

function usageIn({ status, output }: Ending): FileSystemUsage | null {
  if (status !== '' || !/^\d+( \d+){5}\n?$/.test(output)) return null;
  const [size = 0n, blocks = 0n, free = 0n, available = 0n, inodes = 0n, inodesFree = 0n] = output
    .trim()
    .split(' ')
    .map(BigInt);
  return {
    capacity: blocks * size,
    available: available * size,
    used: (blocks - free) * size,
    inodes,
    inodesFree,
  };
}
