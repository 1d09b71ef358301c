/** The objects that the pods of a node refer to, by which the node authorizer decides what the node may read. */
import { type ApiObject, type Fields, isFields, textOf } from '../../../src/simulation/api-server/kinds.ts';
import type { Store } from '../../../src/simulation/api-server/store.ts';

/** The field with a reference, and the field inside it with the name. */
const FIELDS: Readonly<Record<string, readonly [string, string]>> = {
  secret: ['secrets', 'secretName'],
  secretRef: ['secrets', 'name'],
  secretKeyRef: ['secrets', 'name'],
  nodePublishSecretRef: ['secrets', 'name'],
  imagePullSecrets: ['secrets', 'name'],
  configMap: ['configmaps', 'name'],
  configMapRef: ['configmaps', 'name'],
  configMapKeyRef: ['configmaps', 'name'],
  persistentVolumeClaim: ['persistentvolumeclaims', 'claimName'],
};

/** `<resource>/<namespace>/<name>` of everything that this node may read because of its pods. */
export function nodeReferences(store: Store, node: string): ReadonlySet<string> {
  const pods = store.list('v1', 'pods').filter(({ spec }) => spec?.['nodeName'] === node);
  const found = new Set(pods.flatMap(referencesOf));
  for (const claim of store.list('v1', 'persistentvolumeclaims')) {
    const { name, namespace = '' } = claim.metadata;
    if (!found.has(`persistentvolumeclaims/${namespace}/${name}`)) continue;
    const volumeName = textOf(claim.spec?.['volumeName']);
    found.add(`persistentvolumes//${volumeName}`);
    const volume = store.get('v1', 'persistentvolumes', volumeName);
    for (const secret of secretsOf(volume?.spec ?? {})) found.add(secret);
  }
  const own = (apiVersion: string, resource: string) =>
    store.list(apiVersion, resource).filter(({ spec }) => spec?.['nodeName'] === node);
  for (const { metadata } of own('storage.k8s.io/v1', 'volumeattachments')) {
    found.add(`volumeattachments//${metadata.name}`);
  }
  for (const { metadata } of own('certificates.k8s.io/v1beta1', 'podcertificaterequests')) {
    found.add(`podcertificaterequests/${metadata.namespace ?? ''}/${metadata.name}`);
  }
  return found;
}

function referencesOf({ metadata, spec = {}, status = {} }: ApiObject): string[] {
  const { name, namespace = '' } = metadata;
  const volumes = Array.isArray(spec['volumes']) ? (spec['volumes'] as Fields[]) : [];
  const generic = volumes.filter((volume) => volume['ephemeral'] !== undefined);
  const found = [
    ...named(spec),
    ...generic.map((volume) => `persistentvolumeclaims/${name}-${textOf(volume['name'])}`),
    `serviceaccounts/${textOf(spec['serviceAccountName']) || 'default'}`,
    `pods/${name}`,
    ...claimsOf(spec, status),
  ];
  return found.map((each) => each.replace('/', `/${namespace}/`));
}

/** ResourceClaims: by name, made from a template, or for extended resources. */
function claimsOf(spec: Fields, status: Fields): string[] {
  const named = (list: unknown): string[] =>
    (Array.isArray(list) ? list.filter(isFields) : []).map((each) => textOf(each['resourceClaimName']));
  const extended = status['extendedResourceClaimStatus'];
  return [...named(spec['resourceClaims']), ...named(status['resourceClaimStatuses']), ...named([extended])]
    .filter((name) => name !== '')
    .map((name) => `resourceclaims/${name}`);
}

/** `<resource>/<name>` of every reference below this value. */
function named(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(named);
  if (!isFields(value)) return [];
  return Object.entries(value).flatMap(([field, part]) => {
    const [resource, key] = FIELDS[field] ?? [];
    const parts = (Array.isArray(part) ? part : [part]).filter(isFields);
    const names = key === undefined ? [] : parts.flatMap((each) => textOf(each[key]) || textOf(each['name']) || []);
    return [...names.map((name) => `${resource}/${name}`), ...named(part)];
  });
}

/** The Secrets of a CSI volume, each in its own namespace. */
function secretsOf({ csi }: Fields): string[] {
  if (!isFields(csi)) return [];
  return Object.entries(csi).flatMap(([field, reference]) =>
    field.endsWith('SecretRef') && isFields(reference)
      ? [`secrets/${textOf(reference['namespace'])}/${textOf(reference['name'])}`]
      : [],
  );
}
