/**
 * Finds changes in the runtime: the comparing half of `cri.watchPods`, without I/O.
 *
 * Owns the cache of pods: the last published status of each sandbox and container, and the pod of each id. A list has
 * only ids and states; only statuses change the cache: an inspection updates a whole pod, an event or the answer to a
 * call one sandbox or container.
 *
 * Invariants: sandboxes and containers without the label of a pod are foreign and never named; a status is published
 * only if it differs from the last one; an observation never overrides one that began later.
 */
import { hash } from 'node:crypto';
import { OperationError } from '../../kernel/json.ts';
import type { Container, ContainerStatus, PodSandbox, PodSandboxStatus } from '../../machines/model/api/cri.ts';
import type { InstanceChanged, PodRuntimeStatus, WatchPodsItem } from '../../machines/model/operations/cri.ts';
import { containerAnnotationKeys as keys } from '../../machines/model/spec/annotations.ts';
import { POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL } from '../../machines/model/spec/sandbox.ts';
import { slimmedContainer, slimmedSandbox } from '../../machines/model/status/runtime-facts.ts';
import { cut } from '../probe/attempt.ts';

const CONTAINER_STATES: ReadonlySet<unknown> = new Set(['CONTAINER_CREATED', 'CONTAINER_RUNNING', 'CONTAINER_EXITED']);

export interface ListedPod {
  readonly sandboxIds: readonly string[];
  readonly containerIds: readonly string[];
  /** Two lists of a pod with equal digests have the same ids in the same states. */
  readonly digest: string;
}

/** Unknown states of newer runtimes count as not ready and unknown. */
const sandboxState = (state: unknown) => (state === 'SANDBOX_READY' ? 'SANDBOX_READY' : 'SANDBOX_NOTREADY');
const containerState = (state: ContainerStatus['state']) =>
  CONTAINER_STATES.has(state) ? state : ('CONTAINER_UNKNOWN' as const);

interface InstanceState {
  readonly id: string;
  readonly state: string;
}

function digestOf(sandboxes: readonly InstanceState[], containers: readonly InstanceState[]): string {
  const parts = [
    ...sandboxes.map(({ id, state }) => `s ${id} ${sandboxState(state)}`),
    ...containers.map(({ id, state }) => `c ${id} ${CONTAINER_STATES.has(state) ? state : 'CONTAINER_UNKNOWN'}`),
  ];
  return parts.sort().join('\n');
}

/** Drops entries without an id, or with the id of another entry: their pod would be inspected for ever. */
function eachOnce<Entry extends { readonly id: string }>(entries: readonly Entry[]): readonly Entry[] {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  byId.delete('');
  return byId.size === entries.length ? entries : [...byId.values()];
}

/**
 * The limit of pods, far above those of a node with dead ones included: each pod that no source wants gets an actor
 * that ends it.
 */
const PODS_MAX = 10_000;

/**
 * The pods behind the two lists, by uid.
 *
 * @throws OperationError if there are more than any node has: no decision can be based on such a runtime
 */
export function groupByPod(
  sandboxes: readonly PodSandbox[],
  containers: readonly Container[],
): ReadonlyMap<string, ListedPod> {
  const sandboxesOf = Map.groupBy(eachOnce(sandboxes), (sandbox) => sandbox.labels[POD_UID_LABEL] ?? '');
  const containersOf = Map.groupBy(eachOnce(containers), (container) => container.labels[POD_UID_LABEL] ?? '');
  const pods = new Map<string, ListedPod>();
  const uids = new Set([...sandboxesOf.keys(), ...containersOf.keys()]);
  if (uids.size > PODS_MAX) {
    const message = `the runtime lists sandboxes and containers of ${uids.size} pods: at most ${PODS_MAX} can be followed`;
    throw new OperationError(message, { code: 'RESOURCE_EXHAUSTED' });
  }
  for (const uid of uids) {
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

/** The same value with sorted keys and without absent members, so that equal statuses are equal text. */
export function canonical<Value>(value: Value): Value;
export function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => canonical(item));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, inner]) => inner !== null && inner !== undefined);
  return Object.fromEntries(
    entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, inner]) => [key, canonical(inner)]),
  );
}

