/**
 * The server's half of SPDY/3.1: the client opens streams, each of which is a Duplex here.
 *
 * Owns: one upgraded connection and the streams on it. Invariants:
 *   Z1 data of a stream comes in order, and its end once, after its data; all of it after the stream itself.
 *   Z2 a stream that nobody reads stops the client, one that the client does not read stops its writer.
 *   Z3 what no client may send (a large frame, headers without end, too many streams) ends the connection.
 */
import { Duplex } from 'node:stream';
import { constants, createInflate } from 'node:zlib';
import {
  controlHead,
  DATA_MAX_BYTES,
  dataHead,
  FIN,
  type Frame,
  FrameReader,
  GOAWAY,
  HeaderPacker,
  headersOf,
  PING,
  RST_STREAM,
  SYN_REPLY,
  SYN_STREAM,
  uint32,
} from './frames.ts';
import { HEADER_DICTIONARY } from './header-dictionary.ts';

/** Streams at once: two for each of a thousand forwarded connections. */
const STREAMS_MAX = 2_048;
/** Headers of one stream, unpacked. */
const HEADERS_MAX_BYTES = 64 * 1024;
/** What a stream keeps for a reader that is slow before the client is stopped. */
const READ_AHEAD_BYTES = 256 * 1024;
/** Bytes of a SYN_STREAM before its headers: its id, the one it belongs to, its priority. */
const SYN_FIXED_BYTES = 10;
const CANCEL = 5;
/** How long the client may take to hear the last bytes. */
const LINGER_MS = 10_000;

/** One stream of a session. Its headers have lower-case names. */
export class SpdyServerStream extends Duplex {
  readonly id: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The client has said its last on it. */
  isHeard = false;
  private readonly session: SpdySession;

  constructor(session: SpdySession, id: number, headers: Readonly<Record<string, string>>) {
    super({ readableHighWaterMark: READ_AHEAD_BYTES, allowHalfOpen: true });
    this.session = session;
    this.id = id;
    this.headers = headers;
    this.on('error', () => {});
  }

  override _read(): void {
    this.session.wanted(this);
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.session.send(this.id, chunk, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.session.finish(this.id, done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.session.left(this);
    done(error);
  }
}

export class SpdySession {
  private readonly socket: Duplex;
  private readonly onStream: (stream: SpdyServerStream) => void;
  private readonly reader = new FrameReader();
  private readonly packer = new HeaderPacker();
  private readonly inflate = createInflate({
    dictionary: HEADER_DICTIONARY,
    flush: constants.Z_SYNC_FLUSH,
    finishFlush: constants.Z_SYNC_FLUSH,
  });
  private readonly streams = new Map<number, SpdyServerStream>();
  private readonly unread = new Set<SpdyServerStream>();
  /** Of the block that is being unpacked. */
  private unpacked: Buffer[] = [];
  private unpackedBytes = 0;
  private isTaking = false;
  /** Aborted when the connection is gone. */
  readonly gone: AbortSignal;

  /** @param head bytes that came with the request for the upgrade */
  constructor(socket: Duplex, head: Buffer, onStream: (stream: SpdyServerStream) => void) {
    this.socket = socket;
    this.onStream = onStream;
    const gone = new AbortController();
    this.gone = gone.signal;
    this.inflate.on('error', () => socket.destroy());
    this.inflate.on('data', (part: Buffer) => this.collect(part));
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      for (const stream of this.streams.values()) stream.destroy();
      this.inflate.destroy();
      gone.abort();
    });
    // A client that has no more to say of any stream has gone: nobody half-closes a connection of many streams.
    socket.once('end', () => socket.destroy());
    socket.on('data', (chunk: Buffer) => this.heard(chunk));
    if (head.length > 0) this.heard(head);
  }

  /** Ends the connection once the client has heard what was said. */
  close(): void {
    this.control(GOAWAY, 0, Buffer.alloc(8));
    this.socket.end();
    const linger = setTimeout(() => this.socket.destroy(), LINGER_MS);
    this.socket.once('close', () => clearTimeout(linger));
  }

