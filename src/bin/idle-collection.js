/**
 * Returns memory to the machine when the process becomes idle. `memory-limits.js` has the limits while it works.
 */
import { getHeapStatistics } from 'node:v8';

/** An idle process allocates less than this between two checks: for leases and probes, but not for a batch of pods. */
const REST_CHECK_MS = 2_000;
const REST_BYTES = 6 * 2 ** 20;
/** A collection takes about 100 ms: it is worth this only if so much was allocated since the last one. */
const WORTH_BYTES = 32 * 2 ** 20;

/**
 * From now on returns memory whenever the process becomes idle. `before` is called before the first collection, while V8
 * still has all compiled code. Does nothing in a process without `--expose-gc`, that is, without `memory-limits.js`.
 */
export function collectWhenIdle(before = () => {}, checkMs = REST_CHECK_MS) {
  const collect = globalThis.gc;
  if (collect === undefined) return;
  let collectedAt = 0;
  let checkedAt = 0;
  const check = () => {
    const allocated = getHeapStatistics().total_allocated_bytes;
    if (allocated - checkedAt < REST_BYTES && allocated - collectedAt > WORTH_BYTES) {
      if (collectedAt === 0) before();
      collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
      collectedAt = getHeapStatistics().total_allocated_bytes;
    }
    checkedAt = allocated;
  };
  setInterval(check, checkMs).unref();
}
