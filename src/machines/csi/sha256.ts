/** SHA-256 of a text, in hexadecimal: attachments and folders of CSI volumes have such names. Pure. FIPS 180-4. */

const WORDS = 64;
const BLOCK_BYTES = 64;
const LENGTH_BYTES = 8;

const primes = (count: number): number[] => {
  const found: number[] = [];
  for (let each = 2; found.length < count; each++) if (found.every((prime) => each % prime !== 0)) found.push(each);
  return found;
};
/** The first 32 bits of what follows the point. */
const fraction = (value: number): number => ((value - Math.floor(value)) * 2 ** 32) | 0;

const START = primes(8).map((prime) => fraction(Math.sqrt(prime)));
const ROUND = primes(WORDS).map((prime) => fraction(Math.cbrt(prime)));

const turned = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

function padded(text: string): DataView {
  const bytes = new TextEncoder().encode(text);
  const length = Math.ceil((bytes.length + 1 + LENGTH_BYTES) / BLOCK_BYTES) * BLOCK_BYTES;
  const all = new Uint8Array(length);
  all.set(bytes);
  all[bytes.length] = 0x80;
  const view = new DataView(all.buffer);
  view.setBigUint64(length - LENGTH_BYTES, BigInt(bytes.length) * 8n);
  return view;
}

function schedule(view: DataView, offset: number): Int32Array {
  const words = new Int32Array(WORDS);
  for (let at = 0; at < 16; at++) words[at] = view.getInt32(offset + at * 4);
  for (let at = 16; at < WORDS; at++) {
    const [far, near] = [words[at - 15]!, words[at - 2]!];
    const low = turned(far, 7) ^ turned(far, 18) ^ (far >>> 3);
    const high = turned(near, 17) ^ turned(near, 19) ^ (near >>> 10);
    words[at] = words[at - 16]! + low + words[at - 7]! + high;
  }
  return words;
}

type Hash = [number, number, number, number, number, number, number, number];

function round([a, b, c, d, e, f, g, h]: Hash, word: number, at: number): Hash {
  const mixedE = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
  const chosen = (e & f) ^ (~e & g);
  const first = (h + mixedE + chosen + ROUND[at]! + word) | 0;
  const mixedA = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
  const most = (a & b) ^ (a & c) ^ (b & c);
  return [(first + mixedA + most) | 0, a, b, c, (d + first) | 0, e, f, g];
}

export function sha256(text: string): string {
  const view = padded(text);
  let hash = START as Hash;
  for (let offset = 0; offset < view.byteLength; offset += BLOCK_BYTES) {
    const words = schedule(view, offset);
    let next = hash;
    for (let at = 0; at < WORDS; at++) next = round(next, words[at]!, at);
    hash = hash.map((word, at) => (word + next[at]!) | 0) as Hash;
  }
  return hash.map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}
