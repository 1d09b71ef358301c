/** Asks each period, and emits the answer if it changed. */
import { pause } from './pause.ts';

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
