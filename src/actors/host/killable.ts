/**
 * Runs programs whose system calls may hang, such as those of mount(8) on a file server that does not answer.
 *
 * Invariants: a program has a group of processes of its own, which is killed at the end of its time, or when its result
 * is no longer wanted; a program that even then does not end is abandoned, and costs the agent no thread; the output is
 * limited.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { codeOf } from '../../kernel/thrown.ts';
import { goError } from '../go-errors.ts';

/** An error text of a program is a few lines. */
const OUTPUT_BYTES_MAX = 4_096;
/** How long a killed program may take to end, and the output of one that has ended to come. */
const GRACE_MS = 1_000;

export interface Ending {
  /** As Go tells how a program ended: `exit status 32`, `signal: killed`; empty for success. */
  readonly status: string;
  /** What it wrote, errors included. */
  readonly output: string;
  /** It was killed because its time was over, or its result no longer wanted. */
  readonly isKilled: boolean;
  /** It has not ended although it was killed: the kernel waits in its call. */
  readonly isAbandoned: boolean;
  /** There is no such program. */
  readonly isMissing: boolean;
}

interface KillableOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** What the program reads from its standard input; absent: nothing. */
  readonly input?: string;
  /** Called when an abandoned program has ended after all. */
  readonly onLate?: () => void;
}

/** Runs a program to its end; a failure is a result, too. */
export function runKillable(program: string, argv: readonly string[], options: KillableOptions): Promise<Ending> {
  const { timeoutMs, signal, input, onLate = () => {} } = options;
  return new Promise((resolve) => {
    const child = started(program, argv, input);
    if ('status' in child) return resolve(child);
    const output = collected(child);
    let isKilled = false;
    let isSettled = false;
    let isAbandoned = false;
    const settle = (status: string, more: Partial<Ending> = {}) => {
      clearTimeout(deadline);
      if (isSettled) return isAbandoned ? onLate() : undefined;
      isSettled = true;
      for (const stream of [child.stdout, child.stderr]) stream?.destroy();
      isAbandoned = more.isAbandoned === true;
      signal?.removeEventListener('abort', kill);
      resolve({ status, output: output(), isKilled, isAbandoned: false, isMissing: false, ...more });
    };
    const kill = () => {
      isKilled = true;
      killGroup(child);
      setTimeout(() => isSettled || settle('signal: killed', { isAbandoned: true }), GRACE_MS);
    };
    const deadline = setTimeout(kill, timeoutMs);
    child.once('error', (error) => {
      const { status, isMissing } = notStarted(program, error);
      settle(status, { isMissing });
    });
    child.once('close', (code, signalName) => settle(endingOf(code, signalName)));
    // A daemon that the program started may keep the pipes open: that of NFS locks, as long as the machine runs.
    child.once('exit', (code, signalName) =>
      setTimeout(() => isSettled || settle(endingOf(code, signalName)), GRACE_MS),
    );
    signal?.addEventListener('abort', kill);
    if (signal?.aborted) kill();
  });
}

function collected({ stdout, stderr }: ChildProcess): () => string {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const take = (chunk: Buffer) => {
    if (bytes < OUTPUT_BYTES_MAX) chunks.push(chunk.subarray(0, OUTPUT_BYTES_MAX - bytes));
    bytes += chunk.length;
  };
  stdout?.on('data', take);
  stderr?.on('data', take);
  return () => Buffer.concat(chunks).toString();
}

/** Closes the pipes, too: a process that left the group would keep them open. */
function killGroup({ pid, stdout, stderr }: ChildProcess): void {
  stdout?.destroy();
  stderr?.destroy();
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The processes have ended in the meantime.
  }
}

const SIGNALS: Readonly<Record<string, string>> = { SIGKILL: 'killed', SIGTERM: 'terminated', SIGINT: 'interrupt' };

function endingOf(code: number | null, signal: NodeJS.Signals | null): string {
  if (code === null) return `signal: ${SIGNALS[signal ?? ''] ?? signal}`;
  return code === 0 ? '' : `exit status ${code}`;
}

/** Some failures are an event of the process, others are thrown. */
function started(program: string, argv: readonly string[], input: string | undefined): ChildProcess | Ending {
  try {
    const stdin = input === undefined ? 'ignore' : 'pipe';
    const child = spawn(program, [...argv], { stdio: [stdin, 'pipe', 'pipe'], detached: true });
    // A program that ends before it has read everything tells so by its status.
    child.stdin?.on('error', () => {}).end(input);
    return child;
  } catch (error) {
    return notStarted(program, error);
  }
}

function notStarted(program: string, error: unknown): Ending {
  const isMissing = codeOf(error) === 'ENOENT';
  const status =
    isMissing && !program.includes('/')
      ? `exec: ${JSON.stringify(program)}: executable file not found in $PATH`
      : goError('fork/exec', program, error).message;
  return { status, output: '', isKilled: false, isAbandoned: false, isMissing };
}
