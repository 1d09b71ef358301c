/** The Kubernetes API's Node, Lease and CSINode as they travel; see `pod.ts` for {@link Wire}. */
import type {
  V1CSINode,
  V1Lease,
  V1Node,
  V1NodeAddress,
  V1NodeCondition,
  V1NodeFeatures,
  V1NodeRuntimeHandler,
  V1NodeStatus,
  V1NodeSystemInfo,
  V1Taint,
} from '@kubernetes/client-node';
import type { Wire } from './pod.ts';

export type Node = Wire<V1Node>;
export type NodeAddress = Wire<V1NodeAddress>;
export type NodeCondition = Wire<V1NodeCondition>;
export type NodeFeatures = Wire<V1NodeFeatures>;
export type NodeRuntimeHandler = Wire<V1NodeRuntimeHandler>;
export type NodeStatus = Wire<V1NodeStatus>;
export type NodeSystemInfo = Wire<V1NodeSystemInfo>;
export type Taint = Wire<V1Taint>;
export type Lease = Wire<V1Lease>;
export type CSINode = Wire<V1CSINode>;
