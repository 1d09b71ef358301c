/**
 * Parses an IP address as `ParseIPSloppy` does: leading zeros in IPv4 are decimal, a zone is rejected. Provides family
 * and canonical bytes, so that addresses are compared by value.
 */
export interface IpAddress {
  readonly family: 4 | 6;
  /** All groups as one number. An IPv4-mapped IPv6 address is IPv4. */
  readonly value: bigint;
}

const OCTET = 255;
const GROUPS = 8;
const MAPPED_PREFIX = 0xff_ffn;

export function parseIp(text: string): IpAddress | null {
  return text.includes(':') ? parseIpv6(text) : parseIpv4(text);
}

export function isIpAddress(text: string): boolean {
  return parseIp(text) !== null;
}

/** The address as Go writes it: IPv4 without leading zeros, IPv6 with its longest run of zeros left out (RFC 5952). */
export function canonicalIp(text: string): string {
  const address = parseIp(text);
  if (address === null) return text;
  if (address.family === 4) return [24n, 16n, 8n, 0n].map((bits) => (address.value >> bits) & 255n).join('.');
  const groups = Array.from({ length: GROUPS }, (_, at) =>
    ((address.value >> BigInt(16 * (GROUPS - 1 - at))) & 0xff_ffn).toString(16),
  );
  const [run] = groups
    .map((_, from) => ({ from, length: groups.slice(from).findIndex((group) => group !== '0') }))
    .map(({ from, length }) => ({ from, length: length === -1 ? GROUPS - from : length }))
    .toSorted((a, b) => b.length - a.length);
  if (run === undefined || run.length < 2) return groups.join(':');
  return `${groups.slice(0, run.from).join(':')}::${groups.slice(run.from + run.length).join(':')}`;
}

function parseIpv4(text: string): IpAddress | null {
  const octets = text.split('.');
  if (octets.length !== 4 || !octets.every((octet) => /^[0-9]+$/.test(octet) && Number(octet) <= OCTET)) return null;
  return { family: 4, value: octets.reduce((total, octet) => total * 256n + BigInt(octet), 0n) };
}

function parseIpv6(text: string): IpAddress | null {
  const expanded = withoutDottedTail(text);
  if (expanded === null) return null;
  const halves = expanded.split('::');
  if (halves.length > 2) return null;
  const [head = '', tail] = halves;
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const missing = GROUPS - before.length - after.length;
  if (tail === undefined ? missing !== 0 : missing < 1) return null;
  const groups = [...before, ...Array.from({ length: tail === undefined ? 0 : missing }, () => '0'), ...after];
  if (!groups.every((group) => /^[0-9a-fA-F]{1,4}$/.test(group))) return null;
  const value = groups.reduce((total, group) => total * 65_536n + BigInt(`0x${group}`), 0n);
  return value >> 32n === MAPPED_PREFIX ? { family: 4, value: value & 0xff_ff_ff_ffn } : { family: 6, value };
}

function withoutDottedTail(text: string): string | null {
  if (!text.includes('.')) return text;
  const at = text.lastIndexOf(':') + 1;
  const tail = parseIpv4(text.slice(at));
  if (tail === null) return null;
  return `${text.slice(0, at)}${(tail.value >> 16n).toString(16)}:${(tail.value & 0xff_ffn).toString(16)}`;
}
