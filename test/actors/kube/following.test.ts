/**
 * A followed collection and a lease, through everything that an API server can do to its clients: in the end the
 * reflector has reported the content of the server, every change once.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { type ReflectorReport, reflectorMachine } from '../../../src/machines/charts/kube/reflector.ts';
import { leaseMachine } from '../../../src/machines/charts/node/lease.ts';
import type { FaultKind } from '../../fakes/api-server/faults.ts';
import { type ApiServer, startApiServer } from '../../fakes/api-server/index.ts';
import { runForReal, until } from '../../support/real-machine.ts';
import { startRelay, type TcpRelay } from '../../support/tcp-relay.ts';
import { bench, settings } from './support.ts';

let server: ApiServer;
let node: ReturnType<typeof bench>;
let running: ReturnType<typeof runForReal>[] = [];
let relay: TcpRelay | undefined;

beforeEach(async () => {
  server = await startApiServer();
  node = bench();
  await node.ask('kube.connect', settings(await server.kubeconfig()));
});
afterEach(async () => {
  for (const each of running) each.stop();
  running = [];
  await node.connection.close();
  await relay?.close();
  relay = undefined;
  await server.close();
});

const start = (machine: Parameters<typeof runForReal>[0], input: unknown) => {
  const world = runForReal(machine, input, node.connection.ports);
  running.push(world);
  return world;
};
const configMaps = { client: 'kube', apiVersion: 'v1', resource: 'configmaps', namespace: 'default' } as const;
const follow = () => start(reflectorMachine, { target: configMaps });
const create = (name: string, value = 0) =>
  server.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { value: String(value) } });
const change = (name: string, value: number) =>
  server.patch({ apiVersion: 'v1', resource: 'configmaps', name }, { data: { value: String(value) } });

const nested = (levels: number) => `{"metadata":{},"spec":${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}}`;

/** Name and version of each object, according to all reports. */
function believed(world: ReturnType<typeof runForReal>): Record<string, string> {
  const known = new Map<string, string>();
  for (const event of world.sent() as unknown as ReflectorReport[]) {
    if (event.type === 'reflector.listed') {
      known.clear();
      for (const { metadata } of event.items) known.set(metadata.name, metadata.resourceVersion!);
    } else if (event.type === 'reflector.changed') {
      const { name, resourceVersion } = event.object.metadata;
      if (event.change === 'DELETED') known.delete(name);
      else known.set(name, resourceVersion!);
    }
  }
  return Object.fromEntries([...known].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

const actual = (): Record<string, string> =>
  Object.fromEntries(
    server.store.list('v1', 'configmaps', 'default').map(({ metadata }) => [metadata.name, metadata.resourceVersion]),
  );
const agrees = (world: ReturnType<typeof runForReal>) => JSON.stringify(believed(world)) === JSON.stringify(actual());
const settled = (world: ReturnType<typeof runForReal>) =>
  until(
    () => agrees(world),
    () => [believed(world), actual()],
    30_000,
  );
const kinds = (world: ReturnType<typeof runForReal>) => world.sent().map(({ type }) => type);

describe('a reflector', () => {
  it('lists in pages, tells them as one, and follows', async () => {
    for (let index = 0; index < 1_100; index += 1) create(`c-${index}`);
    const world = follow();
    await settled(world);
    expect(kinds(world)).toEqual(['reflector.listed']);
    expect(server.requests.filter(({ path }) => path.includes('limit=500'))).toHaveLength(3);
    await until(
      () => server.load.watches === 1,
      () => server.load,
    );
    change('c-7', 1);
    server.delete('v1', 'configmaps', 'c-8');
    await settled(world);
    expect(kinds(world)).toEqual(['reflector.listed', 'reflector.changed', 'reflector.changed']);
    expect(world.divergence()).toBeNull();
  });

  it.each(['close', 'break'] as const)(
    'goes on after a watch that ended by "%s" without listing again',
    async (how) => {
      const world = follow();
      await until(
        () => server.load.watches === 1,
        () => server.load,
      );
      server.faults.dropWatches(how);
      await until(
        () => server.load.watches === 0,
        () => server.load,
      );
      create('while-away');
      await settled(world);
      expect(kinds(world)).toEqual(['reflector.listed', 'reflector.changed']);
      expect(server.requests.filter(({ watch }) => !watch)).toHaveLength(1);
    },
  );

  it('lists again when the server has forgotten where it was', async () => {
    const world = follow();
    await until(
      () => server.load.watches === 1,
      () => server.load,
    );
    server.faults.dropWatches('close');
    await until(
      () => server.load.watches === 0,
      () => server.load,
    );
    create('while-away');
    server.store.compact();
    await settled(world);
    expect(kinds(world)).toEqual(['reflector.listed', 'reflector.listed']);
  });

  it.each([
    ['has more levels than any', () => JSON.stringify({ type: 'ADDED', object: JSON.parse(nested(300)) as object })],
    ['is no JSON', () => '{"type":'],
  ])('lists again when the change that comes next %s, and is not held up by it', async (_name, text) => {
    server.faults.add({ kind: 'body', text: `${text()}\n`, watch: true });
    const world = follow();
    await until(
      () => server.requests.filter(({ watch }) => watch).length === 1,
      () => server.load,
    );
    create('while-away');
    await settled(world);
    expect(kinds(world)).toEqual(['reflector.listed', 'reflector.listed']);
    expect(world.logged().filter((line) => line === 'Failed to watch')).toHaveLength(1);
  });

  it('is not asked without pause when the server has always forgotten where it was', async () => {
    const status = { kind: 'Status', metadata: {}, code: 410, reason: 'Expired' };
    const text = `${JSON.stringify({ type: 'ERROR', object: status })}\n`;
    server.faults.add({ kind: 'body', text, watch: true, times: Infinity });
    follow();
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    const watches = server.requests.filter(({ watch }) => watch).length;
    expect(watches).toBeGreaterThan(0);
    expect(watches).toBeLessThan(5);
  });

  const faults: readonly (readonly [string, FaultKind])[] = [
    ['a 429 that says when', { kind: 'status', code: 429, reason: 'TooManyRequests', retryAfterSeconds: 1 }],
    ['a 429 that does not', { kind: 'status', code: 429, reason: 'TooManyRequests' }],
    ['a 500', { kind: 'status', code: 500, reason: 'InternalError' }],
    ['half a JSON', { kind: 'halfJson' }],
    ['a JSON that breaks off', { kind: 'brokenJson' }],
    ['no answer at all', { kind: 'drop' }],
    ['a slow answer', { kind: 'slow', bytes: 64, everyMs: 5 }],
  ];
  it.each(faults)('begins in spite of %s', async (_name, fault) => {
    create('there');
    server.faults.add({ ...fault, path: '/configmaps?limit' });
    const world = follow();
    await settled(world);
    await until(
      () => server.load.watches === 1,
      () => server.load,
    );
    create('later');
    await settled(world);
    expect(kinds(world)).toEqual(['reflector.listed', 'reflector.changed']);
  });

  it('waits for a server that is away, and finds what happened meanwhile', async () => {
    create('kept');
    create('gone');
    const world = follow();
    await until(
      () => server.load.watches === 1,
      () => server.load,
    );
    await server.stop();
    server.delete('v1', 'configmaps', 'gone');
    change('kept', 1);
    create('new');
    await server.start();
    await settled(world);
    expect(kinds(world).filter((type) => type === 'reflector.listed')).toHaveLength(1);
    expect(world.divergence()).toBeNull();
  });

  it('leaves nothing open when it is stopped', async () => {
    const world = follow();
    await until(
      () => server.load.watches === 1,
      () => server.load,
    );
    world.stop();
    await until(
      () => server.load.watches === 0,
      () => server.load,
    );
  });
});

describe('a connection on which nothing passes any more', () => {
  async function connectThroughRelay(more: Parameters<typeof settings>[1]): Promise<void> {
    relay = await startRelay(Number(new URL(server.url).port));
    const kubeconfig = await server.kubeconfig('relayed');
    writeFileSync(kubeconfig, readFileSync(kubeconfig, 'utf8').replace(server.url, `https://127.0.0.1:${relay.port}`));
    await node.ask('kube.connect', settings(kubeconfig, more));
  }

  it('is found by its pings when it carries only watches, and every watch goes on over another one', async () => {
    vi.stubEnv('HTTP2_READ_IDLE_TIMEOUT_SECONDS', '1');
    vi.stubEnv('HTTP2_PING_TIMEOUT_SECONDS', '1');
    onTestFinished(() => void vi.unstubAllEnvs());
    await connectThroughRelay({});
    const world = follow();
    const watches = () => server.load.watches;
    await until(() => watches() === 1, watches);
    relay!.freeze();
    create('behind-the-wall');
    await settled(world);
  });

  it('is found by the lease, and every watch goes on over another one', async () => {
    await connectThroughRelay({ heartbeatTimeoutMs: 300 });
    const world = follow();
    const lease = start(leaseMachine, { nodeName: 'n1', durationSeconds: 1 });
    const renewals = () =>
      server.requests.filter(({ method, path }) => method === 'PUT' && path.includes('/leases/n1')).length;
    await until(
      () => server.load.watches === 1 && renewals() > 0,
      () => server.load,
    );

    relay!.freeze();
    const before = renewals();
    create('behind-the-wall');
    await settled(world);
    await until(() => renewals() > before + 2, lease.logged);
    expect(lease.logged()).toContain('Failed to update lease');
    expect(kinds(world)).toEqual(['reflector.listed', 'reflector.changed']);
  });
});
