/**
 * Replays many logs in several processes at a time.
 *
 * Owns: the child processes. Invariants: outcomes come in the order of the logs, each as soon as those before it are
 * there; a process that ends without an answer costs the log that it had, which is then `not-tested`, and nothing else.
 * A process, not a thread: one that runs out of memory or is killed takes no other with it.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { PACKAGE_DIRECTORY } from '../../actors/package-directory.ts';
import { notTested, type Outcome, type Task } from './outcome.ts';
import { WORKER_VERB } from './worker-verb.ts';

const DOOR = `${PACKAGE_DIRECTORY}/src/bin/statelet.js`;

/** From the loss of the connection until the end of the process is known. */
const END_PATIENCE_MS = 1_000;

export async function* replayAll(tasks: readonly Task[], jobs: number): AsyncGenerator<Outcome> {
  const outcomes = tasks.map(() => Promise.withResolvers<Outcome>());
  const waiting = tasks.entries();
  const work = async (): Promise<void> => {
    let worker: ChildProcess | undefined;
    for (const [at, task] of waiting) {
      worker =
        worker && isAlive(worker)
          ? worker
          : fork(DOOR, [WORKER_VERB], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
      outcomes[at]!.resolve(await answered(worker, task));
    }
    if (worker && isAlive(worker)) worker.disconnect();
  };
  const workers = Array.from({ length: Math.min(jobs, tasks.length) }, work);
  for (const { promise } of outcomes) yield await promise;
  await Promise.all(workers);
}

/** An end may be known before the loss of the connection is. */
const isAlive = ({ connected, exitCode, signalCode }: ChildProcess): boolean =>
  connected && exitCode === null && signalCode === null;

function answered(worker: ChildProcess, task: Task): Promise<Outcome> {
  return new Promise((resolve) => {
    const settle = (outcome: Outcome): void => {
      worker.removeAllListeners();
      resolve(outcome);
    };
    const died = (why: string) => settle(notTested(task.log, `the process that replayed it ${why}`));
    worker.once('message', (outcome) => settle(outcome as Outcome));
    worker.once('exit', (code, signal) => died(signal ? `was ended by ${signal}` : `ended with exit code ${code}`));
    worker.once('error', (error) => died(`failed: ${error.message}`));
    // How a process ended says more than that it could not be reached, and comes after it.
    const unreached = (error: Error) => setTimeout(() => died(`cannot be reached: ${error.message}`), END_PATIENCE_MS);
    worker.send(task, (error) => error && unreached(error));
  });
}
