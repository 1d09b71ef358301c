/** What the journal's reader uses of `node:zlib`. */
import { Decompress } from 'fzstd';
import { Buffer, bufferOf, encoded } from './buffer.ts';

/** The size of a piece of compressed bytes; the size of the content is counted after each piece. */
const PIECE_BYTES = 16 * 1024;

export function zstdDecompressSync(
  bytes: Uint8Array,
  { maxOutputLength }: { readonly maxOutputLength: number },
): Buffer {
  if (bytes.length === 0) throw new Error('there is nothing to decompress');
  const chunks: Uint8Array[] = [];
  let total = 0;
  const stream = new Decompress((chunk) => {
    total += chunk.length;
    if (total > maxOutputLength) {
      throw Object.assign(new RangeError('it holds too much'), { code: 'ERR_BUFFER_TOO_LARGE' });
    }
    chunks.push(chunk);
  });
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    stream.push(bytes.subarray(at, at + PIECE_BYTES), at + PIECE_BYTES >= bytes.length);
  }
  return bufferOf(Buffer.concat(chunks));
}

const POLYNOMIAL = 0xedb88320;
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let entry = byte;
  for (let bit = 0; bit < 8; bit++) entry = entry & 1 ? (entry >>> 1) ^ POLYNOMIAL : entry >>> 1;
  return entry;
});

export function crc32(data: string | Uint8Array): number {
  const bytes = encoded(data);
  let crc = 0xffffffff;
  for (let at = 0; at < bytes.length; at++) crc = (TABLE[(crc ^ (bytes[at] ?? 0)) & 0xff] ?? 0) ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}
