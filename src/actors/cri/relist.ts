/**
 * What changed in the runtime: the comparing half of `cri.watchPods`, without I/O.
 *
 * Owns the ledger of pods: the last status of each that was published, and which pod an id belongs to. A list names ids
 * and states; only an inspection (full statuses) may change what the ledger holds.
 *
 * Invariants: sandboxes and containers without the label of a pod are foreign and never named; a status is published
 * only when it differs from the last published one; an observation never overrules one that began later.
 */
import { hash } from 'node:crypto';
import type { Container, ContainerStatus, PodSandbox, PodSandboxStatus } from '../../machines/model/api/cri.ts';
import type { PodRuntimeStatus, WatchPodsItem } from '../../machines/model/operations/cri.ts';

export const POD_UID_LABEL = 'io.kubernetes.pod.uid';
const POD_NAME_LABEL = 'io.kubernetes.pod.name';
const POD_NAMESPACE_LABEL = 'io.kubernetes.pod.namespace';

const CONTAINER_STATES: ReadonlySet<unknown> = new Set(['CONTAINER_CREATED', 'CONTAINER_RUNNING', 'CONTAINER_EXITED']);

/** What both lists said of one pod. */
export interface ListedPod {
  readonly sandboxIds: readonly string[];
  readonly containerIds: readonly string[];
  /** Equal digests: same ids in the same states. */
  readonly digest: string;
}

/** A runtime may know states that this contract does not: they count as not ready, and as unknown. */
const sandboxState = (state: unknown) => (state === 'SANDBOX_READY' ? 'SANDBOX_READY' : 'SANDBOX_NOTREADY');
const containerState = (state: ContainerStatus['state']) =>
  CONTAINER_STATES.has(state) ? state : ('CONTAINER_UNKNOWN' as const);

interface Stated {
  readonly id: string;
  readonly state: string;
}

function digestOf(sandboxes: readonly Stated[], containers: readonly Stated[]): string {
  const parts = [
    ...sandboxes.map(({ id, state }) => `s ${id} ${sandboxState(state)}`),
    ...containers.map(({ id, state }) => `c ${id} ${CONTAINER_STATES.has(state) ? state : 'CONTAINER_UNKNOWN'}`),
  ];
  return parts.sort().join('\n');
}

/** The pods behind the two lists, by uid. */
export function groupByPod(
  sandboxes: readonly PodSandbox[],
  containers: readonly Container[],
): ReadonlyMap<string, ListedPod> {
  const sandboxesOf = Map.groupBy(sandboxes, (sandbox) => sandbox.labels[POD_UID_LABEL] ?? '');
  const containersOf = Map.groupBy(containers, (container) => container.labels[POD_UID_LABEL] ?? '');
  const pods = new Map<string, ListedPod>();
  for (const uid of new Set([...sandboxesOf.keys(), ...containersOf.keys()])) {
    if (uid === '') continue;
    const ofSandboxes = sandboxesOf.get(uid) ?? [];
    const ofContainers = containersOf.get(uid) ?? [];
    pods.set(uid, {
      sandboxIds: ofSandboxes.map(({ id }) => id),
      containerIds: ofContainers.map(({ id }) => id),
      digest: digestOf(ofSandboxes, ofContainers),
    });
  }
  return pods;
}

/** The same value with keys in order and without absent parts, so that equal statuses are equal text. */
export function canonical<Value>(value: Value): Value;
export function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => canonical(item));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, inner]) => inner !== null && inner !== undefined);
  return Object.fromEntries(
    entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, inner]) => [key, canonical(inner)]),
  );
}

/** Nanoseconds as text, newest first; ids settle what the clock does not. */
function newestFirst(a: PodSandboxStatus | ContainerStatus, b: PodSandboxStatus | ContainerStatus): number {
  if (a.created_at !== b.created_at) return BigInt(a.created_at) > BigInt(b.created_at) ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}

