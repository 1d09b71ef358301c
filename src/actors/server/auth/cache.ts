/**
 * Answers that hold for a while: bounded, and asked for once however many wait for it.
 *
 * Invariants: an answer is never given past its time; a failure is not kept; keys are hashes, so that no credential
 * lies about in memory.
 */
import { createHmac, randomBytes } from 'node:crypto';

export interface CacheOptions<Value> {
  readonly ttlMs: (value: Value) => number;
  readonly maxEntries: number;
  readonly now?: () => number;
}

export class AnswerCache<Value> {
  private readonly options: CacheOptions<Value>;
  private readonly secret = randomBytes(32);
  private readonly kept = new Map<string, { readonly value: Value; readonly until: number }>();
  private readonly asking = new Map<string, Promise<Value>>();

  constructor(options: CacheOptions<Value>) {
    this.options = options;
  }

  async get(question: string, ask: () => Promise<Value>): Promise<Value> {
    const key = createHmac('sha256', this.secret).update(question).digest('base64');
    const now = (this.options.now ?? Date.now)();
    const known = this.kept.get(key);
    if (known && known.until > now) return known.value;
    this.kept.delete(key);
    const pending = this.asking.get(key) ?? this.ask(key, ask);
    return await pending;
  }

  private ask(key: string, ask: () => Promise<Value>): Promise<Value> {
    const answer = ask()
      .then((value) => this.keep(key, value))
      .finally(() => this.asking.delete(key));
    this.asking.set(key, answer);
    return answer;
  }

  private keep(key: string, value: Value): Value {
    const ttlMs = this.options.ttlMs(value);
    if (ttlMs > 0) this.kept.set(key, { value, until: (this.options.now ?? Date.now)() + ttlMs });
    if (this.kept.size > this.options.maxEntries) this.kept.delete(this.kept.keys().next().value!);
    return value;
  }
}
