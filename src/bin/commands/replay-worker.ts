/** The other end of `src/bin/replay/pool.ts`: replays one log after the other until the parent has gone. */
import { replayLog } from '../replay/outcome.ts';
import type { Task } from '../replay/pool.ts';

export function replayWorker(): Promise<number> {
  process.on('message', ({ log, incarnation }: Task) => process.send?.(replayLog(log, incarnation)));
  return new Promise((resolve) => process.once('disconnect', () => resolve(0)));
}
