/**
 * The frames of SPDY/3.1 as far as container runtimes and their clients speak it, in both directions. Pure.
 *
 * Source: SPDY Protocol Draft 3.1. No flow control by windows, because neither end of this protocol uses it.
 */

const VERSION = 0x8003;
export const SYN_STREAM = 1;
export const SYN_REPLY = 2;
export const RST_STREAM = 3;
export const PING = 6;
export const GOAWAY = 7;
/** Flag of a frame after which its sender says nothing more on the stream. */
export const FIN = 1;
const HEAD_BYTES = 8;
/** The length field has 24 bits; everybody sends frames of 32 KiB or a little more. */
const FRAME_MAX_BYTES = 1024 * 1024;
/** Largest payload of a data frame that is sent. */
export const DATA_MAX_BYTES = 32 * 1024;
/** Largest stored block of deflate. */
const STORED_MAX_BYTES = 65_535;
/** An empty stored block: a reader hands out what it has when it meets one, and not before. */
const FLUSHED = Buffer.from([0, 0, 0, 0xff, 0xff]);
/** zlib's header: deflate, no dictionary. */
const ZLIB_HEAD = Buffer.from([0x78, 0x01]);

export type Frame =
  | { readonly kind: 'data'; readonly stream: number; readonly flags: number; readonly payload: Buffer }
  | { readonly kind: 'control'; readonly type: number; readonly flags: number; readonly payload: Buffer };

export const dataHead = (stream: number, flags: number, bytes: number): Buffer => {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32BE(stream, 0);
  head.writeUInt32BE(flags * 0x1000000 + bytes, 4);
  return head;
};

export const controlHead = (type: number, flags: number, bytes: number): Buffer => {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt16BE(VERSION, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt32BE(flags * 0x1000000 + bytes, 4);
  return head;
};

/** Cuts a connection's bytes into frames; what is not whole yet is kept. */
export class FrameReader {
  private buffered: Buffer = Buffer.alloc(0);

  push(chunk: Buffer): void {
    this.buffered = this.buffered.length === 0 ? chunk : Buffer.concat([this.buffered, chunk]);
  }

  /** The next whole frame, `null` when there is none yet. @throws RangeError for one that nobody may send */
  next(): Frame | null {
    if (this.buffered.length < HEAD_BYTES) return null;
    const length = this.buffered.readUInt32BE(4) & 0xffffff;
    if (length > FRAME_MAX_BYTES) throw new RangeError(`a SPDY frame of ${length} bytes`);
    if (this.buffered.length < HEAD_BYTES + length) return null;
    const head = this.buffered.readUInt32BE(0);
    const flags = this.buffered.readUInt8(4);
    const payload = this.buffered.subarray(HEAD_BYTES, HEAD_BYTES + length);
    this.buffered = this.buffered.subarray(HEAD_BYTES + length);
    if (head < 0x80000000) return { kind: 'data', stream: head, flags, payload };
    return { kind: 'control', type: head & 0xffff, flags, payload };
  }
}

/** Headers as blocks of one zlib stream, uncompressed inside of it. */
export class HeaderPacker {
  private hasHead = false;

  pack(headers: Readonly<Record<string, string>>): Buffer {
    const entries = Object.entries(headers);
    const parts = [uint32(entries.length)];
    for (const text of entries.flatMap(([name, value]) => [name.toLowerCase(), value])) {
      const bytes = Buffer.from(text);
      parts.push(uint32(bytes.length), bytes);
    }
    const block = Buffer.concat(parts);
    if (block.length > STORED_MAX_BYTES) throw new Error('headers of a stream are larger than one block');
    const stored = Buffer.alloc(5);
    stored.writeUInt16LE(block.length, 1);
    stored.writeUInt16LE(block.length ^ 0xffff, 3);
    const head = this.hasHead ? Buffer.alloc(0) : ZLIB_HEAD;
    this.hasHead = true;
    return Buffer.concat([head, stored, block, FLUSHED]);
  }
}

/** Names and values of an unpacked block. @throws RangeError when its lengths do not fit it */
export function headersOf(block: Buffer): Readonly<Record<string, string>> {
  let at = 0;
  const number = (): number => {
    at += 4;
    return block.readUInt32BE(at - 4);
  };
  const text = (): string => {
    const length = number();
    if (at + length > block.length) throw new RangeError('a SPDY header is longer than its block');
    at += length;
    return block.toString('latin1', at - length, at);
  };
  const headers: Record<string, string> = {};
  for (let left = number(); left > 0; left--) {
    const name = text();
    headers[name] = text();
  }
  return headers;
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
