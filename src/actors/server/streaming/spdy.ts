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
 */
import type { Duplex } from 'node:stream';
import {
  controlHead,
  DATA_MAX_BYTES,
  dataHead,
  FIN,
  type Frame,
  FrameReader,
  GOAWAY,
  HeaderPacker,
  PING,
  RST_STREAM,
  SYN_STREAM,
} from '../../spdy/frames.ts';

/** What may wait for the next round of the event loop before a sender is asked to pause. */
const WRITE_AHEAD_BYTES = 256 * 1024;

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
  private readonly reader = new FrameReader();
  private readonly packer = new HeaderPacker();
  private waiting: Buffer[] = [];
  private waitingBytes = 0;
  private flushing: NodeJS.Immediate | undefined;
  private nextId = 1;
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
    this.control(SYN_STREAM, 0, Buffer.concat([fixed, this.packer.pack(headers)]));
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
    return this.queue(dataHead(id, flags, data.length), data);
  }

  private control(type: number, flags: number, payload: Buffer): void {
    this.queue(controlHead(type, flags, payload.length), payload);
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

  private take(chunk: Buffer): void {
    this.reader.push(chunk);
    try {
      for (let frame = this.reader.next(); frame; frame = this.reader.next()) this.frameTaken(frame);
    } catch {
      this.socket.destroy();
    }
  }

  private frameTaken(frame: Frame): void {
    if (frame.kind === 'data') this.dataTaken(frame.stream, frame.flags, frame.payload);
    else this.controlTaken(frame.type, frame.flags, frame.payload);
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
