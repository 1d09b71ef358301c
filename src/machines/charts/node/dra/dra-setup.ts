/**
 * Types and helpers of `draManager`: its events, children and answers, and its cache of the ResourceClaims that pods of
 * this node use. The chart is in `dra-manager.ts`. Pure.
 *
 * Upstream: pkg/kubelet/cm/dra/claiminfo.go. Invariant: a claim is forgotten only after the drivers have unprepared it.
 */
import { type ActionArgsOf, type Ended, pick, setup, to, typed } from '../../../../kernel/xstate.ts';
import type { PodsKnown } from '../../../model/allocation/messages.ts';
import { allOf, CLAIM_STATE_FILE, type ClaimState, deviceKey } from '../../../model/dra/claims.ts';
import type {
  ClaimHealth,
  ClaimReport,
  ClaimRequest,
  DraPluginMessage,
  FetchedClaim,
  PreparedClaims,
} from '../../../model/dra/messages.ts';
import type { DraCall, DraClaim, DraPlugin, DraPrepared } from '../../../model/operations/dra.ts';
import { hostOperations } from '../../../model/operations/host.ts';
import { podActor } from '../../../model/pods/pod-messages.ts';
import { type ClaimsFetched, claimPreparationMachine } from './claim-preparation.ts';
import { claimReleaseMachine } from './claim-release.ts';
import { type DraDriverReport, draDriverMachine } from './dra-driver.ts';
import { sliceRemovalMachine } from './slice-removal.ts';

export interface ClaimEntry extends ClaimState {
  /** Prepared since this agent started, or according to the checkpoint of an earlier one. */
  readonly isPrepared: boolean;
  /** The drivers of the claim are being asked to unprepare it. */
  readonly isEnding: boolean;
}

/** By `namespace/name`. */
type ClaimCache = Readonly<Record<string, ClaimEntry>>;

/** Registrations by driver name, the newest last. */
type Drivers = Readonly<Record<string, readonly (DraPlugin & { readonly isConnected: boolean })[]>>;

const keyOf = ({ namespace, name }: { readonly namespace: string; readonly name: string }): string =>
  `${namespace}/${name}`;

/** Claims of a checkpoint. Drivers may have unprepared them since, so they are asked again for the next pod. */
export const restored = (claims: readonly ClaimState[]): ClaimCache =>
  Object.fromEntries(claims.map((claim) => [keyOf(claim), { ...claim, isPrepared: false, isEnding: false }]));

/** The registrations of a driver, whose name may be that of a built-in property, such as `constructor`. */
export const registrationsOf = (drivers: Drivers, driver: string): Drivers[string] =>
  Object.hasOwn(drivers, driver) ? (drivers[driver] ?? []) : [];

/** The newest connected registration, else the newest. */
function driverPlugin(drivers: Drivers, driver: string): DraPlugin | null {
  const all = registrationsOf(drivers, driver);
  const { endpoint, service } = all.findLast(({ isConnected }) => isConnected) ?? all.at(-1) ?? {};
  return endpoint === undefined || service === undefined ? null : { driver, endpoint, service };
}

const unregistered = (driver: string): string => `DRA driver ${driver} is not registered`;

interface PodClaims {
  readonly uid: string;
  readonly namespace: string;
  readonly claims: readonly FetchedClaim[];
}

/**
 * Records the claims of a pod. `calls` are the required calls to drivers, `error` is upstream's text if the pod may not
 * have the claims.
 */
export function withPod(
  cache: ClaimCache,
  { uid, namespace, claims }: PodClaims,
  drivers: Drivers,
): { readonly cache: ClaimCache; readonly calls: readonly DraCall[] } | { readonly error: string } {
  const missing = claims
    .flatMap(({ drivers: names }) => names)
    .find((driver) => driverPlugin(drivers, driver) === null);
  if (missing !== undefined) return { error: unregistered(missing) };
  const next: Record<string, ClaimEntry> = { ...cache };
  const unprepared: ClaimEntry[] = [];
  for (const claim of claims) {
    const key = keyOf({ namespace, name: claim.name });
    const before = next[key] ?? newEntry(claim, namespace);
    const problem = conflict(before, claim);
    if (problem !== null) return { error: problem };
    next[key] = { ...before, pods: [...new Set([...before.pods, uid])] };
    if (!before.isPrepared) unprepared.push(before);
  }
  return { cache: next, calls: callsFor(unprepared, drivers) };
}

