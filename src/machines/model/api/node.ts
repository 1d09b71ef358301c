/** Types of the API's Node, Lease and CSINode as JSON; see `pod.ts` for {@link Wire}. */
import type * as k8s from '@kubernetes/client-node';
import type { Wire } from './pod.ts';

export type Node = Wire<k8s.V1Node>;
export type NodeAddress = Wire<k8s.V1NodeAddress>;
export type NodeCondition = Wire<k8s.V1NodeCondition>;
export type NodeFeatures = Wire<k8s.V1NodeFeatures>;
export type NodeRuntimeHandler = Wire<k8s.V1NodeRuntimeHandler>;
export type NodeStatus = Wire<k8s.V1NodeStatus>;
export type NodeSystemInfo = Wire<k8s.V1NodeSystemInfo>;
export type Taint = Wire<k8s.V1Taint>;
export type Lease = Wire<k8s.V1Lease>;
export type CSINode = Wire<k8s.V1CSINode>;
