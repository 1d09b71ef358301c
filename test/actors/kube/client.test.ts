/** The clients of the API server against the test API server: limits, faults, exactness. */
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { refusal } from '../../../src/actors/kube/errors.ts';
import { isSecretHandle } from '../../../src/kernel/journal/secrets.ts';
import type { KubeObject } from '../../../src/machines/model/operations/kube.ts';
import { type ApiServer, type ApiServerOptions, startApiServer } from '../../fakes/api-server/index.ts';
import { bench, pod, pods, settings } from './support.ts';

let server: ApiServer;
let node: ReturnType<typeof bench>;
const start = async (options?: ApiServerOptions, user = 'n1') => {
  server = await startApiServer(options);
  node = bench();
  await node.ask('kube.connect', settings(await server.kubeconfig(user)));
};
afterEach(async () => {
  await node?.connection.close();
  await server?.close();
});

const until = async (holds: () => boolean): Promise<void> => {
  for (let tries = 0; !holds(); tries += 1) {
    if (tries > 6_000) throw new Error('it did not come about in a minute');
    await sleep(10);
  }
};

describe.each([{ http2: true }, { http2: false }])('the API server over HTTP/2: $http2', (options) => {
  beforeEach(() => start(options));

  it('creates, reads, changes and deletes an object', async () => {
    const created: KubeObject = await node.ask('kube.create', { ...pods(), body: pod('a') });
    expect(created.metadata).toMatchObject({ name: 'a', namespace: 'default', generation: 1 });
    const patched: KubeObject = await node.ask('kube.patch', {
      ...pods('a'),
      subresource: 'status',
      patchType: 'application/strategic-merge-patch+json',
      body: { status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] } },
    });
    expect(patched['status']).toMatchObject({ phase: 'Running' });
    await node.ask('kube.delete', {
      ...pods('a'),
      gracePeriodSeconds: 0,
      preconditions: { uid: created.metadata['uid'] },
    });
    await expect(node.ask('kube.get', pods('a'))).rejects.toMatchObject({
      message: 'pods "a" not found',
      code: 'NotFound',
      retriable: false,
    });
  });

  it('reports each exchange to the counters, refusals and sizes included', async () => {
    await node.ask('kube.create', { ...pods(), body: pod('a') });
    await expect(node.ask('kube.get', pods('b'))).rejects.toMatchObject({ code: 'NotFound' });
    const sent = node.seen.filter((each) => each.kind === 'sent');
    expect(sent).toMatchObject([
      { method: 'POST', code: '201', bytes: JSON.stringify(pod('a')).length },
      { method: 'GET', code: '404', bytes: 0 },
    ]);
    expect(node.seen.filter(({ kind }) => kind === 'waited')).toHaveLength(2);
    expect(node.seen.filter((each) => each.kind === 'read' && each.bytes > 100)).toHaveLength(2);
    expect(new Set(node.seen.map(({ host }) => host))).toEqual(new Set([new URL(server.url).host]));
    await server.close();
    await expect(node.ask('kube.get', pods('a'))).rejects.toThrow();
    expect(node.seen.findLast((each) => each.kind === 'sent')).toMatchObject({ code: '<error>' });
  });

  it('watches through one connection, past a version that is no news', async () => {
    const stop = new AbortController();
    const seen: string[] = [];
    const emit = ({ change, object }: { change: string; object: KubeObject }) =>
      void seen.push(`${change} ${object.metadata.name}`);
    const ended = Array.from({ length: 20 }, () =>
      node.ask('kube.watch', { ...pods(), resourceVersion: '1' }, { signal: stop.signal, emit }),
    );
    await until(() => server.load.watches === 20);
    server.create(pod('a'));
    await until(() => seen.length === 20);
    expect(new Set(seen)).toEqual(new Set(['ADDED a']));
    expect(server.load.connections).toBeLessThanOrEqual(options.http2 ? 1 : seen.length);
    stop.abort();
    await Promise.allSettled(ended);
    await until(() => server.load.watches === 0);
  });

  it('answers the newest version that a broken watch has seen whole', async () => {
    server.create(pod('a'));
    const version = server.store.resourceVersion;
    let seen = 0;
    const watching = node.ask('kube.watch', { ...pods(), resourceVersion: '1' }, { emit: () => void seen++ });
    await until(() => seen === 1);
    server.faults.dropWatches('break');
    await expect(watching).resolves.toEqual({ reason: 'closed', resourceVersion: version });
  });

  it('ends a watch that says what is no JSON, and leaves nothing open', async () => {
    const watching = node.ask('kube.watch', { ...pods(), resourceVersion: server.store.resourceVersion });
    await until(() => server.load.watches === 1);
    server.faults.dropWatches('garble');
    await expect(watching).rejects.toMatchObject({ message: 'a change is no JSON', code: 'Expired' });
    await until(() => server.load.watches === 0);
  });

  it('tells a forgotten version from a closed watch', async () => {
    server.create(pod('a'));
    server.store.compact();
    await expect(node.ask('kube.watch', { ...pods(), resourceVersion: '1' })).resolves.toMatchObject({
      reason: 'expired',
    });
    const watching = node.ask('kube.watch', { ...pods(), resourceVersion: server.store.resourceVersion });
    await until(() => server.load.watches === 1);
    server.faults.dropWatches('expire');
    await expect(watching).resolves.toMatchObject({ reason: 'expired' });
  });

  it('resumes after a bookmark', async () => {
    await node.connection.close();
    await server.close();
    await start({ ...options, bookmarkPeriodMs: 20 });
    const watching = node.ask('kube.watch', { ...pods(), resourceVersion: server.store.resourceVersion });
    await until(() => server.load.watches === 1);
    server.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'other' } });
    await sleep(100);
    server.faults.dropWatches('close');
    await expect(watching).resolves.toEqual({ reason: 'closed', resourceVersion: server.store.resourceVersion });
  });

  it.each([
    ['halfJson', { code: 'MALFORMED', message: 'unexpected end of JSON input' }],
    ['brokenJson', { code: 'ECONNRESET' }],
    ['drop', { code: 'ECONNRESET' }],
  ] as const)('takes %s for what may be tried again', async (kind, error) => {
    server.create(pod('a'));
    server.faults.add({ kind, path: '/pods/a' });
    await expect(node.ask('kube.get', pods('a'))).rejects.toMatchObject({ ...error, retriable: true });
    await expect(node.ask('kube.get', pods('a'))).resolves.toMatchObject({ metadata: { name: 'a' } });
  });

  it('gives a hung request up when it is not wanted any more', async () => {
    server.faults.add({ kind: 'hang', path: '/pods/a' });
    const signal = AbortSignal.timeout(50);
    await expect(node.ask('kube.get', pods('a'), { signal })).rejects.toThrow();
  });

  it('reads an answer that trickles', async () => {
    server.create(pod('a'));
    server.faults.add({ kind: 'slow', path: '/pods/a', bytes: 200, everyMs: 5 });
    await expect(node.ask('kube.get', pods('a'))).resolves.toMatchObject({ metadata: { name: 'a' } });
  });
});

