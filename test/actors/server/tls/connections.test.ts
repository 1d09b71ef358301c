/**
 * Which connections a port keeps: the shares of its clients, on real sockets and with addresses that this machine
 * lacks.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { ApiServer } from '../../../../src/actors/server/http/api-server.ts';
import { text } from '../../../../src/actors/server/http/endpoint.ts';
import { Connections, clientOf, Listener } from '../../../../src/actors/server/tls/listener.ts';
import { exchange } from '../exchange.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

class FakeSocket {
  isDestroyed = false;
  private closed: () => void = () => {};
  readonly remoteAddress: string;
  constructor(remoteAddress: string) {
    this.remoteAddress = remoteAddress;
  }
  once(_event: string, listener: () => void): void {
    this.closed = listener;
  }
  destroy(): void {
    this.isDestroyed = true;
    this.closed();
  }
}

describe('the shares of clients', () => {
  const busy = new Set<unknown>();
  const limited = () => new Connections((socket) => busy.has(socket), { port: 6, client: 4 });
  const from = (connections: Connections, address: string) => {
    const socket = new FakeSocket(address);
    const isAdmitted = connections.admit(socket as unknown as Socket);
    return { socket, isAdmitted };
  };

  it('a client at its limit loses its own oldest idle connection', () => {
    const connections = limited();
    const own = ['1', '2', '3', '4'].map(() => from(connections, '10.0.0.1').socket);
    busy.add(own[0]);
    const other = from(connections, '10.0.0.2').socket;
    expect(from(connections, '10.0.0.1').isAdmitted).toBe(true);
    expect(own.map(({ isDestroyed }) => isDestroyed)).toEqual([false, true, false, false]);
    expect(other.isDestroyed).toBe(false);
  });

  it('a client whose connections are all busy is refused, and no other client is', () => {
    const connections = limited();
    for (let n = 0; n < 4; n++) busy.add(from(connections, '10.0.0.1').socket);
    expect(from(connections, '10.0.0.1').isAdmitted).toBe(false);
    expect(from(connections, '10.0.0.2').isAdmitted).toBe(true);
  });

  it('a full port makes room at the cost of the client that has most', () => {
    const connections = limited();
    const many = ['1', '2', '3', '4'].map(() => from(connections, '10.0.0.1').socket);
    const few = ['1', '2'].map(() => from(connections, '10.0.0.2').socket);
    expect(from(connections, '10.0.0.3').isAdmitted).toBe(true);
    expect(many.map(({ isDestroyed }) => isDestroyed)).toEqual([true, false, false, false]);
    expect(few.map(({ isDestroyed }) => isDestroyed)).toEqual([false, false]);
    many[1]!.destroy();
    expect(from(connections, '10.0.0.4').isAdmitted).toBe(true);
    expect(many[2]!.isDestroyed).toBe(false);
  });

  it.each([
    ['10.0.0.1', '10.0.0.1'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8:1:2::6', '2001:db8:1:2'],
    ['2001:db8::6', '2001:db8:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['::1', '0:0:0:0'],
  ])('%s counts as %s', (address, client) => {
    expect(clientOf(address)).toBe(client);
  });
});

const LIMITS = { headMs: 300, requestMs: 600, checkEveryMs: 50 };

async function served() {
  const slow = {
    path: '/slow',
    methods: 'any',
    subresources: ['proxy'],
    answer: async () => {
      await pause(200);
      return text(200, 'slow');
    },
  } as const;
  const api = await new ApiServer({ endpoints: [slow], gate: async () => null, limits: LIMITS }).open();
  const accept = (socket: Socket): void => api.accept(socket);
  const listener = new Listener({ address: '127.0.0.1', port: 0, accept, tls: null, limits: { port: 40, client: 20 } });
  closing.push(
    () => api.close(),
    () => listener.close(),
  );
  return await listener.listen();
}

async function connected(port: number, localAddress: string): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port, localAddress });
  closing.push(() => socket.destroy());
  socket.on('error', () => {}).resume();
  await once(socket, 'connect');
  return socket;
}

describe('a port of this node', () => {
  it('serves others, and the same client, while one client holds whatever it may', async () => {
    const port = await served();
    for (let nth = 0; nth < 200; nth++) await connected(port, '127.0.0.2');
    const began = performance.now();
    expect((await exchange('GET', '/none', { port, isPlain: true })).status).toBe(404);
    const own = await connected(port, '127.0.0.2');
    const answer = once(own, 'data') as Promise<[Buffer]>;
    own.write('GET /none HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(String((await answer)[0])).toMatch(/^HTTP\/1\.1 404 /);
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  it('does not cut a request that is under way for one that comes', async () => {
    const port = await served();
    const asked = exchange('GET', '/slow', { port, isPlain: true });
    await pause(50);
    for (let nth = 0; nth < 60; nth++) await connected(port, '127.0.0.1');
    expect((await asked).body.toString()).toBe('slow');
  });

  it('closes a connection that never ends its head', async () => {
    const socket = await connected(await served(), '127.0.0.1');
    socket.write('GET /none HTTP/1.1\r\n');
    await expect(once(socket, 'close')).resolves.toBeDefined();
  });
});
