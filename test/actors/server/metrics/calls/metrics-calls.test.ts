/** Counters of requests, streams, tokens and calls of the runtime, moved by real requests over real sockets. */
import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { afterEach, expect, it } from 'vitest';
import { criPorts } from '../../../../../src/actors/cri/ports.ts';
import { type Create, tokenReviewer } from '../../../../../src/actors/server/authentication.ts';
import { ApiServer } from '../../../../../src/actors/server/http/api-server.ts';
import { type Endpoint, text, UPGRADED } from '../../../../../src/actors/server/http/endpoint.ts';
import { ApiClientMetrics, RuntimeMetrics } from '../../../../../src/actors/server/metrics/calls/client-calls.ts';
import { ClaimWork } from '../../../../../src/actors/server/metrics/calls/plugin-work.ts';
import { PodResourcesMetrics, RequestMetrics } from '../../../../../src/actors/server/metrics/calls/request-metrics.ts';
import { servePodResources } from '../../../../../src/actors/server/pod-resources.ts';
import type { KubeObject } from '../../../../../src/machines/model/operations/kube.ts';
import type { ServerItem } from '../../../../../src/machines/model/operations/server.ts';
import { temporaryFolder } from '../../../../support/host-ports.ts';
import { askPodResources } from '../../../../support/pod-resources.ts';
import { FakeRuntime, fakePod } from '../../../cri/fake-runtime.ts';
import { reading } from '../../metrics-recording.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

const PROXY = ['proxy'] as const;
const endpoint = (path: string, answer: Endpoint['answer']): Endpoint => ({
  path,
  methods: 'any',
  subresources: PROXY,
  answer,
});

async function served(requests: RequestMetrics): Promise<number> {
  const api = await new ApiServer({
    endpoints: [
      endpoint('/pods', () => text(200, 'x')),
      endpoint('/configz', () => {
        throw new Error('broken');
      }),
      endpoint('/exec/:namespace', ({ upgrade }) => {
        upgrade!.take().socket.write('taken');
        return UPGRADED;
      }),
    ],
    gate: async () => null,
    onRequest: (method, route) => requests.began('readwrite', method, route),
    onAnswered: (method, route, ms) => requests.answered('readwrite', method, route, ms),
  }).open();
  const listener: Server = createServer((socket) => api.accept(socket));
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  closing.push(
    () => listener.close(),
    () => api.close(),
  );
  return (listener.address() as { port: number }).port;
}

/** Sends a request and reads until this is there. */
async function ask(port: number, request: string, until: RegExp) {
  const socket = connect(port, '127.0.0.1');
  closing.push(() => socket.destroy());
  socket.write(`${request}\r\nHost: x\r\n`);
  socket.write('Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n');
  let heard = '';
  while (!until.test(heard)) heard += String((await once(socket, 'data'))[0]);
  return socket;
}

it('requests count when they come, and are in flight until they end, streams and failures too', async () => {
  const registry = new Registry();
  const requests = new RequestMetrics(registry);
  const value = reading(registry);
  const port = await served(requests);
  const inFlight = (path: string) => value('kubelet_http_inflight_requests', { path });
  await ask(port, 'GET /pods HTTP/1.1', /200 OK/);
  await ask(port, 'GET /configz HTTP/1.1', /500 Internal/);
  await ask(port, 'GET /nowhere HTTP/1.1', /404 Not/);
  for (const path of ['pods', 'configz', 'other']) {
    await expect.poll(() => inFlight(path)).toBe(0);
    expect(await value('kubelet_http_requests_total', { path })).toBe(1);
    expect(await value('kubelet_http_requests_duration_seconds', { path }, '_count')).toBe(1);
  }
  const stream = await ask(port, 'POST /exec/default HTTP/1.1', /taken/);
  expect(await inFlight('exec')).toBe(1);
  expect(await value('kubelet_http_requests_duration_seconds', { path: 'exec' }, '_count')).toBeUndefined();
  stream.destroy();
  await expect.poll(() => inFlight('exec')).toBe(0);
  expect(await value('kubelet_http_requests_total', { path: 'exec', long_running: 'true' })).toBe(1);
});

it('tokens are known, asked for, or waited for', async () => {
  const registry = new Registry();
  const value = reading(registry);
  const answer = Promise.withResolvers<KubeObject>();
  let asked = 0;
  const create: Create = async () => {
    if (++asked > 1) throw new Error('away');
    return await answer.promise;
  };
  const review = tokenReviewer(create, { tokenMs: 60_000 }, new RequestMetrics(registry).auth.tokens);
  const waiting = [review('one'), review('one')];
  const active = (status: string) => value('authentication_token_cache_active_fetch_count', { status });
  expect([await active('blocked'), await active('in_flight')]).toEqual([2, 1]);
  answer.resolve({ metadata: { name: '' }, status: { authenticated: true, user: { username: 'u' } } });
  await Promise.all(waiting);
  expect([await active('blocked'), await active('in_flight')]).toEqual([0, 0]);
  await review('one');
  await expect(review('two')).rejects.toThrow('away');
  const requests = (status: string) => value('authentication_token_cache_request_total', { status });
  const fetches = (status: string) => value('authentication_token_cache_fetch_total', { status });
  expect([await requests('hit'), await requests('miss')]).toEqual([1, 3]);
  expect([await fetches('ok'), await fetches('error')]).toEqual([1, 1]);
});

