/** Decides what `kubeReserved`, `systemReserved` and `qosReserved` keep back: known resources, no negative amounts. */

import type { StringMap } from '../../model/configuration/types.ts';
import { byBytes, type Parsed, quote } from '../../model/values/go-text.ts';
import { formatQuantity, parseQuantity } from '../../model/values/quantity.ts';

const RESERVABLE = ['cpu', 'memory', 'ephemeral-storage', 'pid'];
const ONLY_CLASS_RESOURCE = 'memory';
const WHOLE = 100;

/** Resources with canonical quantities. */
export function parseReservedResources(settings: StringMap): Parsed<StringMap> {
  const reserved: [string, string][] = [];
  for (const [resource, text] of Object.entries(settings).toSorted(([left], [right]) => byBytes(left, right))) {
    if (!RESERVABLE.includes(resource)) return { error: `cannot reserve ${quote(resource)} resource` };
    const parsed = parseQuantity(text);
    if (parsed.error !== undefined) {
      return { error: `failed to parse quantity ${quote(text)} for ${quote(resource)} resource: ${parsed.error}` };
    }
    if (parsed.value.nano < 0n) {
      return { error: `resource quantity for ${quote(resource)} cannot be negative: ${text}` };
    }
    reserved.push([resource, formatQuantity(parsed.value)]);
  }
  return { value: Object.fromEntries(reserved) };
}

/** Percentages of a resource that lower QoS classes may not use. */
export function parseQosReserved(settings: StringMap): Parsed<Readonly<Record<string, number>>> {
  const reserved: [string, number][] = [];
  for (const [resource, text] of Object.entries(settings).toSorted(([left], [right]) => byBytes(left, right))) {
    if (resource !== ONLY_CLASS_RESOURCE) return { error: `cannot reserve ${quote(resource)} resource` };
    const share = parsePercentage(text);
    if (share.error !== undefined) {
      return { error: `failed to parse percentage ${quote(text)} for ${quote(resource)} resource: ${share.error}` };
    }
    reserved.push([resource, share.value]);
  }
  return { value: Object.fromEntries(reserved) };
}

function parsePercentage(text: string): Parsed<number> {
  if (!text.endsWith('%')) return { error: `percentage expected, got '${text}'` };
  const number = text.slice(0, -1);
  if (!/^[+-]?[0-9]+$/.test(number)) return { error: `strconv.ParseInt: parsing ${quote(number)}: invalid syntax` };
  const share = Number(number);
  if (share < 0 || share > WHOLE) return { error: 'percentage must be between 0 and 100' };
  return { value: share };
}
