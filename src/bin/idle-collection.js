/**
 * What a process does when it comes to rest: it gives memory back. `memory-limits.js` says what it may take while it
 * works.
 */
import { getHeapStatistics } from 'node:v8';

/** At rest the process allocates less than this between two checks: leases and probes, but no batch of pods. */
const REST_CHECK_MS = 2_000;
const REST_BYTES = 6 * 2 ** 20;
/** What must have been allocated since the last time for a collection (some 100 ms) to be worth it. */
const WORTH_BYTES = 32 * 2 ** 20;

/**
 * From now on gives memory back whenever the process comes to rest; `before` is called the first time, while V8 still
 * has all that it compiled. Does nothing in a process that is not lean.
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
