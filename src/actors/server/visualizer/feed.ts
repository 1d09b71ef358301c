/**
 * What the page of the visualizer is shown: the read model of the kernel, and each turn for those who follow.
 *
 * Hears: `onTurn` of the kernel, which keeps the read model current whether a page is open or not. Invariants: it only
 * looks; values that may be secrets are hidden in all that it gives away ({@link hidden}); a follower that takes too
 * slowly is let go instead of being waited for, so that what waits for it never passes FOLLOWER_BUFFER_CHARS.
 */
import type { Kernel } from '../../../kernel/kernel.ts';
import type { KernelRecord } from '../../../kernel/records.ts';
import { hidden } from './hidden.ts';
import type { SeenTurn } from './history.ts';
import { Observer } from './observer.ts';
import type {
  ActorDetail,
  HelloMessage,
  PhasesView,
  PodView,
  RecordsView,
  ShownRecord,
  TreeView,
  TurnMessage,
} from './protocol.ts';
import { notReadyReason } from './readiness.ts';
import { shortText, trimmed } from './trim.ts';

/** Characters of an actor's context: a pod with its status, not a cache of a whole node. */
const CONTEXT_MAX_CHARS = 65_536;
/** Records of one actor in its details. */
const ACTOR_RECORDS = 100;
/** Characters waiting for one follower: some seconds of a busy start. */
const FOLLOWER_BUFFER_CHARS = 4 * 1024 * 1024;
/** Milliseconds that a page waits before it comes back. */
const RETRY_MS = 1_000;

/** At once where the kernel is, later over a thread. */
type Awaitable<Value> = Value | Promise<Value>;

/** The requests of the page's server. */
export interface Feed {
  tree(): Awaitable<TreeView>;
  phases(): Awaitable<PhasesView>;
  podList(): Awaitable<readonly PodView[]>;
  /** As it is now, or as it was after record `at` of a journal. */
  actor(asked: { readonly address: string; readonly at: number }): Awaitable<ActorDetail | null>;
  records(asked: { readonly after: number; readonly limit: number | null }): Awaitable<RecordsView>;
  /**
   * Streams the turns after a record, or from now on, as server-sent events. `emit` resolves when the page took it.
   * Ends with the signal, or when the page is too slow: it comes back with the number of the last record that it saw.
   */
  follow(asked: { readonly after: number | null }, following: Following): Promise<unknown>;
}

export interface Following {
  readonly signal: AbortSignal;
  readonly emit: (events: string) => unknown;
}

/** A journal that was run again to be looked at. */
export interface Recorded {
  /** Records that can be looked back at. */
  readonly recordsMax: number;
  /** The actors as they were at the end of the turn of this record; undefined: it is not in the journal. */
  readonly kernelAt: (n: number) => Kernel | undefined;
  /** Why what is shown is not all of the journal. */
  readonly note?: () => string | undefined;
}

export interface FeedOptions {
  /** The kernel's clock, for what lasts until now. */
  readonly now?: () => number;
  /** Of a journal that is looked at; absent: a node that runs. */
  readonly recorded?: Recorded;
}

export class KernelFeed implements Feed {
  private readonly options: FeedOptions;
  private readonly observer: Observer;
  private readonly followers = new Set<Follower>();
  private kernel: Kernel | undefined;

  constructor(options: FeedOptions = {}) {
    this.options = options;
    this.observer = new Observer(options.recorded?.recordsMax);
  }

  /** For {@link Kernel}'s option of this name; may be called before anything is asked. */
  readonly onTurn = (records: readonly KernelRecord[], kernel: Kernel): void => {
    this.kernel = kernel;
    const turn = this.observer.observe(records, kernel);
    if (this.followers.size === 0) return;
    const event = turnEvent(this.message(turn));
    for (const follower of this.followers) follower.send(event);
  };

  private now(): number {
    return this.options.now?.() ?? Date.now();
  }

