/**
 * The data for the visualizer's page: the read model of the kernel, and a stream of turns. Also why a
 * started node is not Ready, by the contexts of the actors that decide it.
 *
 * Hears: `onTurn` of the kernel, which updates the read model whether a page is open or not. Invariants: it only
 * observes; values that may be secrets are hidden in all its output ({@link hidden}); a slow follower is disconnected,
 * so that its buffer never exceeds FOLLOWER_BUFFER_CHARS.
 */
import type { Address } from '../../../kernel/address.ts';
import type { PendingTimer } from '../../../kernel/clock.ts';
import { memberOf } from '../../../kernel/json.ts';
import type { KernelRecord } from '../../../kernel/records.ts';
import type { NodeCondition } from '../../../machines/model/api/pod.ts';
import type { Awaitable } from '../node-pods.ts';
import type { SeenTurn } from './history.ts';
import { type ObservedKernel, Observer } from './observer.ts';
import { driversOf, nextTryOf } from './pods.ts';
import type {
  ActorDetail,
  DriverView,
  HealthFacts,
  HelloMessage,
  PhasesView,
  PodView,
  RecordsView,
  ShownRecord,
  TimerView,
  TreeView,
  TurnMessage,
} from './protocol.ts';
import { hidden, shortText, trimmed } from './trim.ts';

/** The limit of a reason: a condition may quote any text of a runtime. */
const REASON_MAX_CHARS = 1_000;

type SnapshotOf = (address: Address) => unknown;

/** The used part of the context of `nodeStatus`, in a node that joins a cluster. */
interface StatusContext {
  readonly register?: boolean;
  readonly node?: { readonly status?: { readonly conditions?: readonly NodeCondition[] } } | null;
}

/** Of `clientCertificate`. */
interface CertificateContext {
  /** Null until there is a valid one. */
  readonly certificate?: object | null;
  /** Empty before a certificate was requested. */
  readonly csrName?: string;
}

/** The used part of the context of `runtimeState`, which decides for a standalone node. */
interface RuntimeContext {
  readonly runtimeError?: string;
  readonly networkError?: string;
  readonly plegError?: string;
}

/**
 * Why a started node is not Ready, as shown in its API server. A node that is not registered yet is not Ready, whatever
 * its conditions. Undefined: the node is Ready, or its start has not reached the relevant actors.
 */
function notReadyReason(root: Address, snapshotOf: SnapshotOf): string | undefined {
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows the machine of this name
  const contextOf = <Context>(name: string): Context | undefined =>
    (snapshotOf(`${root}/${name}`) as { readonly context?: Context } | undefined)?.context;
  const status = contextOf<StatusContext>('nodeStatus');
  const reason = status
    ? clusterReason(status, contextOf<CertificateContext>('clientCertificate'))
    : runtimeReason(contextOf<RuntimeContext>('runtimeState'));
  return reason === undefined ? undefined : shortText(reason, REASON_MAX_CHARS);
}

function clusterReason({ node, register }: StatusContext, client: CertificateContext = {}): string | undefined {
  if (!node && client.certificate === null && client.csrName)
    return `its client certificate is missing: CertificateSigningRequest ${client.csrName} is not approved and signed`;
  if (!node)
    return register ? 'it is not registered with the API server' : 'no client of the API server has created its Node';
  const ready = node.status?.conditions?.find(({ type }) => type === 'Ready');
  if (!ready) return 'its status is not published';
  return ready.status === 'True' ? undefined : (ready.message ?? ready.reason);
}

function runtimeReason(context: RuntimeContext = {}): string | undefined {
  const { runtimeError, plegError, networkError } = context;
  return [runtimeError, plegError, networkError].filter(Boolean).join(', ') || undefined;
}

/** Characters of an actor's context: a pod with its status, not a cache of a whole node. */
const CONTEXT_MAX_CHARS = 65_536;
/** Characters buffered for one follower: some seconds of a busy start. */
const FOLLOWER_BUFFER_CHARS = 4 * 1024 * 1024;
/** Records of one answer: preparing them takes the main thread about 10 ms. */
const ANSWER_RECORDS_MAX = 250;
/** Turns whose duration is kept. */
const TURNS_MAX = 240;
/** Milliseconds before a page reconnects. */
const RETRY_MS = 1_000;

/** The requests of the page's server. */
export interface Feed {
  tree(): Awaitable<TreeView>;
  phases(): Awaitable<PhasesView>;
  podList(): Awaitable<readonly PodView[]>;
  /** The current state of the actor. */
  actor(asked: { readonly address: string }): Awaitable<ActorDetail | null>;
  /** The first records after one, as many as fit into an answer. */
  records(asked: { readonly after: number }): Awaitable<RecordsView>;
  health(): Awaitable<HealthFacts>;
  /**
   * Streams the turns after a record, or from now on, as server-sent events. `emit` resolves when the page accepted
   * them. Ends with the signal, or if the page is too slow: it reconnects with the number of its last record.
   */
  follow(asked: { readonly after: number | null }, following: Following): Promise<unknown>;
}

