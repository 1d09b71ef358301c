/** Waits of any length, waits for an abort, and periodic requests whose answer is emitted when it changed. */
import { setTimeout as sleep } from 'node:timers/promises';

/** The longest timer of Node (24.8 days): a longer one would end at once. */
export const TIMER_MAX_MS = 2_147_483_647;

/** The time limit for a timer: a limit beyond the longest timer is as good as none. */
export const limitMs = (ms: number): number => Math.min(ms, TIMER_MAX_MS);

/**
 * Waits, however long it is, or until the abort.
 *
 * @throws RangeError for a time that is no number: a loop with such waits would never rest
 */
export async function pause(ms: number, signal: AbortSignal, options: { readonly ref?: boolean } = {}): Promise<void> {
  if (Number.isNaN(ms)) throw new RangeError(`a wait of ${ms} milliseconds`);
  const dueMs = performance.now() + ms;
  let leftMs = Math.max(0, ms);
  do {
    await sleep(limitMs(leftMs), undefined, { ...options, signal }).catch(() => {});
    leftMs = dueMs - performance.now();
  } while (leftMs >= 1 && !signal.aborted);
}

/** Resolves when the machine has cancelled the operation, or after the timeout. */
export function aborted(signal: AbortSignal, withinMs?: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = withinMs === undefined ? undefined : setTimeout(resolve, withinMs);
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    if (signal.aborted) done();
    else signal.addEventListener('abort', done, { once: true });
  });
}

export interface Watch<Item> {
  /** `null`: no answer this time; the last one remains valid. */
  readonly ask: () => Promise<Item | null>;
  readonly periodMs: number;
  readonly signal: AbortSignal;
  readonly emit: (item: Item) => void;
}

/** Asks until `signal` is aborted. */
export async function watchChanges<Item>({ ask, periodMs, signal, emit }: Watch<Item>): Promise<null> {
  let last = '';
  while (!signal.aborted) {
    const item = await ask();
    const text = item === null ? last : JSON.stringify(item);
    if (item !== null && text !== last && !signal.aborted) emit(item);
    last = text;
    await pause(periodMs, signal);
  }
  return null;
}