/** Compares creation times (nanoseconds as text), newest first; equal times are ordered by id. */
function newestFirst(a: PodSandboxStatus | ContainerStatus, b: PodSandboxStatus | ContainerStatus): number {
  if (a.created_at !== b.created_at) return BigInt(a.created_at) > BigInt(b.created_at) ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}

/** One sandbox or container, with its status in canonical form and without the parts that no machine needs. */
export type Instance =
  | { readonly kind: 'sandbox'; readonly uid: string; readonly status: PodSandboxStatus }
  | { readonly kind: 'container'; readonly uid: string; readonly status: ContainerStatus };

export const statusesOf = (instances: readonly Instance[]): Pick<PodRuntimeStatus, 'sandboxes' | 'containers'> => ({
  sandboxes: instances.flatMap(({ kind, status }) => (kind === 'sandbox' ? [status] : [])),
  containers: instances.flatMap(({ kind, status }) => (kind === 'container' ? [status] : [])),
});

const uidIn = ({ labels }: { readonly labels: Readonly<Record<string, string>> }): string =>
  labels[POD_UID_LABEL] ?? '';

const canonicalSandbox = (status: PodSandboxStatus): PodSandboxStatus =>
  canonical(
    slimmedSandbox({ ...status, ...countable(status), ...addresses(status), state: sandboxState(status.state) }),
  );

const canonicalContainer = (status: ContainerStatus): ContainerStatus =>
  canonical(
    slimmedContainer({
      ...status,
      ...countable(status),
      state: containerState(status.state),
      annotations: ownAnnotations(status),
      reason: status.reason.slice(0, REASON_MAX_CHARS),
      message: cut(status.message),
    }),
  );

/** The limit of addresses of a pod: each is in its status, and in the environment of its containers. */
const ADDRESSES_MAX = 16;
/** The limit of an address: one of IPv6 has 45 characters, and may name a zone. */
const ADDRESS_MAX_CHARS = 64;

function addresses({ network }: PodSandboxStatus): Pick<PodSandboxStatus, 'network'> {
  if (network == null) return {};
  const additional = network.additional_ips.slice(0, ADDRESSES_MAX);
  const shown = (ip: string): string => ip.slice(0, ADDRESS_MAX_CHARS);
  return { network: { ip: shown(network.ip), additional_ips: additional.map(({ ip }) => ({ ip: shown(ip) })) } };
}

/** A reason is a word. */
const REASON_MAX_CHARS = 1_024;
/** Restarts are 32-bit integers in the API, and the next one has to be one, too. */
const RESTARTS_MAX = 2 ** 31 - 2;

/** Whether the number of an attempt can still increase: the next sandbox or container has a larger one. */
const countable = ({ metadata }: Pick<ContainerStatus, 'metadata'> | PodSandboxStatus) =>
  metadata == null ? {} : { metadata: { ...metadata, attempt: Math.min(metadata.attempt ?? 0, RESTARTS_MAX) } };

export const sandboxInstance = (status: PodSandboxStatus): Instance => ({
  kind: 'sandbox',
  uid: uidIn(status),
  status: canonicalSandbox(status),
});

export const containerInstance = (status: ContainerStatus): Instance => ({
  kind: 'container',
  uid: uidIn(status),
  status: canonicalContainer(status),
});

/**
 * The annotations without the preStop hook, whose headers the pod has as handles but the status as plain text; and
 * without an invalid number of restarts, which the number of the attempt replaces.
 */
function ownAnnotations({ annotations }: ContainerStatus): ContainerStatus['annotations'] {
  const { [keys.preStopHandler]: _hook, [keys.restartCount]: restarts, ...others } = annotations;
  const isNumber = restarts !== undefined && /^\d{1,10}$/.test(restarts) && Number(restarts) <= RESTARTS_MAX;
  return isNumber ? { ...others, [keys.restartCount]: restarts } : others;
}

