/**
 * A runtime whose messages, lists and counts exceed those of every node affects only its own pods, within limits of
 * time and memory.
 */
import { afterEach, describe, expect, it } from 'vitest';
import { connectRuntime, type RuntimeClient } from '../../../src/actors/cri/client.ts';
import { listenForHints } from '../../../src/actors/cri/hints.ts';
import { inspectPod, PodIds } from '../../../src/actors/cri/inspect.ts';
import { criPorts } from '../../../src/actors/cri/ports.ts';
import { groupByPod, podRuntimeStatus } from '../../../src/actors/cri/relist.ts';
import { OperationError } from '../../../src/kernel/json.ts';
import type {
  Container,
  ContainerEventResponse,
  ContainerStatus,
  PodSandboxStatus,
} from '../../../src/machines/model/api/cri.ts';
import { factsOf, sandboxesOf } from '../../../src/machines/model/status/runtime-facts.ts';
import { FakeRuntime, labelsOf } from './fake-runtime.ts';

const fakes: FakeRuntime[] = [];
afterEach(async () => {
  for (const fake of fakes.splice(0)) await fake.close();
});

/** The annotation in which the runtime returns the number of restarts. */
const RESTARTS = 'io.kubernetes.container.restartCount';
const containerStatus = (over: Partial<ContainerStatus>): ContainerStatus => ({
  id: 'c',
  metadata: { name: 'main', attempt: 3 },
  state: 'CONTAINER_EXITED',
  created_at: '1',
  started_at: '0',
  finished_at: '0',
  exit_code: 0,
  image_ref: '',
  image_id: '',
  reason: '',
  message: '',
  labels: labelsOf('a'),
  annotations: {},
  mounts: [],
  log_path: '',
  stop_signal: 'RUNTIME_DEFAULT',
  ...over,
});
const statusOf = (over: Partial<ContainerStatus>) => podRuntimeStatus('a', [], [containerStatus(over)], 0);
const entries = (count: number, uidOf: (at: number) => string): Container[] =>
  Array.from({ length: count }, (_, at) => ({ id: `c${at}`, labels: labelsOf(uidOf(at)) }) as unknown as Container);

describe('events without end', () => {
  const silent = { onHint: () => {}, onOpen: () => {} };
  const event = { container_id: 'c', created_at: '0', containers_statuses: [] } as unknown as ContainerEventResponse;

  it('close their stream, which is opened again later', async () => {
    const stop = new AbortController();
    const heard: number[] = [];
    const lost: (string | undefined)[] = [];
    const flooding = {
      stream: (_name: string, _request: object, onMessage: (message: unknown) => void, ended: AbortSignal) => {
        heard.push(0);
        for (let sent = 0; sent < 100_000 && !ended.aborted; sent++) onMessage(event);
        return Promise.resolve();
      },
    } as unknown as RuntimeClient;
    const listener = {
      ...silent,
      onHint: () => void (heard[heard.length - 1]! += 1),
      onLost: (reason?: string) => {
        lost.push(reason);
        if (lost.length === 2) stop.abort();
      },
    };
    await listenForHints(flooding, listener, stop.signal);
    expect(heard.every((count) => count >= 20_000 && count < 25_000)).toBe(true);
    expect(lost[0]).toContain('more than 20000 events at once');
  });
});

it('an event of containerd that cannot be decoded closes its stream, which is opened again later', async () => {
  const stop = new AbortController();
  const event = { type_url: 'containerd.events.TaskExit', value: Buffer.from([0xff, 0xff]).toString('base64') };
  const lost: (string | undefined)[] = [];
  const client = {
    stream: (name: string, _request: object, onMessage: (message: unknown) => void) => {
      if (name === 'GetContainerEvents') return Promise.reject(new OperationError('none', { code: 'UNIMPLEMENTED' }));
      onMessage({ topic: '/tasks/exit', namespace: 'k8s.io', event });
      return Promise.resolve();
    },
  } as unknown as RuntimeClient;
  const onLost = (reason?: string) => {
    if (reason !== undefined) lost.push(reason);
    if (lost.length === 2) stop.abort();
  };
  await listenForHints(client, { onHint: () => {}, onOpen: () => {}, onLost }, stop.signal);
  expect(lost[0]).toContain('Subscribe: cannot decode an event containerd.events.TaskExit: index out of range');
});

