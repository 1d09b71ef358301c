/** The Kubernetes API's volumes, attachments and CSI drivers as they travel; see `pod.ts` for {@link Wire}. */
import type {
  V1CSIDriverSpec,
  V1PersistentVolume,
  V1PersistentVolumeClaim,
  V1PersistentVolumeSpec,
  V1SecretReference,
  V1VolumeAttachment,
} from '@kubernetes/client-node';
import type { Wire } from './pod.ts';

export type PersistentVolume = Wire<V1PersistentVolume>;
export type PersistentVolumeSpec = Wire<V1PersistentVolumeSpec>;
export type PersistentVolumeClaim = Wire<V1PersistentVolumeClaim>;
export type SecretReference = Wire<V1SecretReference>;
export type VolumeAttachment = Wire<V1VolumeAttachment>;
export type CSIDriverSpec = Wire<V1CSIDriverSpec> & {
  /** Tokens travel with the secrets instead of the attributes; since 1.35. */
  readonly serviceAccountTokenInSecrets?: boolean;
};
