/**
 * The client side of SPDY/3.1, as used by container runtimes' streaming servers.
 *
 * Owns: one upgraded connection and the streams on it. This side opens every stream; received headers are not needed
 *   and never unpacked, and sent headers are stored uncompressed in their zlib frame.
 * Invariants:
 *   Y1 data of a stream is delivered in order, and its end once.
 *   Y2 nothing is buffered beyond the socket: `write` reports when to stop, `pause` stops the other side.
 *   Y3 one write per round of the event loop, so that data sent by a peer before it closed is read before a write can
 *      fail: Node closes a connection at its first failed write, and unread data is lost.
 *   Y4 an oversized frame ends the connection; pings are not answered while the other side does not read.
 */
import type { Duplex } from 'node:stream';
import { type Frame, FrameReader, FrameWriter } from './frames.ts';

/** Bytes queued for the next round of the event loop before a sender is asked to pause. */
const WRITE_AHEAD_BYTES = 256 * 1024;

export interface SpdyStream {
  readonly id: number;
  /** False if the connection needs a pause: wait for its `onDrain`. */
  write(data: Buffer): boolean;
  /** Ends this side of the stream. */
  end(): void;
}

export interface StreamListener {
  data?(chunk: Buffer): void;
  /** Called when the other side has ended or reset the stream. */
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
  private readonly writer = new FrameWriter();
  private waiting: Buffer[] = [];
  private waitingBytes = 0;
  private flushing: NodeJS.Immediate | undefined;
  private nextId = 1;
  /** Called when the socket accepted the bytes after `write` returned false. */
  onDrain: () => void = () => {};
  onClose: () => void = () => {};

  /** @param head bytes that arrived with the upgrade response */
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
    this.queue(this.writer.open(id, headers));
    return {
      id,
      write: (data) => this.queue(...this.writer.data(id, data)),
      end: () => void this.queue(this.writer.last(id)),
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

  /** False if enough is queued, here or in the socket: `onDrain` is called once it is written. */
  private queue(...parts: readonly Buffer[]): boolean {
    this.waiting.push(...parts);
    this.waitingBytes += parts.reduce((sum, { length }) => sum + length, 0);
    this.flushing ??= setImmediate(() => this.flush());
    return this.hasRoom;
  }

  private get hasRoom(): boolean {
    return this.waitingBytes < WRITE_AHEAD_BYTES && !this.socket.writableNeedDrain;
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
    if (frame.kind === 'ping' && this.hasRoom) this.queue(this.writer.pong(frame.payload));
    if (frame.kind === 'ping' || frame.kind === 'other') return;
    const stream = this.streams.get(frame.stream);
    if (!stream || stream.ended) return;
    if (frame.kind === 'data' && frame.payload.length > 0) stream.listener.data?.(frame.payload);
    if (frame.kind === 'reset' || frame.isLast) this.ended(stream);
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
