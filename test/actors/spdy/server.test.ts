/** What a client sends is heard to its end, however it arrives. */
import { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { deflateSync } from 'node:zlib';
import { describe, expect, it, test } from 'vitest';
import { FrameWriter } from '../../../src/actors/spdy/frames.ts';
import { HEADER_DICTIONARY } from '../../../src/actors/spdy/header-dictionary.ts';
import { SpdyServer, type SpdyServerStream } from '../../../src/actors/spdy/server.ts';

const NOTHING = Buffer.alloc(0);

function connection() {
  const socket = new Duplex({ read: () => {}, write: (_chunk, _encoding, done) => done() });
  const opened = new Promise<SpdyServerStream>((resolve) => {
    void new SpdyServer(socket, NOTHING, resolve);
  });
  return { socket, opened, writer: new FrameWriter() };
}

test.each([1, 2, 5])('the end of a stream is heard when it comes at once behind %i pieces of data', async (pieces) => {
  const { socket, opened, writer } = connection();
  socket.push(writer.open(1, { streamtype: 'stdin' }));
  const stream = await opened;
  const said = text(stream);
  socket.pause();
  for (let i = 0; i < pieces; i++) socket.push(Buffer.concat(writer.data(1, Buffer.from('typed '))));
  socket.push(writer.last(1));
  socket.resume();
  expect(await said).toBe('typed '.repeat(pieces));
  socket.destroy();
});

test('a stream that is opened, filled and ended in one chunk is whole', async () => {
  const { socket, opened, writer } = connection();
  const open = writer.open(1, { streamtype: 'stdin' });
  socket.push(Buffer.concat([open, ...writer.data(1, Buffer.from('typed')), writer.last(1)]));
  expect(await text(await opened)).toBe('typed');
  socket.destroy();
});

describe('a client that attacks', () => {
  const uint32 = (value: number): Buffer => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(value);
    return bytes;
  };
  const control = (type: number, length: number, payload: Buffer): Buffer =>
    Buffer.concat([Buffer.from([0x80, 0x03, 0, type]), uint32(length), payload]);
  const openFrame = (id: number, headers: Buffer): Buffer => {
    const payload = Buffer.concat([uint32(id), uint32(0), Buffer.alloc(2), headers]);
    return control(1, payload.length, payload);
  };
  /** A mebibyte that unpacks to a gibibyte of one value. */
  const bomb = (): Buffer => deflateSync(Buffer.alloc(900 * 2 ** 20), { dictionary: HEADER_DICTIONARY });

  it.each<[string, () => Buffer]>([
    ['an open that is too short for its number', () => control(1, 2, Buffer.alloc(2))],
    ['a reset that is too short for its number', () => control(3, 0, NOTHING)],
    ['a frame above the limit', () => control(1, 0xffffff, NOTHING)],
    ['headers that are no deflate', () => openFrame(1, Buffer.alloc(100, 0xff))],
    [
      'headers that say they are longer than they are',
      () => openFrame(1, deflateSync(uint32(0x7fffffff), { dictionary: HEADER_DICTIONARY })),
    ],
    ['headers that unpack to hundreds of mebibytes', () => openFrame(1, bomb())],
  ])('is cut off: %s', async (_what, frame) => {
    const { socket } = connection();
    const bytes = frame();
    const closed = new Promise((resolve) => void socket.once('close', resolve));
    const before = process.memoryUsage.rss();
    socket.push(bytes);
    await closed;
    expect((process.memoryUsage.rss() - before) / 2 ** 20).toBeLessThan(64);
  });

  it('is cut off at the stream above the limit, and all of its streams with it', async () => {
    const { socket, writer } = connection();
    const closed = new Promise((resolve) => void socket.once('close', resolve));
    for (let id = 1; id < 2 * 2_100; id += 2) socket.push(writer.open(id, { streamtype: 'stdin' }));
    await closed;
  });

  it('gains nothing by pings, and by data for streams that are not there', async () => {
    const { socket, opened, writer } = connection();
    for (let i = 0; i < 10_000; i++) socket.push(control(6, 4, uint32(i)));
    for (let i = 0; i < 100; i++) socket.push(Buffer.concat(writer.data(99, Buffer.alloc(32_768))));
    socket.push(writer.open(1, { streamtype: 'stdin' }));
    expect((await opened).id).toBe(1);
    socket.destroy();
  });
});
