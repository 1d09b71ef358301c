/**
 * Patience with a runtime that does not tell its status: it may be restarted, or hang, for a while before it is down.
 *
 * Invariants: one question at a time, whose answer is used however late it comes; no failure is told before the runtime
 * was silent for the whole time.
 */
import type { RuntimeStatusItem } from '../../machines/model/operations/runtime.ts';
import { pause } from '../pause.ts';

/** As in the kubelet: an update of a runtime takes a few seconds, and the pods need it only for changes. */
const DOWN_AFTER_MS = 30_000;

export class StatusPatience {
  readonly #ask: () => Promise<RuntimeStatusItem>;
  readonly #signal: AbortSignal;
  readonly #downAfterMs: number;
  #seenMs = performance.now();
  #pending: Promise<RuntimeStatusItem> | null = null;

  constructor(ask: () => Promise<RuntimeStatusItem>, signal: AbortSignal, downAfterMs: number = DOWN_AFTER_MS) {
    this.#ask = ask;
    this.#signal = signal;
    this.#downAfterMs = downAfterMs;
  }

  /** The status, or why the runtime is down; `null`: it has still time to tell. */
  async next(): Promise<RuntimeStatusItem | null> {
    this.#pending ??= this.#ask();
    const item = await this.#answered(this.#pending);
    if (item !== null) this.#pending = null;
    if (item?.type === 'runtime.statusChanged') {
      this.#seenMs = performance.now();
      return item;
    }
    if (this.#leftMs() > 0) return null;
    return item ?? { type: 'runtime.statusFailed', message: `it has not answered for ${this.#downAfterMs / 1_000}s` };
  }

  readonly #leftMs = (): number => this.#seenMs + this.#downAfterMs - performance.now();

  async #answered(answer: Promise<RuntimeStatusItem>): Promise<RuntimeStatusItem | null> {
    const settled = new AbortController();
    const signal = AbortSignal.any([this.#signal, settled.signal]);
    try {
      return await Promise.race([answer, pause(this.#leftMs(), signal).then(() => null)]);
    } finally {
      settled.abort();
    }
  }
}
