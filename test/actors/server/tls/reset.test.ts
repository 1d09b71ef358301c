/** A client that resets its connection right after its request, while the handshake's last message is still on its way. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { expect, it, onTestFinished } from 'vitest';
import { generate } from '../../../../src/actors/server/tls/generate-certificate.ts';
import { Listener } from '../../../../src/actors/server/tls/listener.ts';

const CLIENTS = 60;
const ANSWERED_MS = 5;

async function reset(port: number): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => {});
  const tls = connectTls({ socket, rejectUnauthorized: false });
  tls.on('error', () => {});
  await once(tls, 'secureConnect');
  await new Promise((resolve) => tls.write('GET / HTTP/1.1\r\nHost: node1\r\n\r\n', resolve));
  socket.resetAndDestroy();
}

it('leaves neither connection nor answer behind', async () => {
  const open = new Set<ServerResponse>();
  let answers = 0;
  const server = createServer((_request, response) => {
    answers++;
    open.add(response);
    response.once('close', () => open.delete(response));
    setTimeout(() => response.flushHeaders(), ANSWERED_MS);
  });
  const tls = { minVersion: 'VersionTLS12', cipherSuites: [], clientCertificates: false };
  const accept = (socket: object): void => void server.emit('connection', socket);
  const listener = new Listener({ address: '127.0.0.1', port: 0, accept, tls });
  onTestFinished(() => listener.close());
  const { certificate, key } = await generate('node1');
  listener.use({ cert: Buffer.from(certificate), key: Buffer.from(key), ca: null });
  const port = await listener.listen();
  for (let client = 0; client < CLIENTS; client++) await reset(port);
  await expect.poll(() => open.size, { timeout: 30_000, interval: 100 }).toBe(0);
  expect(answers).toBeGreaterThan(0);
});
