/**
 * A bounded cache of answers that expire, for the reviews of tokens and rights.
 *
 * Invariants: an expired answer is never returned; failures are not cached.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { keepNewest } from '../../../kernel/keep-newest.ts';

interface CacheOptions<Value> {
  readonly ttlMs: (value: Value) => number;
  readonly maxEntries: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
  readonly seen?: CacheObserver;
}

/** Receives the activity of a cache; `by` is 1 when a wait or request starts, and -1 when it ends. */
export interface CacheObserver {
  /** A lookup got its answer, or the error of the request. */
  answered(status: 'hit' | 'miss', durationMs: number): void;
  /** A lookup waits for a request in progress. */
  waits(by: 1 | -1): void;
  /** A request is sent, for all lookups of the same key. */
  fetches(by: 1 | -1): void;
  fetched(status: 'ok' | 'error'): void;
}

/** A bounded cache of answers with expiry; concurrent lookups share one request. */
export class AnswerCache<Value> {
  private readonly options: CacheOptions<Value>;
  private readonly secret = randomBytes(32);
  private readonly entries = new Map<string, { readonly value: Value; readonly until: number }>();
  private readonly pending = new Map<string, Promise<Value>>();

  constructor(options: CacheOptions<Value>) {
    this.options = options;
  }

  private now(): number {
    return this.options.now?.() ?? performance.now();
  }

  async get(question: string, ask: () => Promise<Value>): Promise<Value> {
    const key = createHmac('sha256', this.secret).update(question).digest('base64');
    const known = this.entries.get(key);
    if (known && known.until > this.now()) {
      this.options.seen?.answered('hit', 0);
      return known.value;
    }
    this.entries.delete(key);
    return await this.waited(this.pending.get(key) ?? this.ask(key, ask));
  }

  private async waited(answer: Promise<Value>): Promise<Value> {
    const { seen } = this.options;
    const beganMs = performance.now();
    seen?.waits(1);
    try {
      return await answer;
    } finally {
      seen?.waits(-1);
      seen?.answered('miss', performance.now() - beganMs);
    }
  }

  private ask(key: string, ask: () => Promise<Value>): Promise<Value> {
    this.options.seen?.fetches(1);
    const answer = ask()
      .then((value) => this.keep(key, value))
      .finally(() => {
        this.pending.delete(key);
        this.options.seen?.fetches(-1);
      });
    answer.then(
      () => this.options.seen?.fetched('ok'),
      () => this.options.seen?.fetched('error'),
    );
    this.pending.set(key, answer);
    return answer;
  }

  private keep(key: string, value: Value): Value {
    const ttlMs = this.options.ttlMs(value);
    if (ttlMs > 0) this.entries.set(key, { value, until: this.now() + ttlMs });
    keepNewest(this.entries, this.options.maxEntries);
    return value;
  }
}