/** One pod's status in canonical form. */
export function podRuntimeStatus(
  uid: string,
  sandboxes: readonly PodSandboxStatus[],
  containers: readonly ContainerStatus[],
  observedAtMs: number,
): PodRuntimeStatus {
  const ordered = {
    sandboxes: sandboxes.map((s) => canonical({ ...s, state: sandboxState(s.state) } as const)).sort(newestFirst),
    containers: containers.map((c) => canonical({ ...c, state: containerState(c.state) })).sort(newestFirst),
  };
  const labels = ordered.sandboxes[0]?.labels ?? ordered.containers[0]?.labels;
  return {
    uid,
    name: labels?.[POD_NAME_LABEL] ?? '',
    namespace: labels?.[POD_NAMESPACE_LABEL] ?? '',
    ...ordered,
    observedAtMs,
  };
}

/** Two statuses with equal fingerprints say the same. */
function fingerprint({ sandboxes, containers }: PodRuntimeStatus): string {
  return hash('sha256', JSON.stringify([sandboxes, containers]), 'base64');
}

interface LedgerEntry {
  readonly digest: string;
  readonly fingerprint: string;
  readonly observedAtMs: number;
}

/** What follows from a list: inspections, and reports of pods that are gone. */
export interface RelistFindings {
  readonly inspect: readonly string[];
  readonly items: readonly WatchPodsItem[];
}

export class PodLedger {
  readonly #pods = new Map<string, LedgerEntry>();
  readonly #podOf = new Map<string, { readonly uid: string; readonly seenAtMs: number }>();
  /** By uid: why the last inspection failed. */
  readonly #stale = new Map<string, string>();

  /** The pod that a sandbox or container belongs to. */
  podOf(id: string): string | undefined {
    return this.#podOf.get(id)?.uid;
  }

  /** An id that the runtime gave out or showed. The next list that began later and does not have it forgets it. */
  learn(id: string, uid: string, seenAtMs: number): void {
    this.#podOf.set(id, { uid, seenAtMs });
  }

  get staleCount(): number {
    return this.#stale.size;
  }

  /** Compares a list that began at `startedAtMs` with what was published. */
  relisted(listed: ReadonlyMap<string, ListedPod>, startedAtMs: number): RelistFindings {
    const inspect: string[] = [];
    const items: WatchPodsItem[] = [];
    for (const [uid, pod] of listed) {
      for (const id of [...pod.sandboxIds, ...pod.containerIds]) this.learn(id, uid, startedAtMs);
      if (this.#stale.has(uid) || this.#pods.get(uid)?.digest !== pod.digest) inspect.push(uid);
    }
    for (const [uid, entry] of this.#pods) {
      if (listed.has(uid)) continue;
      if (entry.observedAtMs < startedAtMs) items.push(...this.#forget(uid));
      else inspect.push(uid);
    }
    for (const [id, { seenAtMs }] of this.#podOf) if (seenAtMs < startedAtMs) this.#podOf.delete(id);
    for (const uid of this.#stale.keys()) if (!listed.has(uid) && !inspect.includes(uid)) this.#stale.delete(uid);
    return { inspect, items };
  }

  /** Takes one inspection in; the items are what is new in it. */
  inspected(status: PodRuntimeStatus): readonly WatchPodsItem[] {
    const { uid, sandboxes, containers, observedAtMs } = status;
    const known = this.#pods.get(uid);
    if (known && known.observedAtMs > observedAtMs) return [];
    const wasStale = this.#stale.delete(uid);
    if (sandboxes.length + containers.length === 0) return known ? this.#forget(uid) : [];
    const print = fingerprint(status);
    this.#pods.set(uid, { digest: digestOf(sandboxes, containers), fingerprint: print, observedAtMs });
    for (const { id } of [...sandboxes, ...containers]) this.learn(id, uid, observedAtMs);
    return known?.fingerprint === print && !wasStale ? [] : [{ type: 'runtime.podChanged', status }];
  }

  /** An inspection failed: said once per reason, until one succeeds. */
  failed(uid: string, message: string): readonly WatchPodsItem[] {
    if (this.#stale.get(uid) === message) return [];
    this.#stale.set(uid, message);
    return [{ type: 'runtime.podStale', uid, message }];
  }

  #forget(uid: string): readonly WatchPodsItem[] {
    this.#pods.delete(uid);
    this.#stale.delete(uid);
    for (const [id, pod] of this.#podOf) if (pod.uid === uid) this.#podOf.delete(id);
    return [{ type: 'runtime.podRemoved', uid }];
  }
}
