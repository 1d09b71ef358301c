/**
 * The server side of SPDY/3.1: the client opens streams, each of which is a Duplex here.
 *
 * Owns: one upgraded connection and the streams on it. Invariants:
 *   Z1 data of a stream arrives in order, and its end once, after its data.
 *   Z2 back-pressure works in both directions.
 *   Z3 protocol violations (an oversized frame, endless headers, too many streams, a stream id that does not increase,
 *      pings whose answers are not read) end the connection.
 */
import { Duplex } from 'node:stream';
import { constants, createInflate } from 'node:zlib';
import { type Frame, FrameReader, FrameWriter, headersOf, uint32 } from './frames.ts';

/** Streams at once: two for each of a thousand forwarded connections. */
const STREAMS_MAX = 2_048;
/** Headers of one stream, unpacked. */
const HEADERS_MAX_BYTES = 64 * 1024;
/** Unread replies, resets and ping answers. A reply has about thirty bytes. */
const UNREAD_REPLIES_MAX_BYTES = 128 * 1024;
/** The payload of a ping, which is a number. */
const PING_BYTES = 4;
/** Bytes buffered for a slow reader before the client is stopped. */
const READ_AHEAD_BYTES = 256 * 1024;
/** How long the client may take to read the last bytes. */
const LINGER_MS = 10_000;

/** One stream of a session. Its headers have lower-case names. */
export class SpdyServerStream extends Duplex {
  readonly id: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The client has ended its side of the stream. */
  isInputEnded = false;
  private readonly session: SpdyServer;

  constructor(session: SpdyServer, id: number, headers: Readonly<Record<string, string>>) {
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

export class SpdyServer {
  private readonly socket: Duplex;
  private readonly onStream: (stream: SpdyServerStream) => void;
  private readonly reader = new FrameReader();
  private readonly writer = new FrameWriter();
  private readonly inflate = createInflate({
    dictionary: HEADER_DICTIONARY,
    flush: constants.Z_SYNC_FLUSH,
    finishFlush: constants.Z_SYNC_FLUSH,
  });
  private readonly streams = new Map<number, SpdyServerStream>();
  private readonly unread = new Set<SpdyServerStream>();
  /** Chunks of the block that is being unpacked. */
  private unpacked: Buffer[] = [];
  private unpackedBytes = 0;
  private isTaking = false;
  /** The id of the newest stream: a smaller id could hide an open stream from the limit. */
  private lastId = 0;
  private unreadReplyBytes = 0;
  /** Aborted when the connection is closed. */
  readonly gone: AbortSignal;

  /** @param head bytes that arrived with the upgrade request */
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
    // A client that ends its side of the connection has disconnected: no client half-closes a connection of many
    // streams.
    socket.once('end', () => socket.destroy());
    socket.on('data', (chunk: Buffer) => this.received(chunk));
    if (head.length > 0) this.received(head);
  }

  /** Ends the connection once the client has read all bytes. */
  close(): void {
    this.writeFrame(this.writer.goAway());
    this.socket.end();
    const linger = setTimeout(() => this.socket.destroy(), LINGER_MS);
    this.socket.once('close', () => clearTimeout(linger));
  }

  send(id: number, data: Buffer, done: (error?: Error | null) => void): void {
    this.write(Buffer.concat(this.writer.data(id, data)), done);
  }

  finish(id: number, done: (error?: Error | null) => void): void {
    this.write(this.writer.last(id), done);
  }

  /** Called when the stream is read: the client may continue. */
  wanted(stream: SpdyServerStream): void {
    if (this.unread.delete(stream) && this.unread.size === 0) this.socket.resume();
  }

  /** Called when a stream is finished: both sides have ended it, or one side has reset it. */
  left(stream: SpdyServerStream): void {
    if (!this.streams.delete(stream.id)) return;
    this.wanted(stream);
    const isWhole = stream.readableEnded && stream.writableFinished;
    if (!isWhole) this.writeFrame(this.writer.reset(stream.id));
  }

  private write(bytes: Buffer, done: (error?: Error | null) => void): void {
    if (!this.socket.writable) return done(new Error('the client has gone'));
    this.socket.write(bytes, done);
  }

  private writeFrame(bytes: Buffer): void {
    if (!this.socket.writable) return;
    this.unreadReplyBytes += bytes.length;
    if (this.unreadReplyBytes > UNREAD_REPLIES_MAX_BYTES) this.socket.destroy();
    else this.socket.write(bytes, () => void (this.unreadReplyBytes -= bytes.length));
  }

  private received(chunk: Buffer): void {
    this.reader.push(chunk);
    if (!this.isTaking) void this.take();
  }

  /** Two chunks may arrive together: the flag for reading frames must be correct at every moment. */
  private async take(): Promise<void> {
    this.isTaking = true;
    try {
      for (let frame = this.reader.next(); frame; frame = this.reader.next()) {
        if (frame.kind === 'open') await this.opened(frame);
        else this.frameTaken(frame);
      }
    } catch {
      this.socket.destroy();
    } finally {
      this.isTaking = false;
    }
  }

  private async opened({ stream: id, isLast, packedHeaders }: Extract<Frame, { kind: 'open' }>): Promise<void> {
    if (this.streams.size >= STREAMS_MAX) throw new RangeError(`more than ${STREAMS_MAX} streams`);
    if (id <= this.lastId) throw new RangeError(`stream ${id} after stream ${this.lastId}`);
    this.lastId = id;
    const stream = new SpdyServerStream(this, id, headersOf(await this.unpack(packedHeaders)));
    this.streams.set(id, stream);
    this.writeFrame(this.writer.reply(id));
    this.onStream(stream);
    if (isLast) this.endReceiving(stream);
  }

  /** All blocks of a connection form one zlib stream, flushed after each. The socket waits meanwhile. */
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
    if (frame.kind === 'ping') this.pinged(frame.payload);
    else if (frame.kind === 'reset') this.streams.get(frame.stream)?.destroy();
    else if (frame.kind === 'data') this.dataTaken(frame);
  }

