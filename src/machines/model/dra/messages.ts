/** Messages about ResourceClaims between pods, the plugin manager, `draManager` and its actors. */
import type { ClaimDevice, DeviceReport, DraCall, DraPlugin } from '../operations/dra.ts';

/** A ResourceClaim that a pod uses. */
export interface ClaimWanted {
  readonly name: string;
  /** It was created from a template for this pod, and must be owned by it. */
  readonly isOwned: boolean;
}

export type DevicesByDriver = Readonly<Record<string, readonly ClaimDevice[]>>;

/** The prepared devices of a pod, by name of the ResourceClaim. */
export type PreparedClaims = Readonly<Record<string, DevicesByDriver>>;

/** Reports by `driver/pool/device`; the health of a device without a report is unknown. */
export type ClaimHealth = Readonly<Record<string, DeviceReport>>;

export interface PodClaims {
  readonly prepared: PreparedClaims;
  readonly health: ClaimHealth;
}

/** The line in which a pod reports that its claims could not be prepared; `uid` and `err` are its fields. */
export const PREPARATION_FAILED = 'Failed to prepare dynamic resources';

export type ClaimRequest =
  /** Requests to prepare the claims before the sandbox is created. Answered by `claims.prepared` or `claims.failed`. */
  | {
      readonly type: 'claims.wanted';
      readonly uid: string;
      readonly namespace: string;
      readonly pod: string;
      readonly wanted: readonly ClaimWanted[];
    }
  /** Requests the prepared claims. Answered by `claims.known`. */
  | { readonly type: 'claims.asked'; readonly uid: string }
  /** Nothing of the pod runs any more. Answered by `claims.unprepared` or `claims.stillPrepared`. */
  | { readonly type: 'claims.released'; readonly uid: string }
  /** The pod is finished and waits for no answer. */
  | { readonly type: 'claims.abandoned'; readonly uid: string };

export type ClaimReport =
  | { readonly type: 'claims.prepared'; readonly uid: string; readonly claims: PreparedClaims }
  | { readonly type: 'claims.failed'; readonly uid: string; readonly error: string }
  | {
      readonly type: 'claims.known';
      readonly uid: string;
      readonly claims: PreparedClaims;
      readonly health: ClaimHealth;
    }
  | { readonly type: 'claims.health'; readonly uid: string; readonly health: ClaimHealth }
  | { readonly type: 'claims.unprepared'; readonly uid: string }
  | { readonly type: 'claims.stillPrepared'; readonly uid: string; readonly error: string }
  /** `draManager` has started: waiting actors ask again. */
  | { readonly type: 'claims.started' };

export type DraPluginMessage =
  | ({ readonly type: 'dra.registered' } & DraPlugin)
  | { readonly type: 'dra.withdrawn'; readonly driver: string; readonly endpoint: string };

/** The fields of a ResourceClaim that a node needs. */
export interface FetchedClaim {
  readonly uid: string;
  readonly name: string;
  /** Drivers with devices in its allocation. */
  readonly drivers: readonly string[];
}

/** Between `draManager` and the actor that prepares the claims of one pod. */
export type ClaimVerdict =
  /** The checkpoint names the pod: these drivers have to be called now. */
  | { readonly type: 'claims.recorded'; readonly calls: readonly DraCall[] }
  | { readonly type: 'claims.refused'; readonly error: string };
