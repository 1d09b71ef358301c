/** The other end of `src/bin/replay/pool.ts`: replays one log after the other until the parent has gone. */
import { replayLog, type Task } from '../replay/outcome.ts';

export function replayWorker(): Promise<number> {
  // A parent that has gone meanwhile hears nothing any more, which is no failure of this process.
  const ignore = (): void => undefined;
  process.on('message', (task: Task) => process.send?.(replayLog(task), undefined, undefined, ignore));
  return new Promise((resolve) => process.once('disconnect', () => resolve(0)));
}
