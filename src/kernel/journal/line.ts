/**
 * One line of a segment: `crc32 SP json LF`, where `crc32` is eight lower-case hex digits over the bytes of `json`.
 *
 * `json` is the output of `JSON.stringify`, so it contains no raw line break. Values outside JSON (`undefined`, `NaN`,
 * a `Date`) never get here: the kernel's values are plain JSON.
 */
import { crc32 } from 'node:zlib';
import type { RawLine } from './decoder.ts';
import { isTooDeep, NESTING_MAX } from './shape.ts';

/** Large values have files of their own: the longest line of a full node has a few hundred KiB. */
export const LINE_MAX_BYTES = 8 * 1024 * 1024;
/** Eight digits of the checksum and a space. */
const PREFIX_BYTES = 9;
const LINE_FEED = 0x0a;
const SPACE = 0x20;
const HEX_DIGITS = '0123456789abcdef';
/** The hexadecimal digits of each byte. */
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
const OPEN = Buffer.from('{');
const BARE = Buffer.from('{"k":');
const UNNUMBERED = /^\{"k":"(?:chain|checkpoint)"/;
const NUMBERED = /^\{"n":\d{1,16},/;

export const encodeLine = (json: string): string => `${checksumOf(json)} ${json}\n`;

/** A line's bytes in a plain segment, and its JSON. */
export interface ParsedLine {
  readonly bytes: Buffer;
  readonly json: Buffer;
  readonly raw: RawLine;
}

/** The parsed line without its line feed, or a sentence that describes the fault. */
export function parseLine(line: Buffer): ParsedLine | string {
  if (line.length < PREFIX_BYTES + 2 || line[PREFIX_BYTES - 1] !== SPACE) return 'it does not begin with a checksum';
  const json = line.subarray(PREFIX_BYTES);
  const sum = crc32(json);
  if (!isStated(line, sum))
    return `its checksum is ${printable(line.toString('latin1', 0, PREFIX_BYTES - 1))}, its bytes make ${hex(sum)}`;
  const raw = rawLine(json);
  return typeof raw === 'string' ? `its checksum is right, but ${raw}` : { bytes: line, json, raw };
}

/** As {@link parseLine}, for a line of a compressed segment, which has no checksum, and no number if that is `next`. */
export function parseBareLine(line: Buffer, next: number): ParsedLine | string {
  const hasNumber = line.subarray(0, BARE.length).equals(BARE) && !UNNUMBERED.test(line.toString('latin1', 0, 32));
  const json = hasNumber ? Buffer.concat([Buffer.from(`{"n":${next},`), line.subarray(1)]) : line;
  const raw = rawLine(json);
  if (typeof raw === 'string') return raw;
  return { bytes: Buffer.concat([Buffer.from(`${checksumOf(json)} `), json]), json, raw };
}

/** The form of a line in a compressed segment; `last` is the number of the line before. */
export function bareLine(line: Buffer, last: number): { readonly bare: Buffer; readonly n: number } {
  const json = line.subarray(PREFIX_BYTES);
  const [number] = NUMBERED.exec(json.toString('latin1', 0, 32)) ?? [];
  if (number === undefined) return { bare: json, n: last };
  const n = Number.parseInt(number.slice(5), 10);
  return { bare: n === last + 1 ? Buffer.concat([OPEN, json.subarray(number.length)]) : json, n };
}

const hex = (sum: number): string =>
  HEX[sum >>> 24]! + HEX[(sum >>> 16) & 255]! + HEX[(sum >>> 8) & 255]! + HEX[sum & 255]!;
const checksumOf = (json: Buffer | string): string => hex(crc32(json));

/** Whether the line begins with this checksum. Comparing digit by digit is faster than formatting the number. */
function isStated(line: Buffer, sum: number): boolean {
  for (let at = PREFIX_BYTES - 2, left = sum; at >= 0; at--, left >>>= 4) {
    if (line[at] !== HEX_DIGITS.charCodeAt(left & 15)) return false;
  }
  return true;
}

function rawLine(json: Buffer): RawLine | string {
  if (isTooDeep(json)) return `it is nested deeper than ${NESTING_MAX} levels`;
  try {
    const raw: unknown = JSON.parse(json.toString());
    if (typeof raw === 'object' && raw !== null && 'k' in raw && typeof raw.k === 'string') return raw as RawLine;
  } catch {}
  return 'it holds no record that this format knows';
}

const printable = (text: string): string => text.replace(/[^!-~]/g, '?');

/** A line with its position in a file. */
export interface PlacedLine {
  /** The bytes without the line feed, valid until the next line is read. */
  readonly bytes: Buffer;
  /** Offset of the line's first byte, from the start of the file. */
  readonly offset: number;
  /** Line number, from 1. */
  readonly number: number;
  /** False if no line feed ends the bytes: at the end of the file, or after {@link LINE_MAX_BYTES}. */
  readonly whole: boolean;
}

/**
 * Splits a stream of chunks into lines, buffering at most a chunk and a line. A line that is too long ends the stream.
 */
export function* linesOf(chunks: Iterable<Buffer>): Generator<PlacedLine> {
  let rest: Buffer = Buffer.alloc(0);
  let offset = 0;
  let number = 1;
  for (const chunk of chunks) {
    const buffer = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let start = 0;
    for (let end = buffer.indexOf(LINE_FEED); end !== -1; end = buffer.indexOf(LINE_FEED, start)) {
      yield { bytes: buffer.subarray(start, end), offset: offset + start, number, whole: true };
      number++;
      start = end + 1;
    }
    offset += start;
    rest = Buffer.from(buffer.subarray(start));
    if (rest.length > LINE_MAX_BYTES) break;
  }
  if (rest.length > 0) yield { bytes: rest, offset, number, whole: false };
}
