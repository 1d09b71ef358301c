/** A hostile message of a SPDY client ends its connection, and uses no more than the limits. */
import { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { deflateSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { FrameWriter, uint32 } from '../../../src/actors/spdy/frames.ts';
import { HEADER_DICTIONARY, SpdyServer, type SpdyServerStream } from '../../../src/actors/spdy/server.ts';

const SYN_STREAM = 1;
const RST_STREAM = 3;
const PING = 6;

/** A connection whose client reads nothing if `isDeaf`. */
function connection({ isDeaf = false } = {}) {
  const socket = new Duplex({ read: () => {}, write: (_chunk, _encoding, done) => (isDeaf ? undefined : done()) });
  const streams: SpdyServerStream[] = [];
  void new SpdyServer(socket, Buffer.alloc(0), (stream) => void streams.push(stream));
  return { socket, streams, writer: new FrameWriter() };
}

const control = (type: number, payload: Buffer) =>
  Buffer.concat([uint32(0x80030000 + type), uint32(payload.length), payload]);

/** Headers that expand to `bytes` bytes. */
function bomb(bytes: number): Buffer {
  const block = Buffer.concat([uint32(1), uint32(1), Buffer.from('a'), uint32(bytes), Buffer.alloc(bytes)]);
  return control(
    SYN_STREAM,
    Buffer.concat([uint32(1), Buffer.alloc(6), deflateSync(block, { dictionary: HEADER_DICTIONARY })]),
  );
}

async function ended(socket: Duplex): Promise<void> {
  await expect.poll(() => socket.destroyed, { interval: 1 }).toBe(true);
}

it.each<[string, Buffer]>([
  ['a stream without an id', control(SYN_STREAM, Buffer.alloc(3))],
  ['a stream without headers', control(SYN_STREAM, Buffer.concat([uint32(1), Buffer.alloc(6)]))],
  [
    'headers that are not compressed',
    control(SYN_STREAM, Buffer.concat([uint32(1), Buffer.alloc(6), Buffer.from('no')])),
  ],
  ['a reset of nothing', control(RST_STREAM, Buffer.alloc(0))],
  ['a frame of 16 MiB', Buffer.concat([uint32(0x80030000 + PING), uint32(0xffffff)])],
  ['a ping that is no number', control(PING, Buffer.alloc(64 * 1024))],
  ['200 KB of headers that unpack to 200 MB', bomb(200 * 1_000_000)],
])('%s ends the connection', async (_what, bytes) => {
  const { socket, streams } = connection();
  const before = process.memoryUsage.rss();
  socket.push(bytes);
  await ended(socket);
  expect(streams).toEqual([]);
  expect(process.memoryUsage.rss() - before).toBeLessThan(64 * 1024 * 1024);
});

it('streams without end are 2,048 and no more, and all of them are closed', async () => {
  const { socket, streams, writer } = connection();
  for (let id = 1; id <= 6_001; id += 2) socket.push(writer.open(id, {}));
  await ended(socket);
  expect(streams).toHaveLength(2_048);
  expect(streams.every(({ destroyed }) => destroyed)).toBe(true);
});

it('a stream that is opened twice ends the connection: the first would be left to no limit', async () => {
  const { socket, streams, writer } = connection();
  for (let times = 0; times < 3_000; times++) socket.push(writer.open(1, {}));
  await ended(socket);
  expect(streams).toHaveLength(1);
  expect(streams[0]!.destroyed).toBe(true);
});

it('a client that pings without end and reads no answer fills no memory', async () => {
  const { socket } = connection({ isDeaf: true });
  for (let at = 0; at < 50_000 && !socket.destroyed; at++) {
    socket.push(control(PING, uint32(at)));
    await turn();
    expect(socket.writableLength).toBeLessThanOrEqual(128 * 1024);
  }
  await ended(socket);
});
