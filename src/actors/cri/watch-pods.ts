/**
 * The stream `cri.watchPods`: hints make it fast, relisting makes it correct.
 *
 * Owns relisting, at most one inspection per pod at a time, and the cache that decides what to publish (relist.ts).
 *
 * After a hint only the named sandbox or container is inspected; a hint with a status needs no inspection. The whole
 * pod is inspected when a part of the pod was removed, when the pod is unknown, and when a relist shows a difference.
 *
 * Invariants: one writer, so a pod's states are published in the order of observation, without those that the pod's
 * actor knows from its own calls; a hanging inspection of a pod delays others only by occupying one of the parallel
 * inspections; at most one relist is in flight; the first `runtime.relisted` comes after the state of every pod that
 * the runtime has.
 */
import pLimit, { type LimitFunction } from 'p-limit';
import { messageOf } from '../../kernel/thrown.ts';
import type { PodRuntimeStatus, WatchPodsItem } from '../../machines/model/operations/cri.ts';
import type { OnRuntimeActivity } from './activity.ts';
import type { CallsInProgress, Expectations, Outcome } from './calls-in-progress.ts';
import { expecting, unmetExpectations } from './calls-in-progress.ts';
import type { RuntimeClient } from './client.ts';
import { type Hint, listenForHints } from './hints.ts';
import { type Inspections, inspectInstance, inspectPod, type PodIds } from './inspect.ts';
import { groupByPod, type Instance, type ListedPod, PodCache, statusesOf } from './relist.ts';
import { type RelistPeriods, RelistTimer } from './relist-timer.ts';

/** How long a hint waits to share an inspection by the pod's actor; containerd's CRI plugin lags its events as much. */
const GATHER_MS = 10;
/** The same after a call of the pod's actor, which then inspects the pod. */
const GATHER_OWN_MS = 50;
/** How long an unknown id may belong to a sandbox whose create call has not returned: most return within this time. */
const UNKNOWN_ID_MS = 500;
/** The limit of unknown ids between two relists. The relist that they cause shows further ones, too. */
const UNKNOWN_IDS_MAX = 1_000;
/** The limit of pods inspected because of hints, several times those of a node. Others are left to the relist. */
const INSPECTIONS_MAX = 2_000;

export interface WatchOptions {
  readonly client: RuntimeClient;
  /** The inspections made by the pods' actors. */
  readonly inspections: Inspections;
  readonly own: CallsInProgress;
  readonly podIds: PodIds;
  readonly emit: (item: WatchPodsItem) => void;
  readonly signal: AbortSignal;
  /** The period until the event stream has proved reliable, and the least time between two relists. */
  readonly relistPeriodMs: number;
  readonly inspectDeadlineMs: number;
  readonly inspectParallel: number;
  readonly requestTimeoutMs: number;
  readonly periods: RelistPeriods;
  readonly now: () => number;
  readonly warn: (message: string) => void;
  readonly onSeen?: OnRuntimeActivity;
}

interface Inspection {
  expectations: Expectations;
  /** The sandboxes and containers that hints named; `null`: the whole pod is to be inspected. */
  named: Set<string> | null;
  /** Whether another inspection was requested while this one ran. */
  isRequestedAgain: boolean;
  done: Promise<void> | null;
  timer: NodeJS.Timeout | null;
  /** When the timer ends, by the clock of `performance`. */
  dueAtMs: number;
  /** Moment of the last hint without an inspection after it. */
  hintedAt: number | null;
}

/** The statuses that an inspection has shown: of the whole pod, or of the ids that were named. */
type Statuses = Pick<PodRuntimeStatus, 'sandboxes' | 'containers'>;

