/** Validates downward API references to fields and resources. */
import type { EnvVar } from '../api/pod.ts';
import { checked, type FieldError, invalid, isQualifiedName, notSupported, required } from './field.ts';

type ValueFrom = NonNullable<EnvVar['valueFrom']>;
type FieldRef = NonNullable<ValueFrom['fieldRef']>;
type ResourceFieldRef = NonNullable<ValueFrom['resourceFieldRef']>;

/** Fields allowed in an environment variable. */
export const ENV_FIELD_PATHS = [
  'metadata.name',
  'metadata.namespace',
  'metadata.uid',
  'spec.nodeName',
  'spec.serviceAccountName',
  'status.hostIP',
  'status.hostIPs',
  'status.podIP',
  'status.podIPs',
];
/** Fields allowed in a file of a volume. */
export const VOLUME_FIELD_PATHS = [
  'metadata.annotations',
  'metadata.labels',
  'metadata.name',
  'metadata.namespace',
  'metadata.uid',
];
const RESOURCE_FIELDS = [
  'limits.cpu',
  'limits.ephemeral-storage',
  'limits.memory',
  'requests.cpu',
  'requests.ephemeral-storage',
  'requests.memory',
];

/** Fields of a pod that upstream knows by name, also where they may not be used. */
const KNOWN_FIELDS = new Set([
  ...ENV_FIELD_PATHS,
  ...VOLUME_FIELD_PATHS,
  'spec.restartPolicy',
  'spec.schedulerName',
  'status.phase',
]);

export function validateFieldRef(
  ref: FieldRef,
  supported: readonly string[],
  path: string,
  asKubelet: boolean,
): FieldError[] {
  const { apiVersion = 'v1', fieldPath: written } = ref;
  if (written === '') return [required(`${path}.fieldPath`)];
  const fieldPath = asKubelet && written === 'spec.host' ? 'spec.nodeName' : written;
  const unknown = asKubelet ? unknownField(apiVersion, fieldPath) : null;
  if (unknown !== null) return [invalid(`${path}.fieldPath`, written, `error converting fieldPath: ${unknown}`)];
  const subscripted = /^(?<field>[^[]*)\['(?<key>.*)'\]$/.exec(fieldPath)?.groups;
  if (!subscripted) {
    return supported.includes(fieldPath) ? [] : [notSupported(`${path}.fieldPath`, fieldPath, supported)];
  }
  const { field = '', key = '' } = subscripted;
  if (field === 'metadata.annotations') return checked(path, key.toLowerCase(), isQualifiedName);
  if (field === 'metadata.labels') return checked(path, key, isQualifiedName);
  return [invalid(path, field, 'does not support subscript')];
}

function unknownField(apiVersion: string, fieldPath: string): string | null {
  if (apiVersion !== 'v1') return `unsupported pod version: ${apiVersion}`;
  const field = /^([^[]*)\['.*'\]$/.exec(fieldPath)?.[1];
  if (field === undefined) return KNOWN_FIELDS.has(fieldPath) ? null : `field label not supported: ${fieldPath}`;
  const has = field === 'metadata.annotations' || field === 'metadata.labels';
  return has ? null : `field label does not support subscript: ${fieldPath}`;
}

export function validateResourceFieldRef(
  { containerName = '', resource, divisor = '0' }: ResourceFieldRef,
  path: string,
  needs: { readonly containerName: boolean; readonly asKubelet: boolean },
): FieldError[] {
  if (needs.containerName && containerName === '') return [required(`${path}.containerName`)];
  if (resource === '') return [required(`${path}.resource`)];
  const isHugePages = /^(limits|requests)\.hugepages-/.test(resource);
  if (!RESOURCE_FIELDS.includes(resource) && !isHugePages) {
    return [notSupported(`${path}.resource`, resource, RESOURCE_FIELDS)];
  }
  if (divisor === '0') return [];
  if (resource.endsWith('.cpu')) {
    const detail = "only divisor's values 1m and 1 are supported with the cpu resource";
    return ['1m', '1'].includes(divisor) ? [] : [invalid(`${path}.divisor`, resource, detail)];
  }
  const kind = isHugePages ? 'hugepages' : resource.endsWith('memory') ? 'memory' : 'local ephemeral storage';
  const values = '1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei';
  const detail = `only divisor's values ${values} are supported with the ${kind} resource`;
  return values.split(', ').includes(divisor) ? [] : [invalid(`${path}.divisor`, resource, detail)];
}
