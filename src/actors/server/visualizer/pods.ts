/**
 * The pods of a node for the page: when each was first observed, its status, when it first ran, when it ended. Also the
 * waits of pods for their ResourceClaims: the claims and their drivers, since when, and the last failure.
 *
 * Hears: the lines in which `status` reports a changed status, and the ends of the actors of pods; `claims.*` between
 * pods and `draManager`, its calls to drivers, and the lines in which a pod reports a failed preparation. Invariants:
 * at most {@link PODS_MAX} pods and waits are kept, and removed pods are dropped first; a wait is over when the claims
 * are prepared or unprepared, when the pod ends before that, and when its actor is gone.
 */
import type { Address } from '../../../kernel/address.ts';
import type { PendingTimer } from '../../../kernel/clock.ts';
import { type JsonEvent, memberOf } from '../../../kernel/json.ts';
import { keepNewest } from '../../../kernel/keep-newest.ts';
import type { EffectRecord, KernelRecord } from '../../../kernel/records.ts';
import type { DraManagerContext } from '../../../machines/charts/node/dra/dra-setup.ts';
import {
  type ClaimReport,
  type ClaimRequest,
  type FetchedClaim,
  PREPARATION_FAILED,
} from '../../../machines/model/dra/messages.ts';
import type { DraCall } from '../../../machines/model/operations/dra.ts';
import type { ClaimWaitView, DriverView, PodView } from './protocol.ts';
import { shortText } from './trim.ts';

interface StatusLine {
  readonly pod: string;
  readonly uid: string;
  readonly phase: string;
  readonly ready: boolean;
  readonly restarts: number;
}

export class Pods {
  private readonly pods = new Map<string, PodView>();

  /** `t` is the time of the record's turn. */
  take(record: KernelRecord, t: number, root: Address): void {
    if (record.k === 'log' && record.at === `${root}/status` && record.text === 'Pod status')
      this.changed(record.fields as unknown as StatusLine, record.n, t);
    else if (record.k === 'state' && record.status !== undefined) this.ended(record.at, root, t);
  }

  /** The pods in order of first observation. */
  list(): readonly PodView[] {
    return [...this.pods.values()];
  }

  private changed({ pod, uid, phase, ready, restarts }: StatusLine, n: number, t: number): void {
    const known = this.pods.get(uid);
    const running = known?.running ?? (phase === 'Running' ? t : undefined);
    const runs = running === undefined ? {} : { running };
    this.pods.set(uid, { uid, pod, phase, ready, restarts, n, seen: known?.seen ?? t, ...runs });
    if (this.pods.size > PODS_MAX) this.drop();
  }

  private ended(address: Address, root: Address, t: number): void {
    const prefix = `${root}/pods/pod-`;
    if (!address.startsWith(prefix)) return;
    const uid = address.slice(prefix.length);
    const pod = this.pods.get(uid);
    if (pod) this.pods.set(uid, { ...pod, gone: t });
  }

  private drop(): void {
    const gone = [...this.pods.values()].find((pod) => pod.gone !== undefined);
    if (gone) this.pods.delete(gone.uid);
    else keepNewest(this.pods, this.pods.size - 1);
  }
}

/** Ten times as many as a node has. */
const PODS_MAX = 1_100;
const MESSAGE_MAX_CHARS = 500;

type ClaimEvent =
  | ClaimRequest
  | ClaimReport
  | { readonly type: 'claims.fetched'; readonly claims: readonly FetchedClaim[] };

export class Claims {
  private readonly waits = new Map<string, ClaimWaitView>();
  /** By uid of a pod, the claims that it has asked for. */
  private readonly requested = new Map<string, readonly string[]>();

  /** `t` is the time of the record's turn. */
  take(record: KernelRecord, t: number, root: Address): void {
    const at = { n: record.n, t };
    if (record.k === 'message') this.handleEvent(record.event, record.from, at);
    else if (record.k === 'effect') this.called(record, at);
    else if (record.k === 'state') this.moved(record, root);
    else if (record.k === 'log' && record.text === PREPARATION_FAILED)
      this.failed(String(record.fields?.['uid']), 'prepare', String(record.fields?.['err']), at);
  }

  waitOf(uid: string): ClaimWaitView | undefined {
    return this.waits.get(uid);
  }

  private handleEvent(event: JsonEvent, from: Address, at: At): void {
    if (!event.type.startsWith('claims.')) return;
    const claims = event as ClaimEvent;
    if (claims.type === 'claims.wanted') {
      const names = claims.wanted.map(({ name }) => `${claims.namespace}/${name}`);
      this.requested.set(claims.uid, names);
      keepNewest(this.requested, PODS_MAX);
      this.step(claims.uid, 'prepare', { step: 'reading', claims: names }, at);
    } else if (claims.type === 'claims.released')
      this.step(claims.uid, 'unprepare', { step: 'recording', claims: this.requested.get(claims.uid) ?? [] }, at);
    else if (claims.type === 'claims.fetched') {
      const drivers = [...new Set(claims.claims.flatMap((claim) => claim.drivers))];
      this.step(uidIn(from), 'prepare', { step: 'recording', drivers }, at);
    } else if (claims.type === 'claims.stillPrepared') this.failed(claims.uid, 'unprepare', claims.error, at);
    else if (claims.type === 'claims.prepared' || claims.type === 'claims.unprepared') this.waits.delete(claims.uid);
  }

