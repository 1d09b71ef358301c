/**
 * Inspects a pod in the runtime, its sandboxes and containers in parallel, or a single sandbox or container; one
 * inspection may serve several callers. Also finds the pod of an id.
 */
import pLimit from 'p-limit';
import { steadyNow } from '../../kernel/clock.ts';
import { OperationError } from '../../kernel/json.ts';
import type { ContainerStatus, PodSandboxStatus } from '../../machines/model/api/cri.ts';
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';
import { POD_UID_LABEL } from '../../machines/model/spec/sandbox.ts';
import type { OnRuntimeActivity } from './activity.ts';
import type { CallOptions, RuntimeClient } from './client.ts';
import { containerInstance, type Instance, podRuntimeStatus, sandboxInstance } from './relist.ts';

type InspectOptions = CallOptions & {
  readonly observedAtMs: number;
  readonly podIds: PodIds;
  readonly ids?: Ids;
  readonly onSeen?: OnRuntimeActivity;
};

async function listIds(client: RuntimeClient, uid: string, options: CallOptions): Promise<Ids> {
  const filter = { label_selector: { [POD_UID_LABEL]: uid } };
  const [{ items }, { containers }] = await Promise.all([
    client.call('ListPodSandbox', { filter }, options),
    client.call('ListContainers', { filter }, options),
  ]);
  return { sandboxIds: items.map(({ id }) => id), containerIds: containers.map(({ id }) => id) };
}

