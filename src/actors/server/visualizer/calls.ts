/** The operations of a node's actors that are pending or failing, for the visualizer. */
import { parentOf } from '../../../kernel/address.ts';
import { memberOf } from '../../../kernel/json.ts';
import { keepNewest } from '../../../kernel/keep-newest.ts';
import type { EffectRecord, InRecord, KernelRecord } from '../../../kernel/records.ts';
import { streamError, streamOf } from './history.ts';
import type { CallView, TroubleView } from './protocol.ts';
import { shortText } from './trim.ts';

const SHOWN_MAX = 20;
const MESSAGE_MAX_CHARS = 500;
const TARGET_MAX_CHARS = 200;
/** Fields of an input that name the request's subject, the most specific first. */
const TARGETS = ['endpoint', 'server', 'url', 'path', 'file', 'kubeconfig', 'socket', 'directory'] as const;

/**
 * Pending operations, and those whose last answer was an error: the reasons of a slow start. A stream, which never
 * answers, counts as failing while its last report is a failure.
 *
 * Invariants: operations that succeeded, were cancelled, or whose actor is gone are forgotten; of either kind at most
 * {@link SHOWN_MAX} are reported, and as many errors are kept.
 */
export class Calls {
  private readonly open = new Map<number, CallView>();
  private readonly streams = new Map<number, CallView>();
  /** By actor and operation, the newest last. */
  private readonly failed = new Map<string, TroubleView>();

  /** `t` is the time of the record's turn. */
  take(record: KernelRecord, t: number): void {
    if (record.k === 'effect') this.begin(record, t);
    else if (record.k === 'in') this.handleInput(record, t);
    else if (record.k === 'cancel') this.cancel(record.id);
    else if (record.k === 'state' && record.status !== undefined) this.forget(record.at);
    else if (record.k === 'result') this.settle(record);
  }

  /** The oldest first. */
  pending(): readonly CallView[] {
    return [...this.open.values()].slice(0, SHOWN_MAX);
  }

  /** The newest is the last. */
  troubles(): readonly TroubleView[] {
    return [...this.failed.values()];
  }

  private begin({ id, n, at, name, class: kind, input }: EffectRecord, t: number): void {
    const target = targetOf(input);
    const calls = kind === 'stream' ? this.streams : this.open;
    calls.set(id, { n, t, at: parentOf(at), name, ...(target === undefined ? {} : { target }) });
  }

  private cancel(id: number): void {
    this.open.delete(id);
    this.streams.delete(id);
  }

  private handleInput(record: InRecord, t: number): void {
    const id = streamOf(record);
    const stream = id === undefined ? undefined : this.streams.get(id);
    if (stream) this.end({ ...stream, n: record.n, t }, streamError(record), true);
  }

  private settle({ id, n, t, name, at, error }: KernelRecord & { readonly k: 'result' }): void {
    const target = (this.open.get(id) ?? this.streams.get(id))?.target;
    this.cancel(id);
    this.end({ n, t, at: parentOf(at), name, ...(target === undefined ? {} : { target }) }, error?.message);
  }

  /** The call has succeeded, or has failed again. */
  private end(call: CallView, error: string | undefined, isStream = false): void {
    const key = `${call.at} ${call.name}`;
    const times = (this.failed.get(key)?.times ?? 0) + 1;
    this.failed.delete(key);
    if (error === undefined) return;
    const message = shortText(error, MESSAGE_MAX_CHARS);
    this.failed.set(key, { ...call, message, times, ...(isStream ? { isStream } : {}) });
    keepNewest(this.failed, SHOWN_MAX);
  }

  private forget(actor: string): void {
    for (const [key, { at }] of this.failed) if (at === actor || at.startsWith(`${actor}/`)) this.failed.delete(key);
  }
}

function targetOf(input: unknown): string | undefined {
  const named = TARGETS.map((name) => memberOf(input, name));
  const target = named.find((value): value is string => typeof value === 'string' && value !== '');
  return target === undefined ? undefined : shortText(target, TARGET_MAX_CHARS);
}
