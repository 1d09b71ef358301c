/**
 * Finds what a pod needs of the API server. A static pod may need nothing of it (gate `PreventStaticPodAPIReferences`):
 * it has to start when there is no API server, and the API server refuses its mirror otherwise.
 */
import type { Container, PodSpec, Volume, VolumeProjection } from '../../api/pod.ts';
import { type FieldError, forbidden } from './field.ts';

type Reference = readonly [path: string, resource: string];

/** One error for each reference, at the field that makes it. */
export function apiReferences(spec: PodSpec): FieldError[] {
  const references = [
    ...(spec.serviceAccountName ? [['spec.serviceAccountName', 'serviceaccounts'] as const] : []),
    ...(spec.imagePullSecrets ?? []).map((_, at) => [`spec.imagePullSecrets[${at}]`, 'secrets'] as const),
    ...(spec.containers ?? []).flatMap((container, at) => inContainer(container, `spec.containers[${at}]`)),
    ...(spec.initContainers ?? []).flatMap((container, at) => inContainer(container, `spec.initContainers[${at}]`)),
    ...(spec.resourceClaims ?? []).map((_, at) => [`spec.resourceClaims[${at}]`, 'resourceclaims'] as const),
    ...(spec.volumes ?? []).flatMap((volume, at) => inVolume(volume, `spec.volumes[${at}]`)),
  ];
  return references.map(([path, resource]) => forbidden(path, `static pods may not reference ${resource}`));
}

function inContainer({ env = [], envFrom = [] }: Container, path: string): Reference[] {
  const variables = env.flatMap(({ valueFrom }, at): Reference[] => [
    ...(valueFrom?.secretKeyRef ? [[`${path}.env[${at}].valueFrom.secretKeyRef`, 'secrets'] as const] : []),
    ...(valueFrom?.configMapKeyRef ? [[`${path}.env[${at}].valueFrom.configMapKeyRef`, 'configmaps'] as const] : []),
  ]);
  const sources = envFrom.flatMap(({ secretRef, configMapRef }, at): Reference[] => [
    ...(secretRef ? [[`${path}.envFrom[${at}].secretRef`, 'secrets'] as const] : []),
    ...(configMapRef ? [[`${path}.envFrom[${at}].configMapRef`, 'configmaps'] as const] : []),
  ]);
  return [...variables, ...sources];
}

const VOLUME_RESOURCES = {
  configMap: 'configmaps (via configmap volumes)',
  secret: 'secrets (via secret volumes)',
  csi: 'csidrivers (via CSI volumes)',
  glusterfs: 'endpoints (via glusterFS volumes)',
  persistentVolumeClaim: 'persistentvolumeclaims',
  ephemeral: 'persistentvolumeclaims (via ephemeral volumes)',
  azureFile: 'secrets (via azureFile volumes)',
} as const satisfies Partial<Record<keyof Volume, string>>;

const PROJECTION_RESOURCES = {
  configMap: 'configmaps (via projected volumes)',
  secret: 'secrets (via projected volumes)',
  serviceAccountToken: 'serviceaccounts (via projected volumes)',
  clusterTrustBundle: 'clustertrustbundles',
  podCertificate: 'podcertificates',
} as const satisfies Partial<Record<keyof VolumeProjection, string>>;

function inVolume(volume: Volume, path: string): Reference[] {
  const sources = volume.projected?.sources ?? [];
  return [
    ...referencesOf(volume, VOLUME_RESOURCES, path),
    ...sources.flatMap((source, at) => referencesOf(source, PROJECTION_RESOURCES, `${path}.projected.sources[${at}]`)),
  ];
}

function referencesOf(holder: object, resources: Readonly<Record<string, string>>, path: string): Reference[] {
  return Object.entries(resources).flatMap(([field, resource]) =>
    Object.hasOwn(holder, field) ? [[`${path}.${field}`, resource] as const] : [],
  );
}
