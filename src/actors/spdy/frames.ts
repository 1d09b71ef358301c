/**
 * The frames of SPDY/3.1 used by container runtimes and their clients, in both directions. Pure.
 *
 * Source: SPDY Protocol Draft 3.1. No flow control by windows, because neither end of this protocol uses it.
 */

const VERSION = 0x8003;
const SYN_STREAM = 1;
const SYN_REPLY = 2;
const RST_STREAM = 3;
const PING = 6;
const GOAWAY = 7;
const HEADERS = 8;
/** Flag of a frame after which its sender sends nothing more on the stream. */
const FIN = 1;
/** The reason of a reset: the stream is no longer wanted. */
const CANCEL = 5;
const HEAD_BYTES = 8;
/** A SYN_STREAM before its headers: its id, the associated stream, its priority. */
const SYN_FIXED_BYTES = 10;
/** The length field has 24 bits; clients send frames of 32 KiB or a little more. */
const FRAME_MAX_BYTES = 1024 * 1024;
/** Chunks of an incomplete frame: a chunk may have one byte, and takes a hundred in memory. */
const CHUNKS_MAX = 4_096;
/** Largest payload of a data frame that is sent. */
const DATA_MAX_BYTES = 32 * 1024;
/** Largest stored block of deflate. */
const STORED_MAX_BYTES = 65_535;
/** An empty stored block: makes a reader return its bytes. */
const FLUSHED = Buffer.from([0, 0, 0, 0xff, 0xff]);
/** zlib's header: deflate, no dictionary. */
const ZLIB_HEAD = Buffer.from([0x78, 0x01]);

/** A received frame. After a frame with `isLast` its sender sends nothing more on the stream. */
export type Frame =
  | { readonly kind: 'data'; readonly stream: number; readonly isLast: boolean; readonly payload: Buffer }
  | { readonly kind: 'open'; readonly stream: number; readonly isLast: boolean; readonly packedHeaders: Buffer }
  | { readonly kind: 'headers'; readonly stream: number; readonly isLast: boolean }
  | { readonly kind: 'reset'; readonly stream: number }
  | { readonly kind: 'ping'; readonly payload: Buffer }
  /** Settings, windows and goaways, which a session does not need. */
  | { readonly kind: 'other' };

/**
 * Splits a connection's bytes into frames. Data frames are passed on in the pieces in which they arrive, without
 * copying; any other frame is assembled once it is complete.
 */
export class FrameReader {
  private chunks: Buffer[] = [];
  private bytes = 0;
  /** The data frame whose payload is incomplete. */
  private open: { readonly stream: number; readonly isLast: boolean; left: number } | null = null;
  /** How many bytes the next frame needs before it can be read. */
  private needed = HEAD_BYTES;

  push(chunk: Buffer): void {
    if (chunk.length > 0) this.chunks.push(chunk);
    this.bytes += chunk.length;
    if (this.chunks.length > CHUNKS_MAX) this.joined();
  }

  /** The next frame or piece of data; `null` if incomplete. @throws RangeError for an oversized frame */
  next(): Frame | null {
    if (this.open) return this.bytes === 0 ? null : this.piece(this.open);
    if (this.bytes < this.needed) return null;
    const buffered = this.joined();
    const length = buffered.readUInt32BE(4) & 0xffffff;
    if (length > FRAME_MAX_BYTES) throw new RangeError(`a SPDY frame of ${length} bytes`);
    const head = buffered.readUInt32BE(0);
    const isLast = (buffered.readUInt8(4) & FIN) !== 0;
    if (head < 0x80000000) {
      this.take(HEAD_BYTES);
      this.open = { stream: head, isLast, left: length };
      return length > 0 && this.bytes === 0 ? null : this.piece(this.open);
    }
    this.needed = HEAD_BYTES + length;
    if (this.bytes < this.needed) return null;
    this.needed = HEAD_BYTES;
    this.take(HEAD_BYTES);
    return controlFrame(head & 0xffff, isLast, this.take(length));
  }

  private piece(open: NonNullable<FrameReader['open']>): Frame {
    const payload = this.take(Math.min(open.left, this.chunks[0]?.length ?? 0));
    open.left -= payload.length;
    if (open.left === 0) this.open = null;
    return { kind: 'data', stream: open.stream, isLast: open.isLast && open.left === 0, payload };
  }

  /** All unread bytes as one chunk. */
  private joined(): Buffer {
    const [first, ...more] = this.chunks;
    const whole = first && more.length === 0 ? first : Buffer.concat(this.chunks);
    this.chunks = [whole];
    return whole;
  }

  /** Takes the first bytes, all of which are in the first chunk. */
  private take(bytes: number): Buffer {
    const chunk = this.chunks[0] ?? Buffer.alloc(0);
    if (bytes < chunk.length) this.chunks[0] = chunk.subarray(bytes);
    else this.chunks.shift();
    this.bytes -= bytes;
    return chunk.subarray(0, bytes);
  }
}

function controlFrame(type: number, isLast: boolean, payload: Buffer): Frame {
  const stream = (): number => payload.readUInt32BE(0) & 0x7fffffff;
  switch (type) {
    case SYN_STREAM:
      return { kind: 'open', stream: stream(), isLast, packedHeaders: payload.subarray(SYN_FIXED_BYTES) };
    case SYN_REPLY:
    case HEADERS:
      return { kind: 'headers', stream: stream(), isLast };
    case RST_STREAM:
      return { kind: 'reset', stream: stream() };
    case PING:
      return { kind: 'ping', payload };
    default:
      return { kind: 'other' };
  }
}

/** The frames of one side of a connection, as bytes. */
export class FrameWriter {
  private readonly packer = new HeaderPacker();

  open(stream: number, headers: Readonly<Record<string, string>>): Buffer {
    const fixed = Buffer.alloc(SYN_FIXED_BYTES);
    fixed.writeUInt32BE(stream);
    return control(SYN_STREAM, fixed, this.packer.pack(headers));
  }

  /** Accepts a stream; the frame needs no headers. */
  reply(stream: number): Buffer {
    return control(SYN_REPLY, uint32(stream), this.packer.pack({}));
  }

  /** The bytes in as many frames as necessary. */
  data(stream: number, bytes: Buffer): readonly Buffer[] {
    const parts: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += DATA_MAX_BYTES) {
      const part = bytes.subarray(at, at + DATA_MAX_BYTES);
      parts.push(frameHead(stream, 0, part.length), part);
    }
    return parts;
  }

  /** Ends a stream: nothing more is sent on it. */
  last(stream: number): Buffer {
    return frameHead(stream, FIN, 0);
  }

  reset(stream: number): Buffer {
    return control(RST_STREAM, uint32(stream), uint32(CANCEL));
  }

  /** The answer to a ping: the same payload. */
  pong(payload: Buffer): Buffer {
    return control(PING, payload);
  }

  goAway(): Buffer {
    return control(GOAWAY, Buffer.alloc(8));
  }
}

function frameHead(first: number, flags: number, bytes: number): Buffer {
  return Buffer.concat([uint32(first), uint32(flags * 0x1000000 + bytes)]);
}

function control(type: number, ...payload: readonly Buffer[]): Buffer {
  const bytes = payload.reduce((sum, { length }) => sum + length, 0);
  return Buffer.concat([frameHead(VERSION * 0x10000 + type, 0, bytes), ...payload]);
}

/** Headers as blocks of one zlib stream, uncompressed inside of it. */
class HeaderPacker {
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