/** A container that was removed between the list and the inspection is no error. */
async function nullIfNotFound<Status>(status: Promise<{ status?: Status }>): Promise<Status | undefined> {
  try {
    return (await status).status ?? undefined;
  } catch (error) {
    if (error instanceof OperationError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

const present = <Status>(statuses: readonly (Status | undefined)[]): Status[] =>
  statuses.filter((status) => status !== undefined);

/**
 * Inspects one pod. Its ids come from two lists, unless `ids` has them or `podIds` is certain; `observedAtMs` is the
 * start of that list, or else of this inspection.
 */
export async function inspectPod(
  client: RuntimeClient,
  uid: string,
  options: InspectOptions,
): Promise<PodRuntimeStatus> {
  const beganMs = steadyNow();
  try {
    return await statusOf(client, uid, options);
  } finally {
    options.onSeen?.({ kind: 'inspected', durationMs: steadyNow() - beganMs });
  }
}

/**
 * The limit of parallel calls for one pod; most pods have a handful of containers. Each call listens to the signal of
 * the inspection, and a further listener takes the longer, the more there are.
 */
const CALLS_AT_ONCE = 100;
/** A pod has at most 2,000 containers, of each of which a few dead instances are kept. */
const POD_INSTANCES_MAX = 10_000;

async function statusOf(client: RuntimeClient, uid: string, options: InspectOptions): Promise<PodRuntimeStatus> {
  const { podIds } = options;
  const { sandboxIds, containerIds } =
    options.ids ?? podIds.of(uid) ?? (await podIds.listing(uid, () => listIds(client, uid, options)));
  const listed = sandboxIds.length + containerIds.length;
  if (listed > POD_INSTANCES_MAX) {
    const message = `the runtime lists ${listed} sandboxes and containers of the pod: at most ${POD_INSTANCES_MAX} are inspected`;
    throw new OperationError(message, { code: 'RESOURCE_EXHAUSTED' });
  }
  const limit = pLimit(CALLS_AT_ONCE);
  const [sandboxes, containers] = await Promise.all([
    Promise.all(sandboxIds.map((id) => limit(() => sandboxStatus(client, id, options)))),
    Promise.all(containerIds.map((id) => limit(() => containerStatus(client, id, options)))),
  ]);
  const [ofSandboxes, ofContainers] = [present(sandboxes), present(containers)];
  const found = new Set([...ofSandboxes, ...ofContainers].map(({ id }) => id));
  podIds.gone(uid, new Set([...sandboxIds, ...containerIds].filter((id) => !found.has(id))));
  return podRuntimeStatus(uid, ofSandboxes, ofContainers, options.observedAtMs);
}

const sandboxStatus = (client: RuntimeClient, id: string, options: CallOptions) =>
  nullIfNotFound<PodSandboxStatus>(client.call('PodSandboxStatus', { pod_sandbox_id: id }, options));

const containerStatus = (client: RuntimeClient, id: string, options: CallOptions) =>
  nullIfNotFound<ContainerStatus>(client.call('ContainerStatus', { container_id: id }, options));

/** Inspects one sandbox or container; `undefined` if the runtime no longer has it. */
export async function inspectInstance(
  client: RuntimeClient,
  kind: Instance['kind'],
  id: string,
  options: CallOptions,
): Promise<Instance | undefined> {
  if (kind === 'sandbox') {
    const status = await sandboxStatus(client, id, options);
    return status && sandboxInstance(status);
  }
  const status = await containerStatus(client, id, options);
  return status && containerInstance(status);
}

/** How long a result is shared; longer than an event waits for one. */
const KEEP_MS = 500;

interface Inspection {
  readonly began: number;
  readonly status: Promise<PodRuntimeStatus>;
}

/**
 * Inspections of pods in progress or just finished, so that one inspection serves several callers.
 *
 * A pod's actor inspects its pod after its calls; the runtime's event about the call arrives at about the same time and
 * needs the same inspection. Invariant: a caller gets only an inspection that began after its request.
 */
export class Inspections {
  readonly #latest = new Map<string, Inspection>();
  #moment = 0;

  /** Marks the arrival of an event: an inspection that begins later shows it. */
  moment(): number {
    return ++this.#moment;
  }

  /** Inspects the pod; later callers may share the result. */
  async take(uid: string, inspect: () => Promise<PodRuntimeStatus>): Promise<PodRuntimeStatus> {
    const inspection = { began: this.moment(), status: inspect() };
    this.#latest.set(uid, inspection);
    try {
      return await inspection.status;
    } finally {
      setTimeout(() => this.#forget(uid, inspection), KEEP_MS).unref();
    }
  }

  /** An inspection of the pod that began after the moment; `undefined` if there is none to share. */
  after(uid: string, moment: number): Promise<PodRuntimeStatus> | undefined {
    const inspection = this.#latest.get(uid);
    return inspection && inspection.began > moment ? inspection.status : undefined;
  }

  #forget(uid: string, inspection: Inspection): void {
    if (this.#latest.get(uid) === inspection) this.#latest.delete(uid);
  }
}

/**
 * Caches the ids of a pod's sandboxes and containers where they are certain: the pod was listed, or missing in a list
 * of all pods, and since then only the agent's own calls created more. Inspecting such a pod needs no lists, whose cost
 * grows with the number of pods.
 *
 * Invariants: the next inspection lists again after a create call that overlapped a list, after a failed create call,
 * and after a relist that shows unknown ids; before the first full list, nothing is certain about a pod that was not
 * listed.
 */
export interface Ids {
  readonly sandboxIds: readonly string[];
  readonly containerIds: readonly string[];
}

const NO_IDS: Ids = { sandboxIds: [], containerIds: [] };

export class PodIds {
  readonly #known = new Map<string, Ids>();
  /** The newest list of a pod in progress, if nothing was created in the pod since it began. */
  readonly #listings = new Map<string, symbol>();
  /** Pods whose ids only a list of their own can provide; `true`: a list of all pods ended since. */
  readonly #invalidated = new Map<string, boolean>();
  /** Whether a list of all pods was read: pods missing in that list have no sandboxes and containers. */
  #complete = false;

  /** The ids of the pod; `undefined` if only a list can provide them. */
  of(uid: string): Ids | undefined {
    return this.#known.get(uid) ?? (this.#complete && !this.#invalidated.has(uid) ? NO_IDS : undefined);
  }

  /**
   * Lists a pod; the result is certain from then on, unless a call created something, or the pod was invalidated, in
   * the meantime.
   */
  async listing(uid: string, list: () => Promise<Ids>): Promise<Ids> {
    const listing = Symbol(uid);
    this.#listings.set(uid, listing);
    try {
      const ids = await list();
      if (this.#listings.get(uid) === listing) {
        this.#known.set(uid, ids);
        this.#invalidated.delete(uid);
      }
      return ids;
    } finally {
      if (this.#listings.get(uid) === listing) this.#listings.delete(uid);
    }
  }

  /** Records a sandbox or container that the agent's own call created. */
  made(uid: string, kind: keyof Ids, id: string): void {
    const known = this.of(uid);
    if (!known) return this.invalidate(uid);
    this.#listings.delete(uid);
    if (!known[kind].includes(id)) this.#known.set(uid, { ...known, [kind]: [...known[kind], id] });
  }

  /** The ids of the pod are no longer certain. */
  invalidate(uid: string): void {
    this.#listings.delete(uid);
    this.#known.delete(uid);
    this.#invalidated.set(uid, false);
  }

  /**
   * Takes the ids of the pod in a list of all pods. If an id was not created here, there may be further unknown ids.
   */
  shown(uid: string, { sandboxIds, containerIds }: Ids): void {
    const known = this.of(uid);
    const ids = new Set([...(known?.sandboxIds ?? []), ...(known?.containerIds ?? [])]);
    if (!known || ![...sandboxIds, ...containerIds].every((id) => ids.has(id))) this.invalidate(uid);
  }

  /** Forgets ids that the runtime no longer knows. */
  gone(uid: string, ids: ReadonlySet<string>): void {
    const known = this.#known.get(uid);
    if (!known || ids.size === 0) return;
    const remaining = (all: readonly string[]) => all.filter((id) => !ids.has(id));
    this.#known.set(uid, { sandboxIds: remaining(known.sandboxIds), containerIds: remaining(known.containerIds) });
  }

  /**
   * Takes the uids in a list of all pods. Forgets a pod that is missing in the list if it has no ids, or if it was
   * invalidated before the list.
   */
  retain(listed: { has(uid: string): boolean }): void {
    this.#complete = true;
    for (const [uid, { sandboxIds, containerIds }] of this.#known) {
      if (sandboxIds.length + containerIds.length === 0 && !listed.has(uid)) this.#known.delete(uid);
    }
    for (const [uid, isOlder] of this.#invalidated) {
      if (isOlder && !listed.has(uid)) this.#invalidated.delete(uid);
      else this.#invalidated.set(uid, true);
    }
  }
}