describe('limits', () => {
  beforeEach(() => start());
  const tooMany = { kind: 'status', code: 429, reason: 'TooManyRequests', path: '/pods/a' } as const;
  const limitTo = async (qps: number) =>
    await node.ask('kube.connect', settings(await server.kubeconfig('admin'), { qps, burst: 1 }));

  it('waits as long as the server asks, and tries again', async () => {
    server.create(pod('a'));
    server.faults.add({ ...tooMany, retryAfterSeconds: 1 });
    const began = performance.now();
    await expect(node.ask('kube.get', pods('a'))).resolves.toMatchObject({ metadata: { name: 'a' } });
    expect(performance.now() - began).toBeGreaterThan(900);
  });

  it('hands a long wait on to the machine', async () => {
    server.faults.add({ ...tooMany, retryAfterSeconds: 600 });
    await expect(node.ask('kube.get', pods('a'))).rejects.toMatchObject({
      code: 'TooManyRequests',
      retriable: true,
      retryAfterMs: 600_000,
    });
  });

  it.each([
    [1e300, 600_000],
    [-1e300, 0],
  ])('takes a wait of %d seconds for %d milliseconds', (retryAfterSeconds, retryAfterMs) => {
    const body = JSON.stringify({ kind: 'Status', details: { retryAfterSeconds } });
    expect(refusal(429, body, undefined)).toMatchObject({ retryAfterMs });
    expect(refusal(429, '', String(retryAfterSeconds))).toMatchObject({ retryAfterMs });
  });

  it('keeps a page of what a server explains at length, and its reason if that is a word', () => {
    const long = 'x'.repeat(1_000_000);
    const { message, code } = refusal(500, JSON.stringify({ kind: 'Status', message: long, reason: long }), undefined);
    expect([message.length, code?.length]).toEqual([16_384, 1_024]);
    const odd = { kind: 'Status', message: { toString: 5 }, reason: ['a'] };
    expect(refusal(503, JSON.stringify(odd), undefined)).toMatchObject({
      message: 'the server is currently unable to handle the request',
      code: 'ServiceUnavailable',
    });
  });

  it('keeps the rate of one client without holding up another', async () => {
    const stop = new AbortController();
    const ask = () => Array.from({ length: 4 }, () => node.ask('kube.get', pods('a'), { signal: stop.signal }));
    server.create(pod('a'));
    await limitTo(10);
    const began = performance.now();
    await Promise.all(ask());
    expect(performance.now() - began).toBeGreaterThan(290);
    await limitTo(0.001);
    const [first, ...others] = ask();
    const slow = Promise.allSettled(others);
    await first;
    await Promise.all(Array.from({ length: 10 }, () => node.ask('kube.get', { ...pods('a'), client: 'heartbeat' })));
    stop.abort();
    expect((await slow).map(({ status }) => status)).toEqual(Array(3).fill('rejected'));
  });

  it('has the limits of client-go where none are configured, and none of events', async () => {
    const limits = { qps: 0, burst: 0, eventQps: 0, eventBurst: 0 };
    await node.ask('kube.connect', settings(await server.kubeconfig('admin'), limits));
    const times = async (client: 'kube' | 'event') => {
      const began = performance.now();
      await Promise.all(Array.from({ length: 12 }, () => node.ask('kube.list', { ...pods(), client })));
      return performance.now() - began;
    };
    await times('event');
    expect(await times('kube')).toBeGreaterThan(380);
    expect(await times('event')).toBeLessThan(380);
  });

  it('takes no turn for a request that is not wanted any more', async () => {
    await limitTo(1);
    await node.ask('kube.list', pods());
    const stop = new AbortController();
    const given = Array.from({ length: 20 }, () => node.ask('kube.list', pods(), { signal: stop.signal }));
    stop.abort();
    await Promise.allSettled(given);
    const began = performance.now();
    await node.ask('kube.list', pods());
    expect(performance.now() - began).toBeLessThan(given.length * 500);
  });

  it('ends a heartbeat when its time is over', async () => {
    await node.ask('kube.connect', settings(await server.kubeconfig('admin'), { heartbeatTimeoutMs: 200 }));
    server.faults.add({ kind: 'hang', path: '/pods/a' });
    await expect(node.ask('kube.get', { ...pods('a'), client: 'heartbeat' })).rejects.toMatchObject({
      code: 'ETIMEDOUT',
      message: `Get "${server.url}/api/v1/namespaces/default/pods/a?timeout=0.2s": context deadline exceeded`,
    });
  });
});

