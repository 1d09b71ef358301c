/**
 * Validates amounts of resources (names, signs, and that a request does not exceed its limit), and claims.
 *
 * The claims are the ResourceClaims of a pod, and the PersistentVolumeClaims for its ephemeral volumes.
 *
 * A node of 0.2.0 did not validate them; a replay of its journal does not apply these rules.
 */
import type { Container, PodSpec, ResourceList, ResourceRequirements, Volume } from '../api/pod.ts';
import { amountOf, formatQuantity, MILLI, milliUnits, nanoOf, parseQuantity, wholeUnits } from '../values/quantity.ts';
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
import { validateLabelSelector, validateLabels } from './scheduling.ts';

const CONTAINER_RESOURCES = ['cpu', 'memory', 'ephemeral-storage'];
const HUGE_PAGES = 'hugepages-';
const NANO = 1_000_000_000n;
const BASIC = ['cpu', 'memory'];
const POD_RESOURCES = ['cpu', HUGE_PAGES, 'memory'];
const COUNTED =
  'pods resourcequotas services replicationcontrollers secrets configmaps persistentvolumeclaims storage ' +
  'requests.storage services.nodeports services.loadbalancers';
const STANDARD = [
  ...CONTAINER_RESOURCES.flatMap((name) => [name, `requests.${name}`, `limits.${name}`]),
  ...COUNTED.split(' '),
];
const NOT_STANDARD = 'must be a standard resource type or fully qualified';

/** The owner of the resources: a container or the pod; and the claims of the pod. */
interface Owner {
  readonly level: 'pod' | 'container';
  readonly claims: Claims;
}

/** Without an owner, by the rules of 0.2.0. */
export function validateResources(resources: ResourceRequirements, path: string, owner: Owner | null): FieldError[] {
  if (owner !== null) return validateOwned(resources, path, owner);
  const { limits = {}, requests = {}, claims = [] } = resources;
  const names = Object.keys({ ...limits, ...requests });
  const hasHugePages = names.some((name) => name.startsWith(HUGE_PAGES));
  const hasCpuOrMemory = names.includes('cpu') || names.includes('memory');
  return errorsOf(
    validateAmounts(limits, `${path}.limits`),
    validateAmounts(requests, `${path}.requests`),
    Object.entries(requests).flatMap(([name, request]) => validateRequest(name, request, limits, `${path}.requests`)),
    hasHugePages && !hasCpuOrMemory && forbidden(path, 'HugePages require cpu or memory'),
    claims.map(({ name }, at) =>
      name
        ? `${path}.claims[${at}]: Not found: ${JSON.stringify(name)}: must be one of the names in pod.spec.resourceClaims`
        : required(`${path}.claims[${at}]`),
    ),
  );
}

function validateOwned(resources: ResourceRequirements, path: string, { level, claims: ofPod }: Owner): FieldError[] {
  const { limits = {}, requests = {}, claims = [] } = resources;
  const names = Object.keys({ ...limits, ...requests });
  const needsMore = names.some((name) => name.startsWith(HUGE_PAGES)) && !names.some((name) => BASIC.includes(name));
  return errorsOf(
    validateOwnedAmounts(limits, `${path}.limits`, level),
    validateOwnedAmounts(requests, `${path}.requests`, level),
    Object.entries(requests).flatMap(([name, request]) => validateOwnedRequest(name, request, limits, path)),
    needsMore && forbidden(path, 'HugePages require cpu or memory'),
    validateContainerClaims(claims, ofPod, `${path}.claims`),
  );
}

function validateOwnedAmounts(amounts: ResourceList, path: string, level: Owner['level']): FieldError[] {
  return Object.entries(amounts).flatMap(([name, amount]) => {
    const place = `${path}[${name}]`;
    const { nano } = amountOf(amount);
    const isWhole = milliUnits(nano) % MILLI === 0n;
    return errorsOf(
      level === 'pod' ? validatePodResource(name, place) : validateContainerResource(name, place),
      nano < 0n && invalid(place, amount, 'must be greater than or equal to 0'),
      isExtended(name) && !isWhole && invalid(place, amount, 'must be an integer'),
      name.startsWith(HUGE_PAGES) &&
        !isMultiple(nano, name) &&
        invalid(place, amount, `${amount} is not positive integer multiple of ${name}`),
    );
  });
}