const newEntry = ({ uid, name, drivers }: FetchedClaim, namespace: string): ClaimEntry => ({
  uid,
  name,
  namespace,
  pods: [],
  drivers: Object.fromEntries(drivers.map((driver) => [driver, []])),
  isPrepared: false,
  isEnding: false,
});

function conflict({ uid, name, isEnding }: ClaimEntry, claim: FetchedClaim): string | null {
  if (uid !== claim.uid) {
    const old = `old ResourceClaim with same name ${name} and different UID ${uid} still exists`;
    return `${old} (previous pod force-deleted?!)`;
  }
  return isEnding ? `ResourceClaim ${name} is being unprepared for the pod that had it before` : null;
}

/** One call per driver, with all of its claims. Drivers that are not registered are not called. */
function callsFor(entries: readonly ClaimEntry[], drivers: Drivers): readonly DraCall[] {
  const byDriver = new Map<string, DraClaim[]>();
  for (const { namespace, uid, name, drivers: own } of entries) {
    for (const driver of Object.keys(own)) {
      byDriver.set(driver, [...(byDriver.get(driver) ?? []), { namespace, uid, name }]);
    }
  }
  return [...byDriver].flatMap(([driver, claims]) => {
    const plugin = driverPlugin(drivers, driver);
    return plugin === null ? [] : [{ ...plugin, claims }];
  });
}

/** Stores the drivers' answers. */
export function withDevices(cache: ClaimCache, prepared: readonly DraPrepared[]): ClaimCache {
  const next: Record<string, ClaimEntry> = { ...cache };
  for (const [key, entry] of Object.entries(cache)) {
    const answers = prepared.filter(({ claims }) => claims[entry.uid] !== undefined);
    if (answers.length === 0) continue;
    const devices = answers.map(({ driver, claims }) => [driver, claims[entry.uid] ?? []] as const);
    next[key] = { ...entry, drivers: { ...entry.drivers, ...Object.fromEntries(devices) }, isPrepared: true };
  }
  return next;
}

const entriesOf = (cache: ClaimCache, uid: string): readonly ClaimEntry[] =>
  Object.values(cache).filter(({ pods }) => pods.includes(uid));

export const preparedFor = (cache: ClaimCache, uid: string): PreparedClaims =>
  Object.fromEntries(entriesOf(cache, uid).map(({ name, drivers }) => [name, drivers]));

export const podsIn = (cache: ClaimCache): readonly string[] => [
  ...new Set(Object.values(cache).flatMap(({ pods }) => pods)),
];

/**
 * A pod releases its claims. Claims that other pods have stay; `calls` unprepare the rest. `error`: one of their
 * drivers is not registered.
 */
export function withoutPod(
  cache: ClaimCache,
  uid: string,
  drivers: Drivers,
): { readonly cache: ClaimCache; readonly calls: readonly DraCall[]; readonly error: string | null } {
  const next: Record<string, ClaimEntry> = { ...cache };
  const last: ClaimEntry[] = [];
  for (const entry of entriesOf(cache, uid)) {
    const shared = entry.pods.length > 1;
    if (!shared) last.push(entry);
    next[keyOf(entry)] = shared ? { ...entry, pods: entry.pods.filter((pod) => pod !== uid) } : entry;
  }
  const missing = last
    .flatMap((entry) => Object.keys(entry.drivers))
    .find((name) => driverPlugin(drivers, name) === null);
  if (missing !== undefined) return { cache: next, calls: [], error: unregistered(missing) };
  for (const entry of last) next[keyOf(entry)] = { ...entry, isEnding: true };
  return { cache: next, calls: callsFor(last, drivers), error: null };
}

