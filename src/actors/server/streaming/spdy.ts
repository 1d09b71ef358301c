/**
 * The client's half of SPDY/3.1, as far as a container runtime's streaming server speaks it.
 *
 * Owns: one upgraded connection and the streams on it. This side opens every stream; headers that come back say nothing
 * that it needs, so none is ever unpacked, and those that it sends go uncompressed inside their zlib frame.
 * Invariants:
 *   Y1 data of a stream is told in order, and its end once.
 *   Y2 nothing is buffered past what the socket takes: `write` says when to stop, `pause` stops the other side.
 *   Y4 one write each round of the event loop, so that what the other side said before it closed is read before a write
 *   can fail: Node gives up a connection with its first failed write, and what it had not read is gone.
 *   Y3 a frame that is larger than any peer may send ends the connection.
 * Source: SPDY Protocol Draft 3.1; no flow control by windows, because neither end of this protocol uses it.
 */
import type { Duplex } from 'node:stream';

const VERSION = 0x8003;
const SYN_STREAM = 1;
const RST_STREAM = 3;
const PING = 6;
const GOAWAY = 7;
const FIN = 1;
const HEAD_BYTES = 8;
/** The length field has 24 bits; runtimes send frames of 32 KiB. */
const FRAME_MAX_BYTES = 1024 * 1024;
/** Largest payload of a data frame that this side sends. */
const DATA_MAX_BYTES = 32 * 1024;
/** What may wait for the next round of the event loop before a sender is asked to pause. */
const WRITE_AHEAD_BYTES = 256 * 1024;
/** Largest stored block of deflate. */
const STORED_MAX_BYTES = 65_535;

/** An empty stored block: a reader hands out what it has when it meets one, and not before. */
const FLUSHED = Buffer.from([0, 0, 0, 0xff, 0xff]);

export interface SpdyStream {
  readonly id: number;
  /** False when the connection wants a pause: wait for its `onDrain`. */
  write(data: Buffer): boolean;
  /** Nothing more from this side. */
  end(): void;
}

export interface StreamListener {
  data?(chunk: Buffer): void;
  /** The other side has no more, or took the stream away. */
  end?(): void;
}

interface Open {
  readonly listener: StreamListener;
  ended: boolean;
}

export class SpdyClient {
  private readonly socket: Duplex;
  private readonly streams = new Map<number, Open>();
  private buffered: Buffer = Buffer.alloc(0);
  private waiting: Buffer[] = [];
  private waitingBytes = 0;
  private flushing: NodeJS.Immediate | undefined;
  private nextId = 1;
  private hasHeader = false;
  /** Called when the socket took what `write` refused. */
  onDrain: () => void = () => {};
  onClose: () => void = () => {};

  /** @param head bytes that came with the answer to the upgrade */
  constructor(socket: Duplex, head: Buffer) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => this.take(chunk));
    socket.on('drain', () => this.onDrain());
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.closed());
    if (head.length > 0) this.take(head);
  }

  open(headers: Readonly<Record<string, string>>, listener: StreamListener): SpdyStream {
    const id = this.nextId;
    this.nextId += 2;
    this.streams.set(id, { listener, ended: false });
    const fixed = Buffer.alloc(10);
    fixed.writeUInt32BE(id, 0);
    this.control(SYN_STREAM, 0, Buffer.concat([fixed, this.packed(headers)]));
    return {
      id,
      write: (data) => this.send(id, data),
      end: () => void this.frame(id, FIN, Buffer.alloc(0)),
    };
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
  }

  close(): void {
    clearImmediate(this.flushing);
    this.flush();
    this.socket.end();
    this.socket.destroy();
  }

  private send(id: number, data: Buffer): boolean {
    let isReady = true;
    for (let at = 0; at < data.length; at += DATA_MAX_BYTES) {
      isReady = this.frame(id, 0, data.subarray(at, at + DATA_MAX_BYTES));
    }
    return isReady;
  }

  private frame(id: number, flags: number, data: Buffer): boolean {
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt32BE(id, 0);
    head.writeUInt32BE(flags * 0x1000000 + data.length, 4);
    return this.queue(head, data);
  }

  private control(type: number, flags: number, payload: Buffer): void {
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt16BE(VERSION, 0);
    head.writeUInt16BE(type, 2);
    head.writeUInt32BE(flags * 0x1000000 + payload.length, 4);
    this.queue(head, payload);
  }

  /** False when enough waits: `onDrain` says when it is gone. */
  private queue(...parts: Buffer[]): boolean {
    this.waiting.push(...parts);
    this.waitingBytes += parts.reduce((sum, { length }) => sum + length, 0);
    this.flushing ??= setImmediate(() => this.flush());
    return this.waitingBytes < WRITE_AHEAD_BYTES;
  }

  private flush(): void {
    const bytes = Buffer.concat(this.waiting);
    this.flushing = undefined;
    this.waiting = [];
    this.waitingBytes = 0;
    if (this.socket.writable && this.socket.write(bytes)) this.onDrain();
  }

  /** Names and values in a stored deflate block; the zlib header goes before the first of a connection. */
  private packed(headers: Readonly<Record<string, string>>): Buffer {
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
    const header = this.hasHeader ? Buffer.alloc(0) : Buffer.from([0x78, 0x01]);
    this.hasHeader = true;
    return Buffer.concat([header, stored, block, FLUSHED]);
  }

  private take(chunk: Buffer): void {
    let rest = this.buffered.length === 0 ? chunk : Buffer.concat([this.buffered, chunk]);
    while (rest.length >= HEAD_BYTES) {
      const length = rest.readUInt32BE(4) & 0xffffff;
      if (length > FRAME_MAX_BYTES) return void this.socket.destroy();
      if (rest.length < HEAD_BYTES + length) break;
      this.frameTaken(rest, rest.subarray(HEAD_BYTES, HEAD_BYTES + length));
      rest = rest.subarray(HEAD_BYTES + length);
    }
    this.buffered = rest;
  }

  private frameTaken(head: Buffer, payload: Buffer): void {
    const first = head.readUInt32BE(0);
    const flags = head.readUInt8(4);
    if (first < 0x80000000) this.dataTaken(first, flags, payload);
    else this.controlTaken(first & 0xffff, flags, payload);
  }

  private dataTaken(id: number, flags: number, payload: Buffer): void {
    const stream = this.streams.get(id);
    if (!stream || stream.ended) return;
    if (payload.length > 0) stream.listener.data?.(payload);
    if (flags & FIN) this.ended(stream);
  }

  private controlTaken(type: number, flags: number, payload: Buffer): void {
    if (type === PING) return this.control(PING, 0, payload);
    if (type === GOAWAY || payload.length < 4) return;
    const stream = this.streams.get(payload.readUInt32BE(0) & 0x7fffffff);
    if (stream && (type === RST_STREAM || flags & FIN)) this.ended(stream);
  }

  private ended(stream: Open): void {
    if (stream.ended) return;
    stream.ended = true;
    stream.listener.end?.();
  }

  private closed(): void {
    for (const stream of this.streams.values()) this.ended(stream);
    this.onClose();
  }
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
