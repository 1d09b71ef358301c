/** Validates amounts of resources: names, signs, and that a request does not exceed its limit. */
import type { ResourceList, ResourceRequirements } from '../api/pod.ts';
import { amountOf, formatQuantity, MILLI, milliUnits, parseQuantity, wholeUnits } from '../values/quantity.ts';
import { type Claims, validateContainerClaims } from './claims.ts';
import {
  checked,
  errorsOf,
  type FieldError,
  forbidden,
  invalid,
  isQualifiedName,
  notSupported,
  required,
} from './field.ts';

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