  send(id: number, data: Buffer, done: (error?: Error | null) => void): void {
    const parts: Buffer[] = [];
    for (let at = 0; at < data.length; at += DATA_MAX_BYTES) {
      const part = data.subarray(at, at + DATA_MAX_BYTES);
      parts.push(dataHead(id, 0, part.length), part);
    }
    this.write(parts, done);
  }

  finish(id: number, done: (error?: Error | null) => void): void {
    this.write([dataHead(id, FIN, 0)], done);
  }

  /** Somebody reads the stream: the client may go on. */
  wanted(stream: SpdyServerStream): void {
    if (this.unread.delete(stream) && this.unread.size === 0) this.socket.resume();
  }

  /** A stream is over: by its two ends, or because somebody gave it up. */
  left(stream: SpdyServerStream): void {
    if (!this.streams.delete(stream.id)) return;
    this.wanted(stream);
    const isWhole = stream.readableEnded && stream.writableFinished;
    if (!isWhole) this.control(RST_STREAM, 0, Buffer.concat([uint32(stream.id), uint32(CANCEL)]));
  }

  private write(parts: readonly Buffer[], done: (error?: Error | null) => void): void {
    if (!this.socket.writable) return done(new Error('the client has gone'));
    this.socket.write(Buffer.concat(parts), done);
  }

  private control(type: number, flags: number, payload: Buffer): void {
    if (this.socket.writable) this.socket.write(Buffer.concat([controlHead(type, flags, payload.length), payload]));
  }

  private heard(chunk: Buffer): void {
    this.reader.push(chunk);
    if (this.isTaking) return;
    this.isTaking = true;
    this.take()
      .catch(() => this.socket.destroy())
      .finally(() => {
        this.isTaking = false;
      });
  }

  private async take(): Promise<void> {
    for (let frame = this.reader.next(); frame; frame = this.reader.next()) {
      if (frame.kind === 'control' && frame.type === SYN_STREAM) await this.opened(frame);
      else this.frameTaken(frame);
    }
  }

  private async opened({ flags, payload }: Frame): Promise<void> {
    if (this.streams.size >= STREAMS_MAX) throw new RangeError(`more than ${STREAMS_MAX} streams`);
    const id = payload.readUInt32BE(0) & 0x7fffffff;
    const headers = headersOf(await this.unpack(payload.subarray(SYN_FIXED_BYTES)));
    const stream = new SpdyServerStream(this, id, headers);
    this.streams.set(id, stream);
    this.control(SYN_REPLY, 0, Buffer.concat([uint32(id), this.packer.pack({})]));
    this.onStream(stream);
    if (flags & FIN) this.heardLast(stream);
  }

  /** All blocks of a connection are one stream of zlib, flushed after each. The socket waits meanwhile. */
  private async unpack(block: Buffer): Promise<Buffer> {
    this.socket.pause();
    [this.unpacked, this.unpackedBytes] = [[], 0];
    await new Promise<void>((resolve, reject) =>
      this.inflate.write(block, (error) => (error ? reject(error) : resolve())),
    );
    if (this.unread.size === 0) this.socket.resume();
    return Buffer.concat(this.unpacked);
  }

  private collect(part: Buffer): void {
    this.unpackedBytes += part.length;
    if (this.unpackedBytes <= HEADERS_MAX_BYTES) this.unpacked.push(part);
    else this.socket.destroy();
  }

  private frameTaken(frame: Frame): void {
    if (frame.kind === 'data') {
      const stream = this.streams.get(frame.stream);
      if (!stream || stream.isHeard) return;
      if (frame.payload.length > 0 && !stream.push(frame.payload)) this.held(stream);
      if (frame.flags & FIN) this.heardLast(stream);
    } else if (frame.type === PING) this.control(PING, 0, frame.payload);
    else if (frame.type === RST_STREAM) this.streams.get(frame.payload.readUInt32BE(0) & 0x7fffffff)?.destroy();
  }

  private heardLast(stream: SpdyServerStream): void {
    stream.isHeard = true;
    stream.push(null);
  }

  private held(stream: SpdyServerStream): void {
    this.unread.add(stream);
    this.socket.pause();
  }
}
