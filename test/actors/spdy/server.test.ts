/** A client's data are received completely, however they are split. */
import { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { FrameWriter } from '../../../src/actors/spdy/frames.ts';
import { SpdyServer, type SpdyServerStream } from '../../../src/actors/spdy/server.ts';

const NOTHING = Buffer.alloc(0);

function connection() {
  const socket = new Duplex({ read: () => {}, write: (_chunk, _encoding, done) => done() });
  const opened = new Promise<SpdyServerStream>((resolve) => {
    void new SpdyServer(socket, NOTHING, resolve);
  });
  return { socket, opened, writer: new FrameWriter() };
}

it.each([1, 2, 5])('the end of a stream is heard when it comes at once behind %i pieces of data', async (pieces) => {
  const { socket, opened, writer } = connection();
  socket.push(writer.open(1, { streamtype: 'stdin' }));
  const stream = await opened;
  const received = text(stream);
  socket.pause();
  for (let i = 0; i < pieces; i++) socket.push(Buffer.concat(writer.data(1, Buffer.from('typed '))));
  socket.push(writer.last(1));
  socket.resume();
  expect(await received).toBe('typed '.repeat(pieces));
  socket.destroy();
});

it('a stream that is opened, filled and ended in one chunk is whole', async () => {
  const { socket, opened, writer } = connection();
  const open = writer.open(1, { streamtype: 'stdin' });
  socket.push(Buffer.concat([open, ...writer.data(1, Buffer.from('typed')), writer.last(1)]));
  expect(await text(await opened)).toBe('typed');
  socket.destroy();
});
