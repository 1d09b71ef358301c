/**
 * Validates projected volumes, and downward API references.
 *
 * Sources that need an API server are tokens, trust bundles and certificates.
 *
 * A node of 0.2.0 did not validate them; a replay of its journal does not apply these rules.
 */
import type { EnvVar, PodSpec, Volume, VolumeProjection } from '../api/pod.ts';
import {
  checked,
  errorsOf,
  type FieldError,
  forbidden,
  invalid,
  isLongName,
  isQualifiedName,
  isShortName,
  nonReservedPath,
  notSupported,
  required,
  tooLong,
} from './field.ts';
import { validateLabelSelector } from './scheduling.ts';

type Token = NonNullable<VolumeProjection['serviceAccountToken']>;
type Bundle = NonNullable<VolumeProjection['clusterTrustBundle']>;
type Certificate = NonNullable<VolumeProjection['podCertificate']>;

const TOKEN_MIN_SECONDS = 600;
const TOKEN_MAX_SECONDS = 2 ** 32;
const CERTIFICATE_MIN_SECONDS = 3_600;
/** The longest lifetimes: for other signers, and for the signers of Kubernetes. */
const CERTIFICATE_MAX_SECONDS = 7_862_400;
const KUBERNETES_MAX_SECONDS = 86_400;
const KEY_TYPES = ['RSA3072', 'RSA4096', 'ECDSAP256', 'ECDSAP384', 'ECDSAP521', 'ED25519'];
const DUPLICATE = 'conflicting duplicate paths';

export function validateApiProjections({ volumes = [], serviceAccountName }: PodSpec, path: string): FieldError[] {
  return volumes.flatMap((volume, at) => {
    const place = `${path}.volumes[${at}].projected`;
    const sources = volume.projected?.sources ?? [];
    return [
      ...validatePaths(volume, place),
      ...sources.flatMap((source, nth) => validateSource(source, place, `${place}.sources[${nth}]`)),
      ...(serviceAccountName ? [] : sources).flatMap(({ serviceAccountToken }, nth) =>
        serviceAccountToken
          ? [
              forbidden(
                `${place}.sources[${nth}].serviceAccountToken`,
                'must not be specified when serviceAccountName is not set',
              ),
            ]
          : [],
      ),
    ];
  });
}

/** Paths of bundles and certificates must differ from all others in the volume. */
function validatePaths({ projected }: Volume, path: string): FieldError[] {
  const paths = new Set<string>();
  return (projected?.sources ?? []).flatMap(
    ({ secret, configMap, downwardAPI, clusterTrustBundle, podCertificate }) => {
      for (const items of [secret?.items, configMap?.items, downwardAPI?.items]) {
        for (const item of items ?? []) paths.add(item.path);
      }
      const { credentialBundlePath, keyPath, certificateChainPath } = podCertificate ?? {};
      const certificatePaths = [credentialBundlePath, keyPath, certificateChainPath].filter(
        (file) => file !== undefined && file !== '',
      );
      const files = clusterTrustBundle ? [clusterTrustBundle.path, ...certificatePaths] : certificatePaths;
      return files.flatMap((file = '') => {
        if (paths.has(file)) return [invalid(path, file, DUPLICATE)];
        paths.add(file);
        return [];
      });
    },
  );
}

function validateSource(source: VolumeProjection, volume: string, path: string): FieldError[] {
  const { serviceAccountToken: token, clusterTrustBundle: bundle, podCertificate: certificate } = source;
  return errorsOf(
    token && validateToken(token, volume, `${path}.serviceAccountToken`),
    bundle && validateBundle(bundle, `${path}.clusterTrustBundle`),
    certificate && validateCertificate(certificate, `${path}.podCertificate`),
  );
}

function validateToken(
  { expirationSeconds: seconds = TOKEN_MIN_SECONDS, path: file }: Token,
  volume: string,
  path: string,
) {
  const place = `${path}.expirationSeconds`;
  return errorsOf(
    seconds < TOKEN_MIN_SECONDS && invalid(place, seconds, 'may not specify a duration less than 10 minutes'),
    seconds > TOKEN_MAX_SECONDS && invalid(place, seconds, 'may not specify a duration larger than 2^32 seconds'),
    file === '' ? required(`${volume}.path`) : checked(`${volume}.path`, file, nonReservedPath),
  );
}

