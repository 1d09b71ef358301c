/** The results for a sender while the other side does not read, and the limits of what is buffered for that side. */
import { Duplex } from 'node:stream';
import { expect, it } from 'vitest';
import { SpdyClient } from '../../../src/actors/spdy/client.ts';
import { FrameWriter } from '../../../src/actors/spdy/frames.ts';

const SOCKET_BYTES = 16 * 1024;
const nextRound = () => new Promise((resolve) => setImmediate(resolve));

it('a sender is asked to pause while the socket takes nothing, and told when it does', async () => {
  const taken: (() => void)[] = [];
  const socket = new Duplex({
    writableHighWaterMark: SOCKET_BYTES,
    read() {},
    write: (_chunk, _encoding, done) => void taken.push(done),
  });
  const client = new SpdyClient(socket, Buffer.alloc(0));
  const stdin = client.open({ streamType: 'stdin' }, {});
  const piece = Buffer.alloc(SOCKET_BYTES);
  expect(stdin.write(piece)).toBe(true);
  await nextRound();
  expect(stdin.write(piece)).toBe(false);

  const drained = new Promise<void>((resolve) => {
    client.onDrain = resolve;
  });
  await nextRound();
  while (taken.length > 0) {
    taken.shift()!();
    await nextRound();
  }
  await drained;
  expect(stdin.write(piece)).toBe(true);
  socket.destroy();
});

it('pings of a side that does not read are not answered', async () => {
  let writtenBytes = 0;
  const socket = new Duplex({
    writableHighWaterMark: SOCKET_BYTES,
    read() {},
    write: (chunk: Buffer) => void (writtenBytes += chunk.length),
  });
  const client = new SpdyClient(socket, Buffer.alloc(0));
  const pings = Buffer.concat(Array.from({ length: 5_000 }, () => new FrameWriter().pong(Buffer.alloc(4))));
  for (let round = 0; round < 100; round++) {
    socket.push(pings);
    await nextRound();
  }
  expect(socket.writableLength).toBeGreaterThan(0);
  expect(socket.writableLength).toBeLessThan(512 * 1024);
  expect(writtenBytes).toBeLessThan(512 * 1024);
  client.close();
});