const NO_LABELS: { readonly labels: Readonly<Record<string, string>> } = { labels: {} };

/** One pod's status in canonical form. */
export function podRuntimeStatus(
  uid: string,
  sandboxes: readonly PodSandboxStatus[],
  containers: readonly ContainerStatus[],
  observedAtMs: number,
): PodRuntimeStatus {
  const { labels } = sandboxes.toSorted(newestFirst)[0] ?? containers.toSorted(newestFirst)[0] ?? NO_LABELS;
  return {
    uid,
    name: labels[POD_NAME_LABEL] ?? '',
    namespace: labels[POD_NAMESPACE_LABEL] ?? '',
    sandboxes: sandboxes.map(canonicalSandbox).sort(newestFirst),
    containers: containers.map(canonicalContainer).sort(newestFirst),
    observedAtMs,
  };
}

/** Equal for equal statuses. */
const fingerprint = (status: Instance['status']): string => hash('sha256', JSON.stringify(status), 'base64');

/** The cached state of a sandbox or container. */
interface CachedInstance {
  readonly kind: Instance['kind'];
  readonly state: string;
  readonly fingerprint: string;
  readonly observedAtMs: number;
}

const hasEnded = ({ state }: { readonly state: string }): boolean =>
  state === 'SANDBOX_NOTREADY' || state === 'CONTAINER_EXITED';

const cachedInstance = (kind: Instance['kind'], status: Instance['status'], observedAtMs: number): CachedInstance => ({
  kind,
  state: status.state,
  fingerprint: fingerprint(status),
  observedAtMs,
});

interface CachedPod {
  readonly instances: ReadonlyMap<string, CachedInstance>;
  /** When the newest inspection of the whole pod began. */
  readonly observedAtMs: number;
}

const newestOf = ({ instances, observedAtMs }: CachedPod): number =>
  instances.values().reduce((newest, known) => Math.max(newest, known.observedAtMs), observedAtMs);

function digestOfEntry({ instances }: CachedPod): string {
  const instancesOf = (wanted: Instance['kind']): InstanceState[] =>
    [...instances].flatMap(([id, { kind, state }]) => (kind === wanted ? [{ id, state }] : []));
  return digestOf(instancesOf('sandbox'), instancesOf('container'));
}

const areSame = (before: CachedPod['instances'], after: CachedPod['instances']): boolean =>
  before.size === after.size &&
  [...after].every(([id, { fingerprint: print }]) => before.get(id)?.fingerprint === print);

/** The consequences of a list: inspections, and reports of pods that are gone. */
export interface RelistFindings {
  readonly inspect: readonly string[];
  readonly items: readonly WatchPodsItem[];
}

export class PodCache {
  readonly #pods = new Map<string, CachedPod>();
  readonly #podOf = new Map<string, { readonly uid: string; readonly seenAtMs: number }>();
  /** By uid: why the last inspection failed. */
  readonly #stale = new Map<string, string>();

  /** The pod of a sandbox or container. */
  podOf(id: string): string | undefined {
    return this.#podOf.get(id)?.uid;
  }

  /** Records an id that the runtime returned or listed. A later list without it forgets it. */
  learn(id: string, uid: string, seenAtMs: number): void {
    this.#podOf.set(id, { uid, seenAtMs });
  }

  get staleCount(): number {
    return this.#stale.size;
  }

