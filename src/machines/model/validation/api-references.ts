/**
 * Finds references of a pod to API objects. A static pod may have none (gate `PreventStaticPodAPIReferences`), because
 * it must start without an API server. Without the gate it may have references, except those that upstream has always
 * rejected.
 *
 * On a node without an API server, ConfigMaps and Secrets are files beside the pods and do not count. Invariant: every
 * other reference is an error at its field.
 */
import type { Container, PodSpec, Volume, VolumeProjection } from '../api/pod.ts';
import { quote } from '../values/go-text.ts';
import { type FieldError, forbidden } from './field.ts';

type Reference = readonly [path: string, resource: string];

/** The references to API objects that a static pod may have on a node with an API server. */
export type ApiReferenceRule = 'none' | 'any';

const NEVER = 'clustertrustbundles';

/** One error for each reference, at its field. Without `asKubelet`, by the rules of 0.2.0. */
export function apiReferences(
  spec: PodSpec,
  hasApiServer = false,
  rule: ApiReferenceRule = 'none',
  asKubelet = true,
): FieldError[] {
  const references = [
    ...(spec.serviceAccountName ? [['spec.serviceAccountName', 'serviceaccounts'] as const] : []),
    ...(spec.resourceClaims ?? []).map((_, at) => [`spec.resourceClaims[${at}]`, 'resourceclaims'] as const),
    ...(spec.volumes ?? []).flatMap((volume, at) => inVolume(volume, `spec.volumes[${at}]`)),
    ...(hasApiServer ? objectReferences(spec, asKubelet) : []),
  ];
  return [
    ...references
      .filter(([, resource]) => rule === 'none' || resource === NEVER)
      .map(([path, resource]) => forbidden(path, `static pods may not reference ${resource}`)),
    ...(asKubelet && rule === 'none' ? emptySources(spec) : []),
  ];
}

/** With an API server, ConfigMaps and Secrets are references too. */
function objectReferences(spec: PodSpec, asKubelet: boolean): Reference[] {
  const volumes = (spec.volumes ?? []).flatMap((volume, at): Reference[] => {
    const path = `spec.volumes[${at}]`;
    const sources = volume.projected?.sources ?? [];
    return [
      ...referencesOf(volume, OBJECT_RESOURCES, path),
      ...(asKubelet ? vendorSecrets(volume, path) : []),
      ...sources.flatMap((source, nth) => referencesOf(source, OBJECT_RESOURCES, `${path}.projected.sources[${nth}]`)),
    ];
  });
  const containers = (['initContainers', 'containers'] as const).flatMap((list) =>
    (spec[list] ?? []).flatMap((container, at) => inContainer(container, `spec.${list}[${at}]`)),
  );
  const pulling = (spec.imagePullSecrets ?? []).flatMap(({ name }, at) =>
    name || !asKubelet ? [[`spec.imagePullSecrets[${at}]`, 'secrets'] as const] : [],
  );
  return [...pulling, ...volumes, ...containers];
}

/** Vendor plugins that log in with a Secret; a reference without a name does not count. */
function vendorSecrets(volume: Volume, path: string): Reference[] {
  const { cephfs, cinder, flexVolume, iscsi, rbd, scaleIO, storageos } = volume;
  const sources = { cephfs, cinder, flexVolume, iscsi, rbd, scaleIO, storageos };
  return Object.entries(sources).flatMap(([kind, source]) =>
    source?.secretRef?.name ? [[`${path}.${kind}.secretRef`, 'secrets'] as const] : [],
  );
}

/** Empty sources of projected volumes are errors: it is unknown whether they need an API server. */
const emptySources = ({ volumes = [] }: PodSpec): FieldError[] =>
  volumes.flatMap(({ name, projected }) =>
    projected?.sources?.some((source) => Object.keys(source).length === 0)
      ? [`unknown source for projected volume ${quote(name)}`]
      : [],
  );

function inContainer({ env = [], envFrom = [] }: Container, path: string): Reference[] {
  return [
    ...env.flatMap(({ valueFrom }, at) =>
      valueFrom ? referencesOf(valueFrom, OBJECT_RESOURCES, `${path}.env[${at}].valueFrom`) : [],
    ),
    ...envFrom.flatMap((source, at) => referencesOf(source, OBJECT_RESOURCES, `${path}.envFrom[${at}]`)),
  ];
}

const OBJECT_RESOURCES = {
  configMap: 'configmaps',
  configMapKeyRef: 'configmaps',
  configMapRef: 'configmaps',
  secret: 'secrets',
  secretKeyRef: 'secrets',
  secretRef: 'secrets',
} as const;

const VOLUME_RESOURCES = {
  csi: 'csidrivers (via CSI volumes)',
  glusterfs: 'endpoints (via glusterFS volumes)',
  persistentVolumeClaim: 'persistentvolumeclaims',
  ephemeral: 'persistentvolumeclaims (via ephemeral volumes)',
  azureFile: 'secrets (via azureFile volumes)',
} as const satisfies Partial<Record<keyof Volume, string>>;

const PROJECTION_RESOURCES = {
  serviceAccountToken: 'serviceaccounts (via projected volumes)',
  clusterTrustBundle: NEVER,
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
