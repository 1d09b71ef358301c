/** The facts about this node that admission needs, and its answers. */
import type { SysctlSettings } from './sysctls.ts';

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

/** The facts about this node that admission needs. */
export interface NodeView {
  readonly nodeName: string;
  /** Allocatable amounts in the units of a demand; `pods` is one of them. */
  readonly allocatable: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
  readonly sysctls: SysctlSettings;
  readonly appArmor: boolean;
  /** The runtime sets exactly the supplemental groups of a pod's specification. */
  readonly strictGroups: boolean;
  /** Conditions under which fewer pods are admitted: `MemoryPressure`, `DiskPressure`, `PIDPressure`. */
  readonly pressures: readonly string[];
  readonly isShuttingDown: boolean;
}

export interface Rejection {
  readonly reason: string;
  readonly message: string;
}

/** A resource with too little left. */
export interface Shortage {
  readonly resource: string;
  readonly requested: bigint;
  readonly used: bigint;
  readonly capacity: bigint;
}