export interface Following {
  readonly signal: AbortSignal;
  readonly emit: (events: string) => unknown;
}

/** The data about a kernel that the page needs. */
export interface ShownKernel extends ObservedKernel {
  readonly timers: { list(): readonly PendingTimer[] };
  readonly outbox: { list(): readonly object[] };
  readonly queueLength: number;
}

export interface FeedOptions {
  /** The kernel's clock, for durations until now. */
  readonly now?: () => number;
  /** Receives each later turn. */
  readonly onSeen?: (turn: SeenTurn) => void;
}

export class KernelFeed implements Feed {
  private readonly options: FeedOptions;
  private readonly observer: Observer;
  private readonly followers = new Set<Follower>();
  private kernel: ShownKernel | undefined;
  private readonly turnsMs: number[] = [];

  constructor(options: FeedOptions = {}) {
    this.options = options;
    this.observer = new Observer();
  }

  /** For the kernel's option of this name; may be called before any request. */
  readonly onTurn = (records: readonly KernelRecord[], kernel: ShownKernel, tookMs = 0): void => {
    this.kernel = kernel;
    if (this.turnsMs.push(tookMs) > TURNS_MAX) this.turnsMs.shift();
    const turn = this.observer.observe(records, kernel);
    this.options.onSeen?.(turn);
    if (this.followers.size === 0) return;
    const event = turnEvent(this.message(turn));
    for (const follower of this.followers) follower.send(event);
  };

  private now(): number {
    return this.options.now?.() ?? Date.now();
  }

  tree(): TreeView {
    const { incarnation, node, root, n, turn } = this.observer;
    return { incarnation, node, root, n, turn, now: this.now(), actors: this.observer.views() };
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
    const { pods, claims, root } = this.observer;
    return pods.list().map((pod) => {
      const wait = claims.waitOf(pod.uid);
      if (wait === undefined) return pod;
      return { ...pod, claims: { ...wait, ...nextTryOf(this.timersOf(`${root}/pods/pod-${pod.uid}`)) } };
    });
  }

  drivers(): readonly DriverView[] {
    return driversOf(this.kernel?.snapshotOf(`${this.observer.root}/draManager`));
  }

  private timersOf(address: string): readonly TimerView[] {
    const timers = (this.kernel?.timers.list() ?? []).filter(({ target }) => target === address);
    return timers.map(({ due, event }) => ({ due, event: event.type }));
  }

  actor({ address }: { readonly address: string }): ActorDetail | null {
    const actor = this.observer.view(address);
    if (!actor) return null;
    const context = contextText(this.kernel?.snapshotOf(address));
    return {
      actor,
      ...(context === undefined ? {} : { context }),
      timers: this.timersOf(address),
    };
  }

  records({ after }: { readonly after: number }): RecordsView {
    const { records, more } = this.observer.history.recordsAfter(after, ANSWER_RECORDS_MAX);
    return { records: records.map(shown), more };
  }

  health(): HealthFacts {
    const { kernel, turnsMs } = this;
    const { rss, heapUsed } = process.memoryUsage();
    const requests = kernel?.outbox.list().length ?? 0;
    return {
      queue: kernel?.queueLength ?? 0,
      turnsMs,
      rssBytes: rss,
      heapBytes: heapUsed,
      // A request has its own actor in XState, which the tree does not show.
      actors: (kernel?.addresses.length ?? 0) - requests,
      drivers: this.drivers(),
      timers: kernel?.timers.list().length ?? 0,
      requests,
    };
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

  /** Actors are shown in their present state, even in an earlier turn. */
  private message({ n, turn, t, records, touched, gone }: SeenTurn): TurnMessage {
    const actors = [...touched].flatMap((address) => this.observer.view(address) ?? []);
    return { n, turn, t, records: records.map(shown), actors, gone };
  }
}

/** The context of a snapshot as text for a page; undefined without one. */
export function contextText(snapshot: unknown): string | undefined {
  if (snapshot === undefined) return undefined;
  return shortText(JSON.stringify(hidden(memberOf(snapshot, 'context')), null, 2) ?? '', CONTEXT_MAX_CHARS);
}

/** The parts of a record that a page can show and a reader may see. */
export const shown = (record: ShownRecord): ShownRecord => ({
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
    // A follower that reconnects gets all missed turns in one message of any size.
    if (this.waitingChars > FOLLOWER_BUFFER_CHARS && this.waitingChars > events.length) this.end();
  }
}
