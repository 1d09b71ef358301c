/** A page that does not read is let go; one that reads hears all. */
import { createServer, get, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import type { TurnMessage } from '../../../../src/actors/server/visualizer/protocol.ts';
import { Stream } from '../../../../src/actors/server/visualizer/stream.ts';

let server: Server | undefined;
afterEach(() => server?.closeAllConnections());

const turn = (n: number): TurnMessage => ({ n, turn: n, t: 0, records: [], actors: [], gone: ['x'.repeat(65_536)] });

async function connect(stream: Stream): Promise<IncomingMessage> {
  server = createServer((_request, response) => {
    stream.open(response.writeHead(200), { incarnation: 'i', resumed: true, now: 0 }, []);
  });
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return new Promise((resolve, reject) => get({ host: '127.0.0.1', port }, resolve).on('error', reject));
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 1));

it('disconnects a page that does not read, before its buffer grows', async () => {
  const stream = new Stream();
  const client = await connect(stream);
  client.pause();
  client.on('error', () => undefined);
  let sent = 0;
  for (; stream.size > 0 && sent < 2_000; sent++) {
    stream.send(turn(sent));
    await pause();
  }
  expect(stream.size).toBe(0);
  expect(sent).toBeGreaterThan(4 * 16);
});

it('keeps a page that reads', async () => {
  const stream = new Stream();
  const client = await connect(stream);
  let bytes = 0;
  client.on('data', (chunk: Buffer) => void (bytes += chunk.length));
  for (let i = 0; i < 300; i++) {
    stream.send(turn(i));
    await pause();
  }
  expect(stream.size).toBe(1);
  stream.close();
  await new Promise((resolve) => client.on('end', resolve));
  expect(bytes).toBeGreaterThan(300 * 65_536);
});
