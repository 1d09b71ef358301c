/**
 * FNV-1a, and the hash of a container's definition.
 *
 * A running container is replaced when this hash changes. Invariant: equal to the kubelet's hash, so that containers
 * survive a change of the node's agent.
 */
import type { Container } from '../api/pod.ts';

const FNV_OFFSET_32 = 0x811c9dc5;
const FNV_PRIME_32 = 0x01000193;

const ASCII_MAX = 0x7f;

/** The hash of the text's UTF-8 bytes. */
export function fnv1a32(text: string): number {
  let hash = FNV_OFFSET_32;
  for (let at = 0; at < text.length; at++) {
    const byte = text.charCodeAt(at);
    if (byte > ASCII_MAX) return hashOfBytes(new TextEncoder().encode(text));
    hash = Math.imul(hash ^ byte, FNV_PRIME_32);
  }
  return hash >>> 0;
}

function hashOfBytes(bytes: Uint8Array): number {
  let hash = FNV_OFFSET_32;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, FNV_PRIME_32);
  return hash >>> 0;
}

const HTML_ESCAPES: Readonly<Record<string, string>> = {
  '<': '\\u003c',
  '>': '\\u003e',
  '&': '\\u0026',
  '\u2028': '\\u2028',
  '\u2029': '\\u2029',
};

/** JSON text as written by Go's `encoding/json`: with HTML's special characters escaped. */
export const goJson = (value: unknown): string =>
  JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, (character) => HTML_ESCAPES[character] ?? character);

/** Only name and image count. The kubelet hashes the Go-syntax dump of the JSON's bytes, a list of decimal numbers. */
export function containerHash(container: Pick<Container, 'name' | 'image'>): string {
  const json = goJson({ image: container.image ?? '', name: container.name });
  return fnv1a32(`([]uint8)[${new TextEncoder().encode(json).join(' ')}]`).toString(16);
}
