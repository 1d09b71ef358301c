/** What the actors of pods and `allocation` say to each other. */

import type { Node } from '../api/node.ts';
import type { Allocation, Holding } from '../operations/grants.ts';
import type { ResizeRefusal } from './admit.ts';
import type { DeviceHealth } from './device-state.ts';
import type { Rejection } from './predicates.ts';
import type { AdmissionRequest } from './request.ts';
import type { PodShares } from './resource-grants.ts';

/** All pods that are on this node, now that it is known. */
export interface PodsKnown {
  readonly type: 'pods.known';
  readonly uids: readonly string[];
}

/** An actor that found leftovers on this node requests the known pods from `pods`. Answered by `pods.known`. */
export interface PodsWanted {
  readonly type: 'pods.wanted';
}

/** What single containers hold by the files of an earlier start, also of another kubelet; by uid of a pod. */
export interface ResourcesHandedOver {
  readonly type: 'resources.handedOver';
  readonly holdings: Readonly<Record<string, Holding>>;
}

export type AllocationMessage =
  /** A pod wants to run with these resources, or to have them from now on. */
  | {
      readonly type: 'allocation.wanted';
      readonly request: AdmissionRequest;
      readonly allocation: Allocation;
      /** The runtime has nothing of it: it runs from the beginning, also when it was over. */
      readonly isAnew: boolean;
    }
  /** Nothing of it runs any more; what it held is free. What the node ended may run again when it starts anew. */
  | { readonly type: 'allocation.ended'; readonly uid: string; readonly byItself: boolean }
  /** It is gone. */
  | { readonly type: 'allocation.released'; readonly uid: string }
  | ResourcesHandedOver
  /** All pods that exist: state that is kept of any other pod is obsolete. */
  | PodsKnown
  /** Say what single containers hold. */
  | { readonly type: 'resources.wanted' }
  /** The node as the API server has it. */
  | NodeKnown
  /** The pressures under which it takes less. */
  | { readonly type: 'node.pressed'; readonly pressures: readonly string[] }
  | { readonly type: 'node.shuttingDown'; readonly active: boolean }
  /** What the runtime can do. */
  | {
      readonly type: 'node.reported';
      readonly reports: { readonly features?: { readonly supplementalGroupsPolicy?: boolean } | null };
    };

export type AllocationReport =
  /** It may run with these resources. `before`: what it had of them until now. */
  | ({
      readonly type: 'allocation.granted';
      readonly uid: string;
      readonly allocation: Allocation;
      readonly before?: Allocation;
    } & PodShares)
  | { readonly type: 'allocation.refused'; readonly uid: string; readonly rejection: Rejection }
  /** It keeps what it has; what it wants has to wait, or cannot be. */
  | ({
      readonly type: 'allocation.pending';
      readonly uid: string;
      readonly allocation: Allocation;
      readonly refusal: ResizeRefusal;
    } & PodShares)
  /** How the devices are that it holds. */
  | { readonly type: 'allocation.deviceHealth'; readonly uid: string; readonly health: DeviceHealth }
  /** Those without CPUs of their own run on these from now on. */
  | { readonly type: 'allocation.shared'; readonly shared: string }
  /** `allocation` starts anew: say again what you want. */
  | { readonly type: 'allocation.started' };

/** The Node as the API server has it: labels, taints, pod CIDRs. */
export interface NodeKnown {
  readonly type: 'node.known';
  readonly node: Node;
}
