/**
 * Validates what a projected volume takes from an API server: tokens, trust bundles, certificates.
 *
 * Nodes of 0.2.0 did not look at it, so a journal of theirs is replayed without the rules.
 */
import type { PodSpec, Volume, VolumeProjection } from '../api/pod.ts';
import {
  checked,
  type FieldError,
  forbidden,
  invalid,
  isLongName,
  isQualifiedName,
  nonReservedPath,
  notSupported,
  required,
} from './field.ts';
import { validateLabelSelector } from './selectors.ts';
import { validateSignerName } from './signer-name.ts';

type Token = NonNullable<VolumeProjection['serviceAccountToken']>;
type Bundle = NonNullable<VolumeProjection['clusterTrustBundle']>;
type Certificate = NonNullable<VolumeProjection['podCertificate']>;

const TOKEN_MIN_SECONDS = 600;
const TOKEN_MAX_SECONDS = 2 ** 32;
const CERTIFICATE_MIN_SECONDS = 3_600;
/** Of signers of others, and of Kubernetes' own. */
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

/** Paths of bundles and certificates beside all others of the volume. */
function validatePaths({ projected }: Volume, path: string): FieldError[] {
  const seen = new Set<string>();
  return (projected?.sources ?? []).flatMap(
    ({ secret, configMap, downwardAPI, clusterTrustBundle, podCertificate }) => {
      for (const items of [secret?.items, configMap?.items, downwardAPI?.items]) {
        for (const item of items ?? []) seen.add(item.path);
      }
      const { credentialBundlePath, keyPath, certificateChainPath } = podCertificate ?? {};
      const own = [credentialBundlePath, keyPath, certificateChainPath].filter(
        (file) => file !== undefined && file !== '',
      );
      const files = clusterTrustBundle ? [clusterTrustBundle.path, ...own] : own;
      return files.flatMap((file = '') => {
        if (seen.has(file)) return [invalid(path, file, DUPLICATE)];
        seen.add(file);
        return [];
      });
    },
  );
}

function validateSource(source: VolumeProjection, volume: string, path: string): FieldError[] {
  const { serviceAccountToken: token, clusterTrustBundle: bundle, podCertificate: certificate } = source;
  return [
    ...(token ? validateToken(token, volume, `${path}.serviceAccountToken`) : []),
    ...(bundle ? validateBundle(bundle, `${path}.clusterTrustBundle`) : []),
    ...(certificate ? validateCertificate(certificate, `${path}.podCertificate`) : []),
  ];
}

function validateToken(
  { expirationSeconds: seconds = TOKEN_MIN_SECONDS, path: file }: Token,
  volume: string,
  path: string,
) {
  const place = `${path}.expirationSeconds`;
  return [
    ...(seconds < TOKEN_MIN_SECONDS
      ? [invalid(place, seconds, 'may not specify a duration less than 10 minutes')]
      : []),
    ...(seconds > TOKEN_MAX_SECONDS
      ? [invalid(place, seconds, 'may not specify a duration larger than 2^32 seconds')]
      : []),
    ...(file === '' ? [required(`${volume}.path`)] : checked(`${volume}.path`, file, nonReservedPath)),
  ];
}

function validateBundle(bundle: Bundle, path: string): FieldError[] {
  const { name, signerName, labelSelector, path: file } = bundle;
  return [
    ...validateBundleName(bundle, path),
    ...(signerName !== undefined && name === undefined
      ? [
          ...(signerName === '' ? [required(`${path}.signerName`, 'must be a valid signer name')] : []),
          ...validateSignerName(signerName, `${path}.signerName`),
          ...validateLabelSelector(labelSelector, `${path}.labelSelector`),
        ]
      : []),
    ...(file === '' ? [required(`${path}.path`)] : []),
    ...checked(`${path}.path`, file, nonReservedPath),
  ];
}

function validateBundleName({ name, signerName, labelSelector }: Bundle, path: string): FieldError[] {
  if (name === undefined && signerName === undefined) {
    return [required(path, 'either name or signerName must be specified')];
  }
  if (name === undefined) return [];
  if (signerName !== undefined) return [invalid(path, '', 'only one of name and signerName may be used')];
  const own = name.slice(name.lastIndexOf(':') + 1);
  const faults = isLongName(own).map((fault) => `not a valid clustertrustbundlename: ${fault}`);
  return [
    ...(name === '' ? [required(`${path}.name`, 'must be a valid object name')] : []),
    ...faults.map((fault) => invalid(`${path}.name`, name, fault)),
    ...(labelSelector === undefined
      ? []
      : [invalid(`${path}.labelSelector`, labelSelector, 'labelSelector must be unset if name is specified')]),
  ];
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
  return [
    ...validateSignerName(signerName, `${path}.signerName`),
    ...Object.keys(userAnnotations).flatMap((key) => validatePrefixed(key.toLowerCase(), `${path}.userAnnotations`)),
    ...(KEY_TYPES.includes(keyType) ? [] : [notSupported(`${path}.keyType`, keyType, KEY_TYPES)]),
    ...(seconds !== undefined && seconds < CERTIFICATE_MIN_SECONDS
      ? [invalid(place, seconds, `if provided, maxExpirationSeconds must be >= ${CERTIFICATE_MIN_SECONDS}`)]
      : []),
    ...(seconds !== undefined && seconds > limit
      ? [invalid(place, seconds, `if provided, maxExpirationSeconds must be <= ${limit}`)]
      : []),
    ...files.flatMap(({ field, file }) => checked(`${path}.${field}`, file, nonReservedPath)),
    ...(files.length === 0
      ? [required(path, 'specify at least one of credentialBundlePath, keyPath, and certificateChainPath')]
      : []),
  ];
}

function validatePrefixed(key: string, path: string): FieldError[] {
  if (key === '') return [required(path)];
  const errors = checked(path, key, isQualifiedName);
  if (errors.length > 0 || key.includes('/')) return errors;
  return [invalid(path, key, 'must be a domain-prefixed key (such as "acme.io/foo")')];
}
