/** What the kernel and the machines use of `node:crypto`: hashes, at once. Web Crypto has them as promises only. */
import { sha1 } from '@noble/hashes/legacy.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { Buffer, bufferOf } from './buffer.ts';

const ALGORITHMS = { sha1, sha256 } as const;

type Algorithm = keyof typeof ALGORITHMS;
type Encoding = 'hex' | 'base64';

const bytesOf = (data: string | Uint8Array): Uint8Array => (typeof data === 'string' ? Buffer.from(data) : data);
const encoded = (bytes: Uint8Array, encoding: Encoding): string => bufferOf(bytes).toString(encoding);

export const hash = (algorithm: Algorithm, data: string | Uint8Array, encoding: Encoding = 'hex'): string =>
  encoded(ALGORITHMS[algorithm](bytesOf(data)), encoding);

export interface Hash {
  update(data: string | Uint8Array): Hash;
  digest(encoding: Encoding): string;
}

export function createHash(algorithm: Algorithm): Hash {
  const state = ALGORITHMS[algorithm].create();
  const made: Hash = {
    update(data) {
      state.update(bytesOf(data));
      return made;
    },
    digest: (encoding) => encoded(state.digest(), encoding),
  };
  return made;
}
