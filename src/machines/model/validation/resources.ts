/** Validates amounts of resources: names, signs, and that a request does not exceed its limit. */
import type { ResourceList, ResourceRequirements } from '../api/pod.ts';
import { formatQuantity, parseQuantity, type Quantity } from '../values/quantity.ts';
import { checked, type FieldError, forbidden, invalid, isQualifiedName, required } from './field.ts';

const CONTAINER_RESOURCES = ['cpu', 'memory', 'ephemeral-storage'];
const HUGE_PAGES = 'hugepages-';
const NANO = 1_000_000_000n;

export function validateResources(resources: ResourceRequirements, path: string): FieldError[] {
  const { limits = {}, requests = {}, claims = [] } = resources;
  const names = Object.keys({ ...limits, ...requests });
  const hasHugePages = names.some((name) => name.startsWith(HUGE_PAGES));
  const hasCpuOrMemory = names.includes('cpu') || names.includes('memory');
  return [
    ...validateAmounts(limits, `${path}.limits`),
    ...validateAmounts(requests, `${path}.requests`),
    ...Object.entries(requests).flatMap(([name, request]) =>
      validateRequest(name, request, limits, `${path}.requests`),
    ),
    ...(hasHugePages && !hasCpuOrMemory ? [forbidden(path, 'HugePages require cpu or memory')] : []),
    ...claims.map(({ name }, at) =>
      name
        ? `${path}.claims[${at}]: Not found: ${JSON.stringify(name)}: must be one of the names in pod.spec.resourceClaims`
        : required(`${path}.claims[${at}]`),
    ),
  ];
}

export function validateAmounts(amounts: ResourceList, path: string): FieldError[] {
  return Object.entries(amounts).flatMap(([name, amount]) => {
    const place = `${path}[${name}]`;
    const quantity = quantityOf(amount);
    return [
      ...validateName(name, place),
      ...(quantity.nano < 0n ? [invalid(place, amount, 'must be greater than or equal to 0')] : []),
      ...(isExtended(name) && quantity.nano % NANO !== 0n ? [invalid(place, amount, 'must be an integer')] : []),
    ];
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
  const order = quantityOf(request).nano - quantityOf(limit).nano;
  const exact = formatQuantity(quantityOf(limit));
  if (!mayExceed && order !== 0n) {
    return [invalid(path, request, `must be equal to ${name} limit of ${exact}`)];
  }
  return order > 0n ? [invalid(path, request, `must be less than or equal to ${name} limit of ${exact}`)] : [];
}

const isExtended = (name: string): boolean => name.includes('/') || name.startsWith(HUGE_PAGES);

/** The schema has accepted the text, so it parses. */
function quantityOf(text: string): Quantity {
  const parsed = parseQuantity(text);
  return parsed.error === undefined ? parsed.value : { nano: 0n, format: 'decimalSI' };
}
