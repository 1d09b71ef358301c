/**
 * Validates claims: the ResourceClaims of a pod, and the PersistentVolumeClaims for its ephemeral volumes.
 *
 * A node of 0.2.0 did not validate them; a replay of its journal does not apply these rules.
 */
import type { Container, PodSpec, Volume } from '../api/pod.ts';
import { nanoOf } from '../values/quantity.ts';
import {
  checked,
  duplicate,
  errorsOf,
  type FieldError,
  forbidden,
  invalid,
  isLongName,
  isQualifiedName,
  isShortName,
  notFound,
  notSupported,
  required,
} from './field.ts';
import { validateLabelSelector, validateLabels } from './selectors.ts';

type PodClaim = NonNullable<PodSpec['resourceClaims']>[number];
type ContainerClaims = NonNullable<NonNullable<Container['resources']>['claims']>;
type Template = NonNullable<NonNullable<Volume['ephemeral']>['volumeClaimTemplate']>;

const EITHER = 'of `resourceClaimName` or `resourceClaimTemplateName` may be specified';

export function validatePodClaims({ resourceClaims: claims = [] }: PodSpec, path: string): FieldError[] {
  const names = new Set<string>();
  return claims.flatMap((claim, at) => {
    const place = `${path}[${at}]`;
    const { name, resourceClaimName, resourceClaimTemplateName } = claim;
    const isRepeated = names.has(name);
    if (name !== '') names.add(name);
    return errorsOf(
      name === '' && required(`${place}.name`),
      isRepeated && duplicate(`${place}.name`, name),
      name !== '' && !isRepeated && checked(`${place}.name`, name, isShortName),
      validateChoice(claim, place),
      resourceClaimName !== undefined && checked(`${place}.resourceClaimName`, resourceClaimName, isLongName),
      resourceClaimTemplateName !== undefined &&
        checked(`${place}.resourceClaimTemplateName`, resourceClaimTemplateName, isLongName),
    );
  });
}

function validateChoice(claim: PodClaim, path: string): FieldError[] {
  const claimName = claim.resourceClaimName ?? null;
  const template = claim.resourceClaimTemplateName ?? null;
  const shown = { Name: claim.name, ResourceClaimName: claimName, ResourceClaimTemplateName: template };
  if (claimName !== null && template !== null) {
    return [invalid(path, shown, `at most one ${EITHER}`)];
  }
  return claimName === null && template === null
    ? [invalid(path, shown, 'must specify one of: `resourceClaimName`, `resourceClaimTemplateName`')]
    : [];
}

/** The names of the claims of a pod, and the list of them for errors. */
export interface Claims {
  readonly names: ReadonlySet<string>;
  readonly shown: string;
}

/** The maximum length of that list: each container with an unknown claim repeats it in an error. */
const SHOWN_MAX = 1_000;

export function claimsOf({ resourceClaims = [] }: Pick<PodSpec, 'resourceClaims'>): Claims {
  const names = new Set(resourceClaims.flatMap(({ name }) => (name === '' ? [] : [name])));
  return { names, shown: [...names].toSorted().join(', ').slice(0, SHOWN_MAX) };
}

export const NO_CLAIMS: Claims = claimsOf({});

/** A container may use only claims of its pod, and each request once. */
export function validateContainerClaims(claims: ContainerClaims, ofPod: Claims, path: string): FieldError[] {
  const used = new Map<string, Set<string>>();
  const names = ofPod.names.size === 0 ? ' which is empty' : `: ${ofPod.shown}`;
  const missing = `must be one of the names in pod.spec.resourceClaims${names}`;
  return claims.flatMap(({ name, request = '' }, at) => {
    const place = `${path}[${at}]`;
    if (name === '') return [required(place)];
    const before = used.get(name) ?? new Set();
    const isWhole = before.has('');
    const isRepeated = isWhole || before.has(request) || (request === '' && before.size > 0);
    used.set(name, before.add(request));
    return errorsOf(
      request !== '' && !isWhole && checked(`${place}.request`, request, isShortName),
      isRepeated && duplicate(place, isWhole || request === '' ? name : `${name}/${request}`),
      !ofPod.names.has(name) && `${notFound(place, name)}: ${missing}`,
    );
  });
}