export class PodWatcher {
  readonly #options: WatchOptions;
  readonly #cache = new PodCache();
  readonly #inspections = new Map<string, Inspection>();
  readonly #limit: LimitFunction;
  readonly #timer: RelistTimer;
  #failing = false;
  #complete = false;
  #hinted = false;
  /** Ids that a hint named and that no list and no call has shown yet. */
  readonly #unknownIds = new Set<string>();
  /** Pods in which an own call created something that was not inspected yet: the pod's actor will inspect it. */
  readonly #making = new Set<string>();
  /** Whether an id stayed unknown: only a relist shows its pod. */
  #hasUnknown = false;
  #listeningSinceMs: number | null = null;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#limit = pLimit(options.inspectParallel);
    this.#timer = new RelistTimer(options);
  }

  async run(): Promise<void> {
    const { client, signal, warn, onSeen } = this.#options;
    const listener = {
      onHint: (hint: Hint) => this.hint(hint),
      onOpen: () => void (this.#listeningSinceMs = this.#options.now()),
      onLost: (reason?: string) => {
        this.#listeningSinceMs = null;
        this.#options.own.carriesStatuses = false;
        if (reason !== undefined && !signal.aborted) warn(`Lost the events of the container runtime: ${reason}`);
        this.#timer.end('soon');
      },
    };
    const end = () => this.#timer.end('now');
    signal.addEventListener('abort', end);
    const listening = listenForHints(client, onSeen ? { ...listener, onSeen } : listener, signal);
    try {
      while (!signal.aborted) {
        const startedAtMs = this.#options.now();
        await this.#relist(startedAtMs);
        onSeen?.({ kind: 'relisted', startedAtMs, durationMs: this.#options.now() - startedAtMs });
        await this.#timer.pause(startedAtMs, this.#hasUnknown);
      }
      await listening;
    } finally {
      signal.removeEventListener('abort', end);
      for (const { timer } of this.#inspections.values()) if (timer) clearTimeout(timer);
    }
  }

  /** Takes a hint about a sandbox or container: publishes its status, or inspects the pod after `gatherMs`. */
  hint(hint: Hint, gatherMs = GATHER_MS): void {
    const { id, uid, outcome, instance } = hint;
    if (this.#options.signal.aborted) return;
    this.#hinted = true;
    if (instance) this.#options.own.carriesStatuses = true;
    if (this.#isKnown(hint) || (instance && this.#publishInstance(instance))) return;
    const pod = uid ?? this.#cache.podOf(id);
    if (pod === undefined) {
      if (outcome !== 'gone') this.#noteUnknown(id);
      return;
    }
    if (!this.#inspections.has(pod) && this.#inspections.size >= INSPECTIONS_MAX) return this.#noteUnknown(id);
    const inspection = this.#inspectionOf(pod);
    inspection.expectations = expecting(inspection.expectations, id, outcome);
    const isOfOne = (outcome === 'running' || outcome === 'exited') && this.#cache.kindOf(id) !== undefined;
    if (isOfOne) inspection.named?.add(id);
    else inspection.named = null;
    inspection.hintedAt = this.#options.inspections.moment();
    if (inspection.done) inspection.isRequestedAgain = true;
    else this.#schedule(pod, inspection, gatherMs);
  }

  /** Whether the pod's actor knows the outcome of the hint, or will get it with the answer to its own call. */
  #isKnown({ id, uid, outcome, instance, isNew = false }: Hint): boolean {
    const { own } = this.#options;
    if (instance && own.isStarting(id)) own.observed(instance);
    const isMaking = uid !== undefined && own.isMaking(uid);
    const pod = uid ?? this.#cache.podOf(id);
    if (isNew) return isMaking || this.#cache.podOf(id) !== undefined;
    if (outcome === 'gone') return pod !== undefined && own.isRemoving(pod);
    if (outcome === 'exited') return this.#cache.hasEnded(id);
    const isMade = outcome === 'running' && isMaking && instance?.kind === 'sandbox';
    if (isMade) own.observed(instance);
    return isMade || (outcome === 'running' && own.isStarting(id));
  }

  /** Publishes the status of a sandbox or container; `false` if its pod is unknown. */
  #publishInstance(instance: Instance): boolean {
    if (!this.#cache.hasPublished(instance.uid)) return false;
    this.#publish(this.#cache.observed(instance, this.#options.now()));
    return true;
  }

  /** Takes a status that the pod's actor requested: other actors need only the end of the pod. */
  publishOwnInspection(status: PodRuntimeStatus): void {
    this.#making.delete(status.uid);
    this.#publish(this.#cache.inspected(status).filter(({ type }) => type !== 'runtime.podChanged'));
  }

  /** Takes the state of one sandbox or container from a call of the pod's own actor. */
  publishOwnInstance(instance: Instance): void {
    this.#making.delete(instance.uid);
    this.#cache.observed(instance, this.#options.now());
  }

  podOf(id: string): string | undefined {
    return this.#cache.podOf(id);
  }

  /** Whether the pod's actor knows that the sandbox or container has ended. */
  hasEnded(id: string): boolean {
    return this.#cache.hasEnded(id);
  }

  /** Takes the end of the agent's own call, which should have this outcome. */
  called(id: string, outcome: Outcome): void {
    this.hint({ id, outcome }, GATHER_OWN_MS);
  }

  /** Records an id that the runtime returned to the agent's own call. */
  learn(id: string, uid: string): void {
    this.#unknownIds.delete(id);
    this.#making.add(uid);
    this.#cache.learn(id, uid, this.#options.now());
  }

  #noteUnknown(id: string): void {
    if (this.#unknownIds.size >= UNKNOWN_IDS_MAX) return;
    this.#unknownIds.add(id);
    const relistIfUnknown = () => {
      if (!this.#unknownIds.has(id)) return;
      this.#hasUnknown = true;
      this.#timer.end('soon');
    };
    setTimeout(relistIfUnknown, UNKNOWN_ID_MS).unref();
  }

  #publish(items: readonly WatchPodsItem[]): void {
    if (this.#options.signal.aborted) return;
    for (const item of items) this.#options.emit(item);
  }

  async #list(): Promise<ReadonlyMap<string, ListedPod>> {
    const { client, requestTimeoutMs: timeoutMs, signal } = this.#options;
    const [{ items }, { containers }] = await Promise.all([
      client.call('ListPodSandbox', {}, { timeoutMs, signal }),
      client.call('ListContainers', {}, { timeoutMs, signal }),
    ]);
    return groupByPod(items, containers);
  }

  async #relist(startedAtMs: number): Promise<void> {
    let listed: ReadonlyMap<string, ListedPod>;
    const announced = this.#unknownIds.size > 0;
    this.#unknownIds.clear();
    this.#hasUnknown = false;
    try {
      listed = await this.#list();
    } catch (error) {
      if (!this.#failing) this.#publish([{ type: 'runtime.relistFailing', message: messageOf(error) }]);
      this.#failing = true;
      this.#scheduleRelist(startedAtMs, false);
      return;
    }
    if (this.#failing) this.#publish([{ type: 'runtime.relistWorking' }]);
    this.#failing = false;
    const { inspect: changed, items } = this.#cache.relisted(listed, startedAtMs);
    const inspect = changed.filter((uid) => !this.#complete || !this.#making.delete(uid));
    for (const uid of inspect) this.#options.podIds.shown(uid, listed.get(uid) ?? { sandboxIds: [], containerIds: [] });
    this.#options.podIds.retain(listed);
    this.#publish(items);
    const unannounced = inspect.filter((uid) => !this.#inspections.has(uid));
    this.#scheduleRelist(startedAtMs, !announced && unannounced.length + items.length > 0);
    const inspected = inspect.map((uid) => {
      const inspection = this.#inspectionOf(uid);
      inspection.named = null;
      return this.#inspect(uid, inspection, listed.get(uid), startedAtMs);
    });
    if (this.#complete) return;
    await Promise.all(inspected);
    this.#complete = true;
    this.#publish([{ type: 'runtime.relisted', uids: [...listed.keys()] }]);
  }

  /** Schedules the next relist by the evidence of this relist about the event stream. */
  #scheduleRelist(startedAtMs: number, foundUnannounced: boolean): void {
    const since = this.#listeningSinceMs;
    this.#timer.schedule({
      listening: since !== null && startedAtMs - since >= this.#options.relistPeriodMs,
      missed: this.#complete && foundUnannounced,
      troubled: this.#failing || this.#cache.staleCount > 0,
      active: this.#hinted,
    });
    this.#hinted = false;
  }

  #inspectionOf(uid: string): Inspection {
    const known = this.#inspections.get(uid);
    if (known) return known;
    const inspection: Inspection = {
      expectations: new Map(),
      named: new Set(),
      isRequestedAgain: false,
      done: null,
      timer: null,
      dueAtMs: 0,
      hintedAt: null,
    };
    this.#inspections.set(uid, inspection);
    return inspection;
  }

  /** Inspects now, or once more after the inspection in progress. */
  #inspect(uid: string, inspection: Inspection, ids?: ListedPod, listedAtMs?: number): Promise<void> {
    if (inspection.timer) clearTimeout(inspection.timer);
    inspection.timer = null;
    if (inspection.done) {
      inspection.isRequestedAgain = true;
      return inspection.done;
    }
    inspection.done = this.#inspectUntilRest(uid, inspection, ids, listedAtMs);
    return inspection.done;
  }

  /** Ends synchronously when no further inspection is requested: a later request starts a new loop. */
  async #inspectUntilRest(uid: string, inspection: Inspection, ids?: ListedPod, listedAtMs?: number): Promise<void> {
    try {
      let status = await this.#inspectNow(uid, inspection, ids, listedAtMs);
      while (inspection.isRequestedAgain && !this.#options.signal.aborted) {
        inspection.isRequestedAgain = false;
        status = await this.#inspectNow(uid, inspection);
      }
      if (status && !this.#options.signal.aborted) this.#follow(uid, inspection, status);
    } finally {
      inspection.done = null;
      if (!inspection.timer) this.#inspections.delete(uid);
    }
  }

  /** The inspection to make now: the one of the pod's own actor, of the ids that hints named, or of the whole pod. */
  #inspectNow(uid: string, inspection: Inspection, ids?: ListedPod, listedAtMs?: number): Promise<Statuses | null> {
    const shared = this.#inspectionByActor(uid, inspection);
    const named = inspection.named && new Set([...inspection.named, ...inspection.expectations.keys()]);
    inspection.named = new Set();
    if (shared) return shared;
    return this.#limit(() => (named ? this.#inspectInstances(uid, named) : this.#inspectPod(uid, ids, listedAtMs)));
  }

  /** Inspects again while an announced change is not visible yet. */
  #follow(uid: string, inspection: Inspection, seen: Statuses): void {
    const { open, waitMs } = unmetExpectations(inspection.expectations, seen);
    inspection.expectations = open;
    if (waitMs !== null) this.#schedule(uid, inspection, waitMs);
  }

  /** Schedules an inspection; of several due times the earliest counts. */
  #schedule(uid: string, inspection: Inspection, ms: number): void {
    const dueAtMs = performance.now() + ms;
    if (inspection.timer && inspection.dueAtMs <= dueAtMs) return;
    if (inspection.timer) clearTimeout(inspection.timer);
    inspection.dueAtMs = dueAtMs;
    inspection.timer = setTimeout(() => void this.#inspect(uid, inspection), ms);
  }

  /** The inspection by the pod's actor, if it began after the last hint; `undefined`: the pod must be inspected. */
  #inspectionByActor(uid: string, inspection: Inspection): Promise<Statuses | null> | undefined {
    const { hintedAt } = inspection;
    inspection.hintedAt = null;
    const status = hintedAt === null ? undefined : this.#options.inspections.after(uid, hintedAt);
    return status?.then(
      (seen) => {
        this.#publish(this.#cache.inspected(seen));
        return seen;
      },
      () => this.#limit(() => this.#inspectPod(uid)),
    );
  }

  /** Inspects the sandboxes and containers that hints named, or the whole pod if one of these is gone. */
  async #inspectInstances(uid: string, named: ReadonlySet<string>): Promise<Statuses | null> {
    const { client, inspectDeadlineMs: timeoutMs, signal, now } = this.#options;
    const kinds = [...named].map((id) => [id, this.#cache.kindOf(id)] as const);
    if (kinds.length === 0 || kinds.some(([, kind]) => kind === undefined)) return this.#inspectPod(uid);
    const observedAtMs = now();
    try {
      const found = await Promise.all(
        kinds.map(([id, kind]) => inspectInstance(client, kind ?? 'container', id, { timeoutMs, signal })),
      );
      const instances = found.filter((instance) => instance !== undefined);
      if (instances.length < found.length) return await this.#inspectPod(uid);
      for (const instance of instances) this.#publish(this.#cache.observed(instance, observedAtMs));
      return statusesOf(instances);
    } catch (error) {
      if (!signal.aborted) this.#publish(this.#cache.failed(uid, messageOf(error)));
      return null;
    }
  }

  async #inspectPod(uid: string, ids?: ListedPod, listedAtMs?: number): Promise<PodRuntimeStatus | null> {
    const { client, podIds, inspectDeadlineMs, signal, now, onSeen } = this.#options;
    const observedAtMs = listedAtMs ?? now();
    this.#making.delete(uid);
    try {
      const options = {
        timeoutMs: inspectDeadlineMs,
        signal,
        observedAtMs,
        podIds,
        ...(ids ? { ids } : {}),
        ...(onSeen ? { onSeen } : {}),
      };
      const status = await inspectPod(client, uid, options);
      this.#publish(this.#cache.inspected(status));
      return status;
    } catch (error) {
      if (!signal.aborted) this.#publish(this.#cache.failed(uid, messageOf(error)));
      return null;
    }
  }
}
