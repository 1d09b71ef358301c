/** Messages between the actors of pods and `allocation`. */

import type { Node } from '../api/pod.ts';
import type { Allocation, Holding } from '../operations/grants.ts';
import type { DeviceHealth } from './device-state.ts';
import type { ResizeRefusal } from './predicates.ts';
import type { AdmissionRequest, Rejection } from './request.ts';
import type { PodShares } from './resource-grants.ts';

/** The uids of all pods on this node, once they are known. */
export interface PodsKnown {
  readonly type: 'pods.known';
  readonly uids: readonly string[];
}

/** An actor that found leftovers on this node requests the known pods from `pods`. Answered by `pods.known`. */
export interface PodsWanted {
  readonly type: 'pods.wanted';
}

/** Resources that containers hold according to the state files of an earlier start or another kubelet; by pod uid. */
export interface ResourcesHandedOver {
  readonly type: 'resources.handedOver';
  readonly holdings: Readonly<Record<string, Holding>>;
}

export type AllocationMessage =
  /** A pod requests to be admitted with these resources, or to be resized to them. */
  | {
      readonly type: 'allocation.wanted';
      readonly request: AdmissionRequest;
      readonly allocation: Allocation;
      /** The runtime has nothing of the pod: it runs from the beginning, even if it had ended before. */
      readonly isAnew: boolean;
      /** The runtime has only stopped sandboxes of the pod, as after a restart of the machine. */
      readonly isStopped?: true;
      /**
       * The resources that another kubelet granted to the pod, if they differ from its requests: it is admitted with
       * them.
       */
      readonly handedOver?: { readonly request: AdmissionRequest; readonly allocation: Allocation };
    }
  /** The pod has ended, and its resources are free. A pod that the node ended may run again after a restart. */
  | { readonly type: 'allocation.ended'; readonly uid: string; readonly byItself: boolean }
  /** Init containers of the pod have ended, and will not run again in its sandbox. */
  | { readonly type: 'allocation.initialised'; readonly uid: string; readonly containers: readonly string[] }
  /** A pod that makes room for others takes longer to end than the node waits. */
  | { readonly type: 'allocation.overdue'; readonly uid: string }
  /** The pod is gone. */
  | { readonly type: 'allocation.released'; readonly uid: string }
  | ResourcesHandedOver
  /** All pods that exist: state of any other pod is dropped. */
  | PodsKnown
  /** Requests the resources that single containers hold. */
  | { readonly type: 'resources.wanted' }
  /** The node as the API server has it. */
  | NodeKnown
  /** The pressures under which fewer pods are admitted. */
  | { readonly type: 'node.pressed'; readonly pressures: readonly string[] }
  | { readonly type: 'node.shuttingDown'; readonly active: boolean }
  /** Abilities of the runtime. */
  | {
      readonly type: 'node.reported';
      readonly reports: { readonly features?: { readonly supplementalGroupsPolicy?: boolean } | null };
    };

export type AllocationReport =
  /** The pod may run with these resources. `before`: its previous ones. */
  | ({
      readonly type: 'allocation.granted';
      readonly uid: string;
      readonly allocation: Allocation;
      readonly before?: Allocation;
    } & PodShares)
  | { readonly type: 'allocation.refused'; readonly uid: string; readonly rejection: Rejection }
  /** The resize is not granted now, or never: the pod keeps its resources. */
  | ({
      readonly type: 'allocation.pending';
      readonly uid: string;
      readonly allocation: Allocation;
      readonly refusal: ResizeRefusal;
    } & PodShares)
  | { readonly type: 'allocation.deviceHealth'; readonly uid: string; readonly health: DeviceHealth }
  /** The CPUs of containers without exclusive ones. */
  | { readonly type: 'allocation.shared'; readonly shared: string }
  /** `allocation` restarted: pods send their requests again. */
  | { readonly type: 'allocation.started' };

/** The Node as the API server has it: labels, taints, pod CIDRs. */
export interface NodeKnown {
  readonly type: 'node.known';
  readonly node: Node;
}
