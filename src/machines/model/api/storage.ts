/** Types of the API's volumes, attachments and CSI drivers as JSON; see `pod.ts` for {@link Wire}. */
import type * as k8s from '@kubernetes/client-node';
import type { Wire } from './pod.ts';

export type PersistentVolumeSpec = Wire<k8s.V1PersistentVolumeSpec>;
export type PersistentVolumeClaim = Wire<k8s.V1PersistentVolumeClaim>;
export type SecretReference = Wire<k8s.V1SecretReference>;
export type VolumeAttachment = Wire<k8s.V1VolumeAttachment>;
export type CSIDriverSpec = Wire<k8s.V1CSIDriverSpec> & {
  /** Tokens are sent with the secrets instead of the attributes; since 1.35. */
  readonly serviceAccountTokenInSecrets?: boolean;
};
