/** Finds how many bytes at the end of a closed segment belong to no complete turn. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { linesOf, parseLine } from './line.ts';

/** The first window: most turns fit; otherwise the window grows until it contains the end of a turn. */
const WINDOW_BYTES = 256 * 1024;
const WINDOW_GROWTH = 8;

/** Reads backwards, so that opening a journal does not read a whole segment. */
export function tornBytes(path: string): number {
  const descriptor = openSync(path, 'r');
  try {
    const { size } = fstatSync(descriptor);
    for (let window = WINDOW_BYTES; ; window *= WINDOW_GROWTH) {
      const from = Math.max(0, size - window);
      const bytes = Buffer.allocUnsafe(size - from);
      readSync(descriptor, bytes, 0, bytes.length, from);
      const whole = endOfLastTurn(bytes);
      if (whole > 0) return bytes.length - whole;
      if (from === 0) return size;
    }
  } finally {
    closeSync(descriptor);
  }
}

/** Offset after the last `end` and its link; 0 if there is none. A segment's checkpoint counts as an end. */
function endOfLastTurn(bytes: Buffer): number {
  let whole = 0;
  let open = false;
  for (const line of linesOf([bytes])) {
    if (!line.whole) break;
    const parsed = parseLine(line.bytes);
    if (typeof parsed === 'string') {
      open = true;
      continue;
    }
    const { k } = parsed.raw;
    if (k === 'end' || k === 'checkpoint' || k === 'gap') open = false;
    else if (k !== 'chain') open = true;
    if (!open) whole = line.offset + line.bytes.length + 1;
  }
  return whole;
}