/** Longer than a valid name. A longer name of a pod is an error of its own, which every volume would repeat. */
const POD_NAME_SHOWN_MAX = 300;

/** The name of such a claim consists of the names of the pod and the volume. */
export function validateEphemeralVolumes({ volumes = [] }: PodSpec, podName: string, path: string): FieldError[] {
  const claimNameOf = (volume: string): string => `${podName.slice(0, POD_NAME_SHOWN_MAX)}-${volume}`;
  const made = new Set(volumes.flatMap(({ name, ephemeral }) => (ephemeral ? [claimNameOf(name)] : [])));
  const taken = 'must not reference a PVC that gets created for an ephemeral volume';
  return volumes.flatMap(({ name, ephemeral, persistentVolumeClaim: claim }, at) => {
    const place = `${path}[${at}]`;
    const claimName = claimNameOf(name);
    const template = ephemeral?.volumeClaimTemplate;
    const where = `${place}.ephemeral.volumeClaimTemplate`;
    return errorsOf(
      ephemeral && !template && required(where),
      template && validateTemplate(template, where),
      ephemeral &&
        name !== '' &&
        isLongName(claimName).map((fault) =>
          invalid(`${place}.name`, name, `PVC name ${JSON.stringify(claimName)}: ${fault}`),
        ),
      claim && made.has(claim.claimName) && invalid(`${place}.persistentVolumeClaim.claimName`, claim.claimName, taken),
    );
  });
}

const ACCESS_MODES = ['ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOnce', 'ReadWriteOncePod'];
const VOLUME_MODES = ['Block', 'Filesystem'];

function validateTemplate({ metadata = {}, spec }: Template, path: string): FieldError[] {
  const { labels = {}, annotations = {}, ...others } = metadata;
  const { accessModes: modes = [], selector, resources, storageClassName, volumeMode } = spec;
  const place = `${path}.spec`;
  const isAlone =
    modes.includes('ReadWriteOncePod') && new Set(modes.filter((mode) => ACCESS_MODES.includes(mode))).size > 1;
  return errorsOf(
    Object.keys(annotations).flatMap((key) =>
      checked(`${path}.metadata.annotations`, key.toLowerCase(), isQualifiedName),
    ),
    validateLabels(labels, `${path}.metadata.labels`),
    Object.keys(others).map((field) => forbidden(`${path}.metadata.${field}`, 'cannot be set')),
    modes.length === 0 && required(`${place}.accessModes`, 'at least 1 access mode is required'),
    validateLabelSelector(selector, `${place}.selector`),
    modes
      .filter((mode) => !ACCESS_MODES.includes(mode))
      .map((mode) => notSupported(`${place}.accessModes`, mode, ACCESS_MODES)),
    isAlone && forbidden(`${place}.accessModes`, 'may not use ReadWriteOncePod with other access modes'),
    validateStorage(resources?.requests ?? {}, `${place}.resources[storage]`),
    storageClassName && checked(`${place}.storageClassName`, storageClassName, isLongName),
    volumeMode !== undefined &&
      !VOLUME_MODES.includes(volumeMode) &&
      notSupported(`${place}.volumeMode`, volumeMode, VOLUME_MODES),
    spec.volumeAttributesClassName &&
      checked(`${place}.volumeAttributesClassName`, spec.volumeAttributesClassName, isLongName),
  );
}

function validateStorage(requests: Readonly<Record<string, string>>, path: string): FieldError[] {
  const storage = requests['storage'];
  if (storage === undefined) return [required(path)];
  return nanoOf(storage) > 0n ? [] : [invalid(path, storage, 'must be greater than zero')];
}