function validateBundle(bundle: Bundle, path: string): FieldError[] {
  const { name, signerName, labelSelector, path: file } = bundle;
  return errorsOf(
    validateBundleName(bundle, path),
    signerName !== undefined &&
      name === undefined &&
      errorsOf(
        signerName === '' && required(`${path}.signerName`, 'must be a valid signer name'),
        validateSignerName(signerName, `${path}.signerName`),
        validateLabelSelector(labelSelector, `${path}.labelSelector`),
      ),
    file === '' && required(`${path}.path`),
    checked(`${path}.path`, file, nonReservedPath),
  );
}

function validateBundleName({ name, signerName, labelSelector }: Bundle, path: string): FieldError[] {
  if (name === undefined && signerName === undefined) {
    return [required(path, 'either name or signerName must be specified')];
  }
  if (name === undefined) return [];
  if (signerName !== undefined) return [invalid(path, '', 'only one of name and signerName may be used')];
  const lastPart = name.slice(name.lastIndexOf(':') + 1);
  const faults = isLongName(lastPart).map((fault) => `not a valid clustertrustbundlename: ${fault}`);
  return errorsOf(
    name === '' && required(`${path}.name`, 'must be a valid object name'),
    faults.map((fault) => invalid(`${path}.name`, name, fault)),
    labelSelector !== undefined &&
      invalid(`${path}.labelSelector`, labelSelector, 'labelSelector must be unset if name is specified'),
  );
}

function validateCertificate(certificate: Certificate, path: string): FieldError[] {
  const { signerName, keyType, maxExpirationSeconds: seconds, userAnnotations = {} } = certificate;
  const files = (['credentialBundlePath', 'keyPath', 'certificateChainPath'] as const).flatMap((field) => {
    const file = certificate[field] ?? '';
    return file === '' ? [] : [{ field, file }];
  });
  const [domain = ''] = signerName.split('/');
  const isOfKubernetes = domain === 'kubernetes.io' || domain.endsWith('.kubernetes.io');
  const limit = isOfKubernetes ? KUBERNETES_MAX_SECONDS : CERTIFICATE_MAX_SECONDS;
  const place = `${path}.maxExpirationSeconds`;
  return errorsOf(
    validateSignerName(signerName, `${path}.signerName`),
    Object.keys(userAnnotations).flatMap((key) => validatePrefixed(key.toLowerCase(), `${path}.userAnnotations`)),
    !KEY_TYPES.includes(keyType) && notSupported(`${path}.keyType`, keyType, KEY_TYPES),
    seconds !== undefined &&
      seconds < CERTIFICATE_MIN_SECONDS &&
      invalid(place, seconds, `if provided, maxExpirationSeconds must be >= ${CERTIFICATE_MIN_SECONDS}`),
    seconds !== undefined &&
      seconds > limit &&
      invalid(place, seconds, `if provided, maxExpirationSeconds must be <= ${limit}`),
    files.flatMap(({ field, file }) => checked(`${path}.${field}`, file, nonReservedPath)),
    files.length === 0 &&
      required(path, 'specify at least one of credentialBundlePath, keyPath, and certificateChainPath'),
  );
}

function validatePrefixed(key: string, path: string): FieldError[] {
  if (key === '') return [required(path)];
  const errors = checked(path, key, isQualifiedName);
  if (errors.length > 0 || key.includes('/')) return errors;
  return [invalid(path, key, 'must be a domain-prefixed key (such as "acme.io/foo")')];
}

const DOMAIN_MAX_BYTES = 253;
const PATH_MAX_BYTES = 317;

/** The name of a signer of certificates: a domain and a path. */
function validateSignerName(name: string, path: string): FieldError[] {
  if (name === '') return [required(path)];
  const [domain = '', own = '', ...others] = name.split('/');
  if (!name.includes('/') || others.length > 0) {
    return [invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")];
  }
  const labels = domain.split('.');
  const limit = DOMAIN_MAX_BYTES + PATH_MAX_BYTES + 1;
  return errorsOf(
    domain.length > DOMAIN_MAX_BYTES && tooLong(path, DOMAIN_MAX_BYTES),
    firstFault(labels, isShortName, domain, path),
    labels.length < 2 && invalid(path, domain, 'should be a domain with at least two segments separated by dots'),
    firstFault(own.split('.'), isLongName, own, path),
    name.length > limit && tooLong(path, limit),
  );
}

type Check = (label: string) => readonly string[];

/** The errors of the first invalid label; the other labels would repeat them. */
function firstFault(labels: readonly string[], check: Check, segment: string, path: string): FieldError[] {
  for (const label of labels) {
    const faults = check(label);
    if (faults.length > 0) {
      return faults.map((fault) => invalid(path, segment, `validating label ${JSON.stringify(label)}: ${fault}`));
    }
  }
  return [];
}

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
