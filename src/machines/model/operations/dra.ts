/**
 * Operations on resource drivers (dynamic resource allocation): proto/dra. Implemented by `src/actors/dra`. Source: KEP
 * 4381, KEP 4680 (health).
 */
import { idempotent, stream } from '../../../kernel/xstate.ts';

/** The services of a resource driver that this node supports, the preferred one first. */
export const DRA_SERVICES = ['v1.DRAPlugin', 'v1beta1.DRAPlugin'] as const;

export type DraService = (typeof DRA_SERVICES)[number];

/** One registration of a resource driver. */
export type DraPlugin = {
  readonly driver: string;
  /** Absolute path of its socket. */
  readonly endpoint: string;
  readonly service: DraService;
};

/** A ResourceClaim in a driver's terms. */
export interface DraClaim {
  readonly namespace: string;
  readonly uid: string;
  readonly name: string;
}

export interface ClaimDevice {
  readonly pool: string;
  readonly device: string;
  /** Names one share of a device that several claims share; `null` if it is not shared. */
  readonly share: string | null;
  /** Requests of the claim that the device is for; empty for all of them. */
  readonly requests: readonly string[];
  /** Qualified CDI names, `vendor.com/class=name`, which the runtime resolves. */
  readonly cdi: readonly string[];
}

export interface DraCall extends DraPlugin {
  readonly claims: readonly DraClaim[];
}

/** A driver's prepared devices, by uid of a claim. */
export interface DraPrepared {
  readonly driver: string;
  readonly claims: Readonly<Record<string, readonly ClaimDevice[]>>;
}

type DeviceCondition = 'Healthy' | 'Unhealthy' | 'Unknown';

export interface DeviceReport {
  readonly health: DeviceCondition;
  /** The driver's message about it; empty for none. */
  readonly message: string;
}

export type DraItem =
  /** The connection to the driver was established or lost. */
  | { readonly type: 'dra.connected'; readonly isConnected: boolean }
  /** By `pool/device`, those whose health is known now, or explained by the driver; others are unknown. */
  | { readonly type: 'dra.healthChanged'; readonly devices: Readonly<Record<string, DeviceReport>> };

export const draOperations = {
  /**
   * Asks drivers one after the other to prepare claims (`NodePrepareResources`). Fails with upstream's text at the
   * first driver that refuses, skips a claim, or answers for another one; drivers accept the same request again.
   */
  'dra.prepare': idempotent<{ calls: readonly DraCall[] }, { prepared: readonly DraPrepared[] }>(),
  /** The reverse (`NodeUnprepareResources`), with the same rules. */
  'dra.unprepare': idempotent<{ calls: readonly DraCall[] }, null>(),
  /** Follows the connection to a driver and the health of its devices. Emits at once, and when either changed. */
  'dra.follow': stream<DraPlugin, DraItem>(),
};