  /** Drivers are asked. */
  private called({ name, input, at: address }: EffectRecord, at: At): void {
    if (name !== 'dra.prepare' && name !== 'dra.unprepare') return;
    const uid = uidIn(address);
    // A pod that is gone waits for nothing, although its claims are still unprepared.
    if (!this.waits.has(uid)) return;
    const calls = memberOf(input, 'calls') as readonly DraCall[];
    const claims = calls.flatMap((call) => call.claims.map((claim) => `${claim.namespace}/${claim.name}`));
    const asked = {
      step: 'calling' as const,
      drivers: calls.map(({ driver }) => driver),
      claims: [...new Set(claims)],
    };
    this.step(uid, name === 'dra.prepare' ? 'prepare' : 'unprepare', asked, at);
  }

  private step(uid: string, what: ClaimWaitView['what'], now: Partial<ClaimWaitView>, { n, t }: At): void {
    const known = this.waits.get(uid);
    const before = known?.what === what ? known : { what, claims: [], drivers: [], since: t, failures: 0 };
    this.waits.delete(uid);
    this.waits.set(uid, { step: 'reading', ...before, ...now, n, stepSince: t });
    keepNewest(this.waits, PODS_MAX);
  }

  private failed(uid: string, what: ClaimWaitView['what'], error: string, at: At): void {
    const known = this.waits.get(uid);
    const failures = (known?.what === what ? known.failures : 0) + 1;
    const message = shortText(error, MESSAGE_MAX_CHARS);
    this.step(uid, what, { step: 'pausing', failures, error: { message, t: at.t } }, at);
  }

  /** Most pods have no claims, and nothing to forget: for these the first line returns at once. */
  private moved({ at, value, status }: KernelRecord & { readonly k: 'state' }, root: Address): void {
    if (this.waits.size + this.requested.size === 0 || !at.startsWith(`${root}/pods/pod-`)) return;
    const uid = at.slice(`${root}/pods/pod-`.length);
    if (status !== undefined) {
      this.waits.delete(uid);
      this.requested.delete(uid);
    } else if (this.waits.get(uid)?.what === 'prepare' && isEnding(value)) this.waits.delete(uid);
  }
}

interface At {
  readonly n: number;
  readonly t: number;
}

/** The uid of the pod in an address with `prepare-UID` or `release-UID` of `draManager`. */
const uidIn = (address: Address): string => /\/(?:prepare|release)-([^/]+)/.exec(address)?.[1] ?? '';

function isEnding(value: unknown): boolean {
  const life = memberOf(memberOf(value, 'alive'), 'life');
  return ['terminating', 'terminated'].some((state) => life === state || memberOf(life, state) !== undefined);
}

/** When a pod tries again to have its claims prepared or unprepared. */
export const nextTryOf = (
  timers: readonly (Pick<PendingTimer, 'due'> & { readonly event: string })[],
): { readonly nextTry?: number } => {
  const timer = timers.find(({ event }) => /(?:preparing|releasing)Claims/.test(event));
  return timer ? { nextTry: timer.due } : {};
};

/** The limit of claims shown of one driver; the actor's context has the rest. */
const CLAIMS_MAX = 100;

/**
 * The resource drivers of a node and the ResourceClaims that its pods use, as `draManager` has them. By name; a driver
 * that is not registered is listed while a claim is prepared by it.
 */
export function driversOf(snapshot: unknown): readonly DriverView[] {
  const context = memberOf(snapshot, 'context') as Partial<DraManagerContext> | undefined;
  const { drivers = {}, cache = {} } = context ?? {};
  const claims = Object.entries(cache);
  const names = new Set([...Object.keys(drivers), ...claims.flatMap(([, claim]) => Object.keys(claim.drivers))]);
  return [...names].toSorted().map((driver) => ({
    driver,
    registrations: (Object.hasOwn(drivers, driver) ? (drivers[driver] ?? []) : []).map(
      ({ endpoint, service, isConnected }) => ({ endpoint, service, isConnected }),
    ),
    claims: claims
      .filter(([, claim]) => Object.hasOwn(claim.drivers, driver))
      .slice(0, CLAIMS_MAX)
      .map(([claim, { pods, isPrepared, isEnding, drivers: devices }]) => ({
        claim,
        pods,
        state: isEnding ? 'ending' : isPrepared ? 'prepared' : 'unprepared',
        devices: (devices[driver] ?? []).map(({ pool, device }) => `${pool}/${device}`),
      })),
  }));
}