  private pinged(payload: Buffer): void {
    if (payload.length !== PING_BYTES) throw new RangeError(`a ping of ${payload.length} bytes`);
    this.writeFrame(this.writer.pong(payload));
  }

  private dataTaken({ stream: id, isLast, payload }: Extract<Frame, { kind: 'data' }>): void {
    const stream = this.streams.get(id);
    if (!stream || stream.isInputEnded) return;
    if (payload.length > 0 && !stream.push(payload)) this.pauseReading(stream);
    if (isLast) this.endReceiving(stream);
  }

  private endReceiving(stream: SpdyServerStream): void {
    stream.isInputEnded = true;
    stream.push(null);
  }

  private pauseReading(stream: SpdyServerStream): void {
    this.unread.add(stream);
    this.socket.pause();
  }
}

/** Each word is preceded by its length. */
const WORDS =
  'options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow ' +
  'authorization cache-control connection content-base content-encoding content-language content-length ' +
  'content-location content-md5 content-range content-type date etag expect expires from host if-match ' +
  'if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma ' +
  'proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade ' +
  'user-agent vary via warning www-authenticate method get status';
const PHRASES = ['200 OK', 'version', 'HTTP/1.1', 'url', 'public', 'set-cookie', 'keep-alive', 'origin'];
const REST =
  '100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505' +
  '203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden' +
  '404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug ' +
  'Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,' +
  'application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch' +
  'charset=utf-8charset=iso-8859-1,utf-,*,enq=0.';

/** The initial dictionary of the SPDY/3 header compression, 1423 bytes. */
export const HEADER_DICTIONARY: Buffer = Buffer.concat([
  ...[...WORDS.split(' '), ...PHRASES].flatMap((word) => [uint32(word.length), Buffer.from(word)]),
  Buffer.from(REST),
]);