describe('lists without end', () => {
  it('of pods are refused as a whole, so that nothing is decided by them', () => {
    expect(
      groupByPod(
        [],
        entries(10_000, (at) => `u${at}`),
      ).size,
    ).toBe(10_000);
    expect(() =>
      groupByPod(
        [],
        entries(10_001, (at) => `u${at}`),
      ),
    ).toThrow(/of 10001 pods: at most 10000/);
  });

  it('of one pod fail its inspection alone', async () => {
    const fake = await FakeRuntime.start();
    fakes.push(fake);
    const client = connectRuntime({ endpoint: fake.endpoint });
    const options = { timeoutMs: 10_000, observedAtMs: 0, podIds: new PodIds() };
    const ids = { sandboxIds: [], containerIds: entries(10_001, () => 'a').map(({ id }) => id) };
    await expect(inspectPod(client, 'a', { ...options, ids })).rejects.toThrow(/lists 10001 sandboxes and containers/);
    await inspectPod(client, 'a', { ...options, ids: { ...ids, containerIds: ids.containerIds.slice(0, 300) } });
    expect(fake.count('ContainerStatus')).toBe(300);
    client.close();
  });

  it('of known containers take time in proportion to their number', () => {
    const podIds = new PodIds();
    const ids = { sandboxIds: [], containerIds: entries(50_000, () => 'a').map(({ id }) => id) };
    podIds.retain(new Map());
    for (const id of ids.containerIds.slice(0, 2)) podIds.made('a', 'containerIds', id);
    const begin = process.threadCpuUsage();
    podIds.shown('a', ids);
    expect(process.threadCpuUsage(begin).user).toBeLessThan(1_000_000);
    expect(podIds.of('a')).toBeUndefined();
  });

  it('an entry without an id, and one that is there twice, count once', () => {
    const twice = [...entries(2, () => 'a'), ...entries(2, () => 'a'), { ...entries(1, () => 'a')[0]!, id: '' }];
    expect(groupByPod([], twice).get('a')?.containerIds).toEqual(['c0', 'c1']);
  });

  it('of handlers and conditions are cut', async () => {
    const conditions = Array.from({ length: 5_000 }, (_, at) => ({ type: `c${at}`, status: true }));
    const runtime_handlers = Array.from({ length: 5_000 }, (_, at) => ({ name: `h${at}` }));
    const fake = await FakeRuntime.start({ Status: () => ({ status: { conditions }, runtime_handlers }) });
    fakes.push(fake);
    const { ports, close } = criPorts({ endpoint: fake.endpoint });
    const call = { id: 1, input: {}, resume: false, signal: new AbortController().signal, emit: () => {} };
    const status = await ports['cri.status'](call);
    expect([status.conditions.length, status.handlers.length]).toEqual([100, 1_000]);
    close();
  });
});

describe('a status', () => {
  it.each([['abc'], [''], ['1e400'], ['-1'], ['2147483647'], ['99999999999999']])(
    'with %j restarts has those of its attempt',
    (restarts) => {
      const status = statusOf({ annotations: { [RESTARTS]: restarts } });
      expect(factsOf(status, 'main')?.restartCount).toBe(3);
    },
  );

  it('with an attempt beyond the API’s integers has the largest that can count on', () => {
    const status = statusOf({ metadata: { name: 'main', attempt: 4_294_967_295 } });
    expect(factsOf(status, 'main')?.restartCount).toBe(2_147_483_646);
    const sandbox = { id: 's', metadata: { attempt: 4_294_967_295 }, labels: {}, created_at: '1' };
    const [newest] = sandboxesOf(podRuntimeStatus('a', [sandbox as unknown as PodSandboxStatus], [], 0));
    expect(newest?.metadata?.attempt).toBe(2_147_483_646);
  });

  it('of megabytes is cut', () => {
    const status = statusOf({ message: 'm'.repeat(4_000_000), reason: 'r'.repeat(1_000_000) });
    expect(status.containers[0]?.message.length).toBe(10 * 1_024);
    expect(status.containers[0]?.reason.length).toBe(1_024);
    const network = { ip: '1'.repeat(1_000), additional_ips: Array.from({ length: 1_000 }, () => ({ ip: '::1' })) };
    const sandbox = { id: 's', labels: {}, created_at: '1', network } as unknown as PodSandboxStatus;
    const [cut] = podRuntimeStatus('a', [sandbox], [], 0).sandboxes;
    expect([cut?.network?.ip.length, cut?.network?.additional_ips.length]).toEqual([64, 16]);
  });
});