/** The drivers have unprepared the claims of a pod, or failed. */
export function withEnded(cache: ClaimCache, uid: string, isTaken: boolean): ClaimCache {
  const next = Object.entries(cache).flatMap(([key, entry]): [string, ClaimEntry][] => {
    if (!entry.isEnding || !entry.pods.includes(uid)) return [[key, entry]];
    return isTaken ? [] : [[key, { ...entry, isEnding: false }]];
  });
  return Object.fromEntries(next);
}

/** The part of a driver's device health that a pod's status needs. */
function healthFor(cache: ClaimCache, uid: string, health: ClaimHealth): ClaimHealth {
  const keys = entriesOf(cache, uid).flatMap(({ drivers }) =>
    allOf(drivers).map(([driver, device]) => deviceKey(driver, device)),
  );
  return Object.fromEntries(keys.flatMap((key) => (health[key] === undefined ? [] : [[key, health[key]]])));
}

export interface DraManagerInput {
  readonly rootDir: string;
  readonly nodeName: string;
  /** Whether there is a cluster, and so ResourceClaims and ResourceSlices. */
  readonly inCluster: boolean;
}

/** Requests that wait until the checkpoint is written. */
export type Waiting =
  | { readonly kind: 'recorded'; readonly uid: string; readonly calls: readonly DraCall[] }
  | { readonly kind: 'prepared'; readonly uid: string }
  | { readonly kind: 'unprepared'; readonly uid: string };

/** The release of one pod's claims in progress. */
export interface Release {
  /** Whether the pod waits for the release. */
  readonly isAwaited: boolean;
}

export interface DraManagerContext extends DraManagerInput {
  readonly drivers: Drivers;
  /** By actor of a registration, its driver and socket. */
  readonly followed: Readonly<Record<string, { readonly driver: string; readonly endpoint: string }>>;
  readonly cache: ClaimCache;
  /** By driver, the health of its devices, by `pool/device`. */
  readonly health: Readonly<Record<string, ClaimHealth>>;
  /** By uid of a pod. */
  readonly releases: Readonly<Record<string, Release>>;
  /** Uids of pods that are gone and still have claims here. */
  readonly abandoned: readonly string[];
  readonly waiting: readonly Waiting[];
  /** The waiting requests that the write in progress covers. */
  readonly covered: readonly Waiting[];
  /** The checkpoint is older than the state. */
  readonly isStale: boolean;
  /** The number of actors so far, for names that are never reused. */
  readonly spawned: number;
}

export type DraManagerEvent =
  | ClaimRequest
  | DraPluginMessage
  | DraDriverReport
  | ClaimsFetched
  | PodsKnown
  | { readonly type: 'slices.expired'; readonly driver: string }
  | { readonly type: 'drivers.missed' }
  | Ended;

export const draSetup = setup({
  types: typed<{ input: DraManagerInput; context: DraManagerContext; events: DraManagerEvent }>(),
  actors: {
    preparation: claimPreparationMachine,
    release: claimReleaseMachine,
    driver: draDriverMachine,
    slices: sliceRemovalMachine,
    ...pick(hostOperations, 'host.readCheckpoints', 'host.writeCheckpoint'),
  },
  guards: {
    isStale: ({ context }) => context.isStale,
    isAwaited: ({ context }) => context.waiting.length > 0,
    hasAbandoned: ({ context }) => context.abandoned.length > 0,
  },
});

export type DraArgs = ActionArgsOf<typeof draSetup>;
export type DraEnqueue = DraArgs['enqueue'];

export const stateFile = ({ rootDir }: DraManagerInput): string => `${rootDir}/${CLAIM_STATE_FILE}`;

export function answerPod(enqueue: DraEnqueue, uid: string, report: ClaimReport): void {
  enqueue.sendTo(to(podActor(uid)), report);
}

/** By `driver/pool/device`, the health that a pod's status needs. */
export function podHealth({ cache, health }: DraManagerContext, uid: string): ClaimHealth {
  const all = Object.entries(health).flatMap(([driver, devices]) =>
    Object.entries(devices).map(([key, report]) => [`${driver}/${key}`, report] as const),
  );
  return healthFor(cache, uid, Object.fromEntries(all));
}