/** The name of the resource contains the size of its pages. */
function isMultiple(nano: bigint, name: string): boolean {
  const size = parseQuantity(name.slice(HUGE_PAGES.length));
  const page = size.error === undefined ? size.value.nano : 0n;
  return page > 0n && page % NANO === 0n && wholeUnits(nano) % wholeUnits(page) === 0n;
}

function validatePodResource(name: string, path: string): FieldError[] {
  const errors = checked(path, name, isQualifiedName);
  if (errors.length > 0) return errors;
  if (!name.includes('/') && !isStandard(name)) return [invalid(path, name, NOT_STANDARD)];
  return BASIC.includes(name) || name.startsWith(HUGE_PAGES) ? [] : [notSupported(path, name, POD_RESOURCES)];
}

function validateContainerResource(name: string, path: string): FieldError[] {
  const errors = checked(path, name, isQualifiedName);
  if (!name.includes('/')) {
    if (CONTAINER_RESOURCES.includes(name) || name.startsWith(HUGE_PAGES)) return errors;
    return [
      ...(errors.length > 0 || isStandard(name) ? errors : [invalid(path, name, NOT_STANDARD)]),
      invalid(path, name, 'must be a standard resource for containers'),
    ];
  }
  if (isNative(name) || isExtended(name)) return errors;
  return [...errors, invalid(path, name, "doesn't follow extended resource name standard")];
}

function validateOwnedRequest(name: string, request: string, limits: ResourceList, path: string): FieldError[] {
  const limit = Object.hasOwn(limits, name) ? limits[name] : undefined;
  const mayExceed = isNative(name) && !name.startsWith(HUGE_PAGES);
  if (limit === undefined) {
    return mayExceed ? [] : [required(`${path}.limits`, 'Limit must be set for non overcommitable resources')];
  }
  const order = amountOf(request).nano - amountOf(limit).nano;
  const form = mayExceed ? 'must be less than or equal to' : 'must be equal to';
  const isWrong = mayExceed ? order > 0n : order !== 0n;
  return isWrong ? [invalid(`${path}.requests`, request, `${form} ${name} limit of ${limit}`)] : [];
}

/** Names of resources in quotas; most have no meaning for a container. */
const isStandard = (name: string): boolean => STANDARD.includes(name) || /^(requests\.)?hugepages-/.test(name);
const isNative = (name: string): boolean => !name.includes('/') || name.includes('kubernetes.io/');
const isExtended = (name: string): boolean =>
  !isNative(name) && !name.startsWith('requests.') && isQualifiedName(`requests.${name}`).length === 0;

export function validateAmounts(amounts: ResourceList, path: string): FieldError[] {
  return Object.entries(amounts).flatMap(([name, amount]) => {
    const place = `${path}[${name}]`;
    const quantity = amountOf(amount);
    return errorsOf(
      validateName(name, place),
      quantity.nano < 0n && invalid(place, amount, 'must be greater than or equal to 0'),
      isCounted(name) && quantity.nano % NANO !== 0n && invalid(place, amount, 'must be an integer'),
    );
  });
}

function validateName(name: string, path: string): FieldError[] {
  const errors = checked(path, name, isQualifiedName);
  if (errors.length > 0 || name.includes('/')) return errors;
  if (CONTAINER_RESOURCES.includes(name) || name.startsWith(HUGE_PAGES)) return [];
  return [invalid(path, name, 'must be a standard resource for containers')];
}

function validateRequest(name: string, request: string, limits: ResourceList, path: string): FieldError[] {
  const limit = Object.hasOwn(limits, name) ? limits[name] : undefined;
  const mayExceed = CONTAINER_RESOURCES.includes(name);
  if (limit === undefined) {
    return mayExceed ? [] : [`${path}: Required value: Limit must be set for non overcommitable resources`];
  }
  const order = amountOf(request).nano - amountOf(limit).nano;
  const exact = formatQuantity(amountOf(limit));
  if (!mayExceed && order !== 0n) {
    return [invalid(path, request, `must be equal to ${name} limit of ${exact}`)];
  }
  return order > 0n ? [invalid(path, request, `must be less than or equal to ${name} limit of ${exact}`)] : [];
}

const isCounted = (name: string): boolean => name.includes('/') || name.startsWith(HUGE_PAGES);

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
function validateContainerClaims(claims: ContainerClaims, ofPod: Claims, path: string): FieldError[] {
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
  const given = Object.entries(metadata).filter(([, value]) => value !== null);
  const { labels = {}, annotations = {}, ...others }: NonNullable<Template['metadata']> = Object.fromEntries(given);
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