  /** Compares a list that began at `startedAtMs` with the published state. */
  relisted(listed: ReadonlyMap<string, ListedPod>, startedAtMs: number): RelistFindings {
    const inspect = new Set<string>();
    const items: WatchPodsItem[] = [];
    for (const [uid, pod] of listed) {
      for (const id of [...pod.sandboxIds, ...pod.containerIds]) this.learn(id, uid, startedAtMs);
      const entry = this.#pods.get(uid);
      if (this.#stale.has(uid) || !entry || digestOfEntry(entry) !== pod.digest) inspect.add(uid);
    }
    for (const [uid, entry] of this.#pods) {
      if (listed.has(uid)) continue;
      if (newestOf(entry) < startedAtMs) items.push(...this.#forget(uid));
      else inspect.add(uid);
    }
    for (const [id, { seenAtMs }] of this.#podOf) if (seenAtMs < startedAtMs) this.#podOf.delete(id);
    for (const uid of this.#stale.keys()) if (!listed.has(uid) && !inspect.has(uid)) this.#stale.delete(uid);
    return { inspect: [...inspect], items };
  }

  /** Takes one inspection of a pod; returns the changes that it shows. */
  inspected(status: PodRuntimeStatus): readonly WatchPodsItem[] {
    const { uid, sandboxes, containers, observedAtMs } = status;
    const known = this.#pods.get(uid);
    if (known && known.observedAtMs > observedAtMs) return [];
    const wasStale = this.#stale.delete(uid);
    const later = [...(known?.instances ?? [])].filter(([, each]) => each.observedAtMs > observedAtMs);
    if (sandboxes.length + containers.length + later.length === 0) return known ? this.#forget(uid) : [];
    const instances = new Map([
      ...sandboxes.map((each) => [each.id, cachedInstance('sandbox', each, observedAtMs)] as const),
      ...containers.map((each) => [each.id, cachedInstance('container', each, observedAtMs)] as const),
      ...later,
    ]);
    this.#pods.set(uid, { instances, observedAtMs });
    for (const id of instances.keys()) this.learn(id, uid, observedAtMs);
    return known && !wasStale && areSame(known.instances, instances) ? [] : [{ type: 'runtime.podChanged', status }];
  }

  /** Whether the id belongs to a sandbox or a container; `undefined` for an unknown id. */
  kindOf(id: string): Instance['kind'] | undefined {
    return this.#cachedInstance(id)?.kind;
  }

  /** Whether the cache shows that the sandbox or container has ended. */
  hasEnded(id: string): boolean {
    const known = this.#cachedInstance(id);
    return known !== undefined && hasEnded(known);
  }

  #cachedInstance(id: string): CachedInstance | undefined {
    return this.#pods.get(this.podOf(id) ?? '')?.instances.get(id);
  }

  /** Takes the status of one sandbox or container; returns the changes for its pod. An unknown pod is inspected. */
  observed({ kind, uid, status }: Instance, observedAtMs: number): readonly InstanceChanged[] {
    const entry = this.#pods.get(uid) ?? { instances: new Map<string, CachedInstance>(), observedAtMs: 0 };
    const before = entry.instances.get(status.id);
    // An answer may be older than an event that arrived before it: an ended container stays ended.
    if (before && hasEnded(before) && !hasEnded(status)) return [];
    const known = cachedInstance(kind, status, observedAtMs);
    this.#pods.set(uid, { ...entry, instances: new Map(entry.instances).set(status.id, known) });
    this.learn(status.id, uid, observedAtMs);
    if (before?.fingerprint === known.fingerprint) return [];
    return [
      kind === 'sandbox'
        ? { type: 'runtime.sandboxChanged', uid, status }
        : { type: 'runtime.containerChanged', uid, status },
    ];
  }

  /** Whether something was published about the pod. */
  hasPublished(uid: string): boolean {
    return this.#pods.has(uid);
  }

  /** Takes a failed inspection: each reason is reported once, until an inspection succeeds. */
  failed(uid: string, message: string): readonly WatchPodsItem[] {
    if (this.#stale.get(uid) === message) return [];
    this.#stale.set(uid, message);
    return [{ type: 'runtime.podStale', uid, message }];
  }

  /** Ids of which nothing was published are forgotten with the next list. */
  #forget(uid: string): readonly WatchPodsItem[] {
    for (const id of this.#pods.get(uid)?.instances.keys() ?? []) {
      if (this.podOf(id) === uid) this.#podOf.delete(id);
    }
    this.#pods.delete(uid);
    this.#stale.delete(uid);
    return [{ type: 'runtime.podRemoved', uid }];
  }
}