it('reviews are told from other requests by what they create', async () => {
  const registry = new Registry();
  const { seen } = new ApiClientMetrics(registry);
  const value = reading(registry);
  const sent = { method: 'POST', host: 'h', kind: 'sent', durationMs: 600, bytes: 1 } as const;
  seen({ ...sent, code: '201', path: '/apis/authentication.k8s.io/v1/tokenreviews' });
  seen({ ...sent, code: '<error>', path: '/apis/authorization.k8s.io/v1/subjectaccessreviews' });
  seen({ ...sent, code: '201', path: '/api/v1/namespaces/default/events' });
  expect(await value('apiserver_delegated_authn_request_total', { code: '201' })).toBe(1);
  expect(await value('apiserver_delegated_authz_request_total', { code: '<error>' })).toBe(1);
  expect(await value('apiserver_delegated_authz_request_total', { code: '201' })).toBeUndefined();
  expect(await value('apiserver_delegated_authn_request_duration_seconds', { code: '201' }, '_sum')).toBe(0.6);
  expect(await value('rest_client_requests_total', { code: '201' })).toBe(2);
});

it('every call of the runtime counts under the name that upstream has for it', async () => {
  const registry = new Registry();
  const value = reading(registry);
  const fake = await FakeRuntime.start({ UpdateContainerResources: () => ({}), Version: () => ({ version: '1' }) });
  fake.pods.set('u1', fakePod('u1'));
  const { ports, close } = criPorts({ endpoint: fake.endpoint, onSeen: new RuntimeMetrics(registry).seen });
  closing.push(() => fake.close(), close);
  const ended = new AbortController();
  const call = <Input>(input: Input) => ({ id: 1, resume: false, signal: ended.signal, emit: () => {}, input });
  await ports['cri.version'](call({}));
  await ports['cri.updateContainerResources'](call({ containerId: 'c', linux: {} }));
  await expect(ports['cri.status'](call({}))).rejects.toThrow('Unimplemented');
  await ports['cri.podStatus'](call({ uid: 'u1' }));
  const total = (operation_type: string) => value('kubelet_runtime_operations_total', { operation_type });
  for (const name of ['version', 'update_container', 'status', 'list_podsandbox', 'podsandbox_status']) {
    expect(await total(name), name).toBe(1);
  }
  expect(await value('kubelet_runtime_operations_errors_total', { operation_type: 'status' })).toBe(1);
  expect(await value('kubelet_runtime_operations_errors_total', { operation_type: 'version' })).toBeUndefined();
  expect(await value('kubelet_pleg_pod_relist_duration_seconds', {}, '_count')).toBe(1);
  const watch = { relistPeriodMs: 20, inspectDeadlineMs: 60_000, inspectParallel: 2 };
  const watching = ports['cri.watchPods'](call(watch));
  await expect.poll(() => fake.listeners).toBe(1);
  fake.emit({ container_id: 'container-u1', created_at: String(BigInt(Date.now() - 50) * 1_000_000n) });
  const connectedLate = () => value('kubelet_evented_pleg_connection_latency_seconds', {}, '_sum');
  await expect.poll(connectedLate).toBeGreaterThanOrEqual(0.05);
  await expect.poll(() => value('kubelet_pleg_relist_interval_seconds', {}, '_count')).toBeGreaterThan(0);
  expect(await value('kubelet_pleg_last_seen_seconds')).toBeCloseTo(Date.now() / 1_000, -1);
  expect(await value('kubelet_evented_pleg_connection_success_count')).toBe(1);
  fake.stopListening();
  await expect.poll(() => value('kubelet_evented_pleg_connection_error_count')).toBeGreaterThan(0);
  ended.abort();
  await watching;
});

it('who asks for the resources of pods is counted by the method, and its failures apart', async () => {
  const registry = new Registry();
  const value = reading(registry);
  const path = join(await temporaryFolder(), 'pod-resources.sock');
  const ended = new AbortController();
  const listening = Promise.withResolvers<unknown>();
  const settings = {} as never;
  const serving = servePodResources(
    {
      id: 1,
      resume: false,
      signal: ended.signal,
      emit: (item: ServerItem) => listening.resolve(item),
      input: { path, service: 'podResources', settings },
    },
    {
      view: {
        pods: () => [],
        allocatableCpus: () => [1],
        contexts: <Context>() => [{ sources: {}, settings: {}, grants: {}, devices: {} } as Context],
      },
      seen: new PodResourcesMetrics(registry),
    },
  );
  await listening.promise;
  await askPodResources(path, 'List');
  await askPodResources(path, 'GetAllocatableResources');
  await expect(askPodResources(path, 'Get', { podName: 'no', podNamespace: 'such' })).rejects.toMatchObject({
    code: 2,
    details: 'pod no in namespace such not found',
  });
  ended.abort();
  await serving;
  const endpoint = 'kubelet_pod_resources_endpoint_';
  expect(await value(`${endpoint}requests_total`, { server_api_version: 'v1' })).toBe(3);
  expect(await value(`${endpoint}requests_list`)).toBe(1);
  expect(await value(`${endpoint}requests_get`)).toBe(1);
  expect(await value(`${endpoint}errors_get`)).toBe(1);
  expect(await value(`${endpoint}errors_list`)).toBeUndefined();
});

it('the bounds of durations of claims are those of upstream`s library, to the last digit', () => {
  const registry = new Registry();
  const claims = new ClaimWork(registry);
  expect(claims.recordKinds).not.toEqual([]);
  const { upperBounds } = registry.getSingleMetric('dra_operations_duration_seconds') as unknown as {
    upperBounds: readonly number[];
  };
  expect(upperBounds).toHaveLength(15);
  expect([5, 7, 8, 11, 14].map((at) => upperBounds[at])).toEqual([
    0.849781240983936, 1.9999999999999993, 3.0682548092687805, 11.078365961221499, 39.99999999999997,
  ]);
});