  tree(): TreeView {
    const { incarnation, node, root, n, turn, history } = this.observer;
    const { recorded } = this.options;
    const note = recorded?.note?.();
    const facts = { incarnation, node, root, n, turn, now: this.now(), recordsMax: history.recordsMax };
    return { ...facts, live: !recorded, ...(note ? { note } : {}), actors: this.observer.views() };
  }

  phases(): PhasesView {
    const { phases, failure, calls } = this.observer;
    const facts = {
      started: phases.started,
      now: this.now(),
      phases: phases.list(),
      troubles: calls.troubles(),
      pending: calls.pending(),
    };
    const notReady = notReadyReason(this.observer.root, (address) => this.kernel?.snapshotOf(address));
    return { ...facts, ...(failure ? { failure } : {}), ...(notReady === undefined ? {} : { notReady }) };
  }

  podList(): readonly PodView[] {
    return this.observer.pods.list();
  }

  actor({ address, at }: { readonly address: string; readonly at: number }): ActorDetail | null {
    const actor = this.observer.view(address);
    if (!actor) return null;
    const past = at < 0 ? undefined : this.options.recorded?.kernelAt(at);
    const kernel = past ?? this.kernel;
    const snapshot = kernel?.snapshotOf(address) as { context?: unknown } | undefined;
    const context = snapshot && shortText(JSON.stringify(hidden(snapshot.context), null, 2) ?? '', CONTEXT_MAX_CHARS);
    const timers = (kernel?.timers.list() ?? []).filter((timer) => timer.target === address);
    return {
      actor,
      ...(past ? { at } : {}),
      ...(context === undefined ? {} : { context }),
      timers: timers.map(({ due, event }) => ({ due, event: event.type })),
      records: this.observer.history.recordsOf(address, ACTOR_RECORDS).map(shown),
    };
  }

  records({ after, limit }: { readonly after: number; readonly limit: number | null }): RecordsView {
    const { history } = this.observer;
    const { records, forgotten } = history.recordsAfter(after, limit ?? history.recordsMax);
    return { records: records.map(shown), forgotten };
  }

  async follow({ after }: { readonly after: number | null }, following: Following): Promise<null> {
    const { n, history, incarnation } = this.observer;
    const last = after ?? n;
    const known = last <= n ? history.turnsAfter(last) : undefined;
    const hello: HelloMessage = { incarnation, resumed: known !== undefined, now: this.now() };
    const missed = (known ?? []).map((turn) => turnEvent(this.message(turn)));
    const follower = new Follower(following);
    follower.send(`retry: ${RETRY_MS}\nevent: hello\ndata: ${JSON.stringify(hello)}\n\n${missed.join('')}`);
    this.followers.add(follower);
    await follower.ended;
    this.followers.delete(follower);
    return null;
  }

  /** The actors of a turn of the past are shown as they are now: a page shows the present. */
  private message({ n, turn, t, records, touched, gone }: SeenTurn): TurnMessage {
    const actors = [...touched].flatMap((address) => this.observer.view(address) ?? []);
    return { n, turn, t, records: records.map(shown), actors, gone };
  }
}

/** Of a record only what a page can show and a reader may see. */
const shown = (record: ShownRecord): ShownRecord => ({
  ...record,
  record: trimmed(hidden(record.record)) as ShownRecord['record'],
});

const turnEvent = (message: TurnMessage): string =>
  `id: ${message.n}\nevent: turn\ndata: ${JSON.stringify(message)}\n\n`;

class Follower {
  readonly ended: Promise<void>;
  private end: () => void = () => {};
  private waitingChars = 0;
  private readonly emit: Following['emit'];

  constructor({ signal, emit }: Following) {
    this.emit = emit;
    this.ended = new Promise((resolve) => {
      this.end = resolve;
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  send(events: string): void {
    this.waitingChars += events.length;
    void Promise.resolve(this.emit(events)).then(() => (this.waitingChars -= events.length));
    // What was missed comes in one piece, however large it is.
    if (this.waitingChars > FOLLOWER_BUFFER_CHARS && this.waitingChars > events.length) this.end();
  }
}
