/**
 * What the node agent asks of resource drivers (dynamic resource allocation): proto/dra. Implemented by
 * `src/actors/dra`. Source: KEP 4381, KEP 4680 (health).
 */
import { idempotent, stream } from '../../../kernel/xstate.ts';

/** The services of a resource driver that this node can call, the preferred one first. */
export const DRA_SERVICES = ['v1.DRAPlugin', 'v1beta1.DRAPlugin'] as const;

export type DraService = (typeof DRA_SERVICES)[number];

/** One registration of a resource driver. */
export type DraPlugin = {
  readonly driver: string;
  /** Absolute path of its socket. */
  readonly endpoint: string;
  readonly service: DraService;
};

/** A ResourceClaim as drivers know it. */
export interface DraClaim {
  readonly namespace: string;
  readonly uid: string;
  readonly name: string;
}

/** A device that a driver prepared for a claim. */
export interface ClaimDevice {
  readonly pool: string;
  readonly device: string;
  /** Names one share of a device that several claims have; `null`: it is not shared. */
  readonly share: string | null;
  /** Requests of the claim that it is for; none: for all of them. */
  readonly requests: readonly string[];
  /** Qualified CDI names, `vendor.com/class=name`, which the runtime resolves. */
  readonly cdi: readonly string[];
}

/** Claims that one driver is asked about in one call. */
export interface DraCall extends DraPlugin {
  readonly claims: readonly DraClaim[];
}

/** What a driver prepared, by uid of a claim. */
export interface DraPrepared {
  readonly driver: string;
  readonly claims: Readonly<Record<string, readonly ClaimDevice[]>>;
}

type DeviceCondition = 'Healthy' | 'Unhealthy';

export interface DeviceReport {
  readonly health: DeviceCondition;
  /** What the driver says of it; empty: nothing. */
  readonly message: string;
}

export type DraItem =
  /** The driver listens, or does not any more. */
  | { readonly type: 'dra.connected'; readonly isConnected: boolean }
  /** By `pool/device` those whose health is known now; others are unknown. */
  | { readonly type: 'dra.healthChanged'; readonly devices: Readonly<Record<string, DeviceReport>> };

export const draOperations = {
  /**
   * Asks drivers one after the other to prepare claims (`NodePrepareResources`). Fails with upstream's text at the
   * first driver that refuses, skips a claim, or answers for another one; drivers take the same request again.
   */
  'dra.prepare': idempotent<{ calls: readonly DraCall[] }, { prepared: readonly DraPrepared[] }>(),
  /** The opposite (`NodeUnprepareResources`), with the same rules. */
  'dra.unprepare': idempotent<{ calls: readonly DraCall[] }, null>(),
  /** Follows whether a driver listens and how its devices are. Emits at once, and when either changed. */
  'dra.follow': stream<DraPlugin, DraItem>(),
};