describe('what may not be seen, and what must stay exact', () => {
  beforeEach(() => start());

  it('swaps the values of Secrets for handles, and finds them again', async () => {
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': '{"data":"hunter2"}', kept: 'yes' };
    const binary = Buffer.from([0xff, 0, 0xfe]).toString('base64');
    server.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 's', annotations },
      data: { password: Buffer.from('hunter2').toString('base64'), key: binary },
    });
    const target = { client: 'kube', apiVersion: 'v1', resource: 'secrets', namespace: 'default' };
    const secret: KubeObject & { data: Record<string, Record<string, unknown>> } = await node.ask('kube.get', {
      ...target,
      name: 's',
    });
    expect(JSON.stringify(secret)).not.toContain('hunter2');
    expect(secret.metadata['annotations']).toEqual({ kept: 'yes' });
    expect(node.vault.openAll(secret.data)).toMatchObject({ password: { text: 'hunter2' }, key: { base64: binary } });
    const { items }: { items: (typeof secret)[] } = await node.ask('kube.list', target);
    expect(items[0]?.data).toEqual(secret.data);
  });

  it('swaps an issued token for a handle, and sends the value', async () => {
    const target = {
      client: 'kube',
      apiVersion: 'v1',
      resource: 'serviceaccounts',
      namespace: 'default',
      name: 'default',
    };
    const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: ['x'] } };
    const issued: { status: { token: unknown } } = await node.ask('kube.create', {
      ...target,
      subresource: 'token',
      body,
    });
    expect(isSecretHandle(issued.status.token)).toBe(true);
    const review: { status: unknown } = await node.ask('kube.create', {
      client: 'kube',
      apiVersion: 'authentication.k8s.io/v1',
      resource: 'tokenreviews',
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token: issued.status.token, audiences: ['x'] },
      },
    });
    expect(review.status).toMatchObject({
      authenticated: true,
      user: { username: 'system:serviceaccount:default:default' },
    });
  });

  it('keeps integers that a double cannot hold', async () => {
    server.create({ ...pod('a'), metadata: { name: 'a' }, big: JSON.parse('[9007199254740993]', reviveRaw) });
    await expect(node.ask('kube.get', pods('a'))).resolves.toMatchObject({ big: ['9007199254740993'] });
  });
});

