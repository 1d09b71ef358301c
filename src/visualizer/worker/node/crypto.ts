/** The part of `node:crypto` that the kernel and the machines use: synchronous hashes, which Web Crypto lacks. */
import { sha1 } from '@noble/hashes/legacy.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { bufferOf, encoded } from './buffer.ts';

const ALGORITHMS = { sha1, sha256 } as const;

type Algorithm = keyof typeof ALGORITHMS;
type Encoding = 'hex' | 'base64';

const written = (bytes: Uint8Array, encoding: Encoding): string => bufferOf(bytes).toString(encoding);

export const hash = (algorithm: Algorithm, data: string | Uint8Array, encoding: Encoding = 'hex'): string =>
  written(ALGORITHMS[algorithm](encoded(data)), encoding);

export interface Hash {
  update(data: string | Uint8Array): Hash;
  digest(encoding: Encoding): string;
  /** Goes on from here by itself. */
  copy(): Hash;
}

export const createHash = (algorithm: Algorithm): Hash => hashOf(ALGORITHMS[algorithm].create());

type State = ReturnType<(typeof ALGORITHMS)[Algorithm]['create']>;

function hashOf(state: State): Hash {
  const made: Hash = {
    update(data) {
      state.update(encoded(data));
      return made;
    },
    digest: (encoding) => written(state.digest(), encoding),
    copy: () => hashOf(state.clone()),
  };
  return made;
}
