/**
 * Distributes tasks over several child processes.  Owns: the child processes. Invariants: answers arrive in the order
 * of the tasks, each as soon as the earlier answers have arrived; if a process ends without an answer, only its current
 * task is `lost`. Processes instead of threads: a process that runs out of memory or is killed does not affect the
 * others.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { PACKAGE_DIRECTORY } from '../actors/package-directory.ts';

const ENTRY_POINT = `${PACKAGE_DIRECTORY}/src/bin/statelet.js`;

/** The maximum number of processes; more would only wait for the disk. */
const JOBS_MAX = 256;
export const JOBS_WANTED = `--jobs is a number from 1 to ${JOBS_MAX}`;

/** The number of processes; by default one for each processor; undefined when the text is no such number. */
export function jobsOf(text: string | undefined): number | undefined {
  const jobs = Number(text ?? availableParallelism());
  return Number.isInteger(jobs) && jobs >= 1 && jobs <= JOBS_MAX ? jobs : undefined;
}

/** From the loss of the connection until the end of the process is known. */
const END_TIMEOUT_MS = 1_000;

export interface Work<Task, Answer> {
  /** The verb that the processes are started with. */
  readonly verb: string;
  readonly tasks: readonly Task[];
  /** Processes at a time. */
  readonly jobs: number;
  /** The answer to a task whose process ended, and how. */
  readonly lost: (task: Task, how: string) => Answer;
}

export async function* answersTo<Task extends object, Answer>(work: Work<Task, Answer>): AsyncGenerator<Answer> {
  const { verb, tasks, jobs } = work;
  const answers = tasks.map(() => Promise.withResolvers<Answer>());
  const waiting = tasks.entries();
  const process = async (): Promise<void> => {
    let worker: ChildProcess | undefined;
    for (const [at, task] of waiting) {
      worker =
        worker && isAlive(worker)
          ? worker
          : fork(ENTRY_POINT, [verb], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
      answers[at]!.resolve(await answered(worker, task, work.lost));
    }
    if (worker && isAlive(worker)) worker.disconnect();
  };
  const workers = Array.from({ length: Math.min(jobs, tasks.length) }, process);
  for (const { promise } of answers) yield await promise;
  await Promise.all(workers);
}

/** The end of a process may be reported before the loss of its connection. */
const isAlive = ({ connected, exitCode, signalCode }: ChildProcess): boolean =>
  connected && exitCode === null && signalCode === null;

function answered<Task extends object, Answer>(
  worker: ChildProcess,
  task: Task,
  lost: (task: Task, how: string) => Answer,
): Promise<Answer> {
  return new Promise((resolve) => {
    const settle = (answer: Answer): void => {
      worker.removeAllListeners();
      resolve(answer);
    };
    const died = (how: string) => settle(lost(task, how));
    worker.once('message', (answer) => settle(answer as Answer));
    worker.once('exit', (code, signal) => died(signal ? `was ended by ${signal}` : `ended with exit code ${code}`));
    worker.once('error', (error) => died(`failed: ${error.message}`));
    // The way a process ended is more informative than that it was unreachable, and is known later.
    const unreached = (error: Error) => setTimeout(() => died(`cannot be reached: ${error.message}`), END_TIMEOUT_MS);
    worker.send(task, (error) => error && unreached(error));
  });
}