const reviveRaw = (_key: string, value: unknown, { source }: { source?: string } = {}): unknown =>
  typeof value === 'number' ? (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(source!) : value;

it.each([
  ['api.example', 'certificate is valid for localhost, kubernetes.default.svc, not api.example'],
  ['192.0.2.1', 'certificate is valid for 127.0.0.1, not 192.0.2.1'],
])('a server that is not %s is refused with the names that it has', async (name, text) => {
  server = await startApiServer();
  node = bench();
  const path = await server.kubeconfig('n1');
  const config = JSON.parse(readFileSync(path, 'utf8')) as { clusters: { cluster: object }[] };
  Object.assign(config.clusters[0]!.cluster, { 'tls-server-name': name });
  writeFileSync(path, JSON.stringify(config));
  await node.ask('kube.connect', settings(path));
  await expect(node.ask('kube.get', pods('a'))).rejects.toMatchObject({
    message: `Get "${server.url}/api/v1/namespaces/default/pods/a": tls: failed to verify certificate: x509: ${text}`,
  });
});

describe('a server that is away', () => {
  beforeEach(() => start());

  it('reports in upstream words that no server answers, and continues when one does', async () => {
    await server.stop();
    const { url } = server;
    await expect(node.ask('kube.get', pods('a'))).rejects.toMatchObject({
      message: `Get "${url}/api/v1/namespaces/default/pods/a": dial tcp ${url.slice(8)}: connect: connection refused`,
      code: 'ECONNREFUSED',
      retriable: true,
    });
    await server.start();
    await expect(node.ask('kube.list', pods())).resolves.toMatchObject({ items: [] });
  });
});

describe('many watches at once', () => {
  it('hold up neither each other nor a request', async () => {
    await start();
    const stop = new AbortController();
    const watches = 350;
    const all = Array.from({ length: watches }, (_, index) =>
      node.ask(
        'kube.watch',
        { ...pods(), client: 'heartbeat', fieldSelector: `metadata.name=p${index}`, resourceVersion: '1' },
        { signal: stop.signal },
      ),
    );
    await until(() => server.load.watches === watches);
    server.create(pod('a'));
    const began = performance.now();
    await expect(node.ask('kube.get', pods('a'))).resolves.toMatchObject({ metadata: { name: 'a' } });
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(server.load.connections).toBeLessThan(10);
    stop.abort();
    await Promise.allSettled(all);
    await until(() => server.load.watches === 0);
  });
});

it('a thousand writes of pods that ended delay no other request', async () => {
  await start();
  await node.ask('kube.connect', settings(await server.kubeconfig('n1'), { qps: 20, burst: 2 }));
  const stop = new AbortController();
  const write = (name: string, phase: string) => {
    const patch = { subresource: 'status', patchType: 'application/strategic-merge-patch+json' };
    const input = { ...pods(name), ...patch, body: { status: { phase } } };
    // There is no such pod: an answer of the server shows that the request was sent.
    return node.ask('kube.patch', input, { signal: stop.signal }).catch(({ code }: { code: string }) => code);
  };
  const ended = Array.from({ length: 1_000 }, (_, at) => write(`ended-${at}`, 'Failed'));
  const running = write('running', 'Running');
  await node.ask('kube.list', { ...pods(), limit: 1 });
  expect(await running).toBe('NotFound');
  expect(node.seen.filter(({ kind }) => kind === 'sent').length).toBeLessThan(20);
  stop.abort();
  await Promise.all(ended);
});
