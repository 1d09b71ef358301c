/** `cri.watchPods` with a runtime that deliberately violates its contract. */
import { setTimeout as sleep } from 'node:timers/promises';
import * as grpc from '@grpc/grpc-js';
import { afterEach, expect, it } from 'vitest';
import { criPorts } from '../../../src/actors/cri/ports.ts';
import type { WatchPodsItem } from '../../../src/machines/model/operations/cri.ts';
import { FakeRuntime, fakePod, type Handlers, never, Refusal } from './fake-runtime.ts';

/** With so rare a relist, only an event can explain what is seen earlier. */
const NEVER_MS = 600_000;
const SOON_MS = 30_000;

const opened: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0)) await close();
});

interface Options {
  readonly handlers?: Handlers;
  readonly pods?: readonly string[];
  /** Pods that differ from the usual ones. */
  readonly others?: Readonly<Record<string, ReturnType<typeof fakePod>>>;
  readonly relistPeriodMs?: number;
  readonly inspectDeadlineMs?: number;
  readonly inspectParallel?: number;
  readonly streamsEvents?: boolean;
  readonly listening?: boolean;
}

async function watching(options: Options) {
  const fake = await FakeRuntime.start(options.handlers, { streamsEvents: options.streamsEvents ?? true });
  for (const uid of options.pods ?? []) fake.pods.set(uid, fakePod(uid));
  for (const [uid, pod] of Object.entries(options.others ?? {})) fake.pods.set(uid, pod);
  if (options.listening === false) fake.stopListening();
  const warnings: string[] = [];
  const { ports, close } = criPorts({ endpoint: fake.endpoint, warn: (message) => void warnings.push(message) });
  const items: WatchPodsItem[] = [];
  const aborter = new AbortController();
  const running = ports['cri.watchPods']({
    id: 1,
    resume: false,
    signal: aborter.signal,
    emit: (item) => void items.push(item),
    input: {
      relistPeriodMs: options.relistPeriodMs ?? NEVER_MS,
      inspectDeadlineMs: options.inspectDeadlineMs ?? SOON_MS,
      inspectParallel: options.inspectParallel ?? 4,
    },
  });
  opened.push(async () => {
    aborter.abort();
    expect(await running).toBeNull();
    close();
    await fake.close();
  });
  return { fake, items, warnings, ports };
}

const eventually = (read: () => unknown) => expect.poll(read, { timeout: SOON_MS, interval: 5 }).toBeTruthy();
const types = (items: readonly WatchPodsItem[]) => items.map(({ type }) => type);
const relisted = (items: readonly WatchPodsItem[]) => eventually(() => types(items).includes('runtime.relisted'));
type PodItem = Extract<
  WatchPodsItem,
  { type: 'runtime.podChanged' | 'runtime.sandboxChanged' | 'runtime.containerChanged' }
>;

/** Everything that was reported about a pod. */
const reported = (items: readonly WatchPodsItem[], uid: string): PodItem[] =>
  items.filter(
    (item): item is PodItem =>
      (item.type === 'runtime.podChanged' && item.status.uid === uid) ||
      ((item.type === 'runtime.sandboxChanged' || item.type === 'runtime.containerChanged') && item.uid === uid),
  );

/** The state of the first container in the newest report. */
function stateIn(items: readonly WatchPodsItem[], uid: string): string | undefined {
  const last = reported(items, uid).at(-1);
  return last?.type === 'runtime.podChanged' ? last.status.containers[0]?.state : last?.status.state;
}

it('every pod is named before the first relist is said to be complete', async () => {
  const { items } = await watching({ pods: ['a', 'b', 'c'] });
  await relisted(items);
  expect(items.at(-1)).toEqual({ type: 'runtime.relisted', uids: ['a', 'b', 'c'] });
  expect(types(items.slice(0, -1))).toEqual(['runtime.podChanged', 'runtime.podChanged', 'runtime.podChanged']);
});

it('a pod that hangs is stale after its deadline, alone', async () => {
  const { fake, items } = await watching({ pods: ['a', 'b'], inspectDeadlineMs: 2_000, inspectParallel: 1 });
  await relisted(items);
  fake.handlers.ContainerStatus = ({ container_id: id }) =>
    id === 'container-a' ? never() : { status: fakePod('b', 'CONTAINER_EXITED').containers[0]! };
  fake.pods.set('b', fakePod('b', 'CONTAINER_EXITED'));
  fake.emit({ container_id: 'container-a', container_event_type: 'CONTAINER_STOPPED_EVENT' });
  fake.emit({ container_id: 'container-b', container_event_type: 'CONTAINER_STOPPED_EVENT' });
  await eventually(() => stateIn(items, 'b') === 'CONTAINER_EXITED');
  expect(items.filter(({ type }) => type === 'runtime.podStale')).toEqual([
    { type: 'runtime.podStale', uid: 'a', message: expect.stringContaining('DeadlineExceeded') },
  ]);
});

it('a stale pod is inspected again by each relist, and reported when it recovers', async () => {
  const options = { pods: ['a'], relistPeriodMs: 20, inspectDeadlineMs: 300 };
  const { fake, items } = await watching({ ...options, handlers: { PodSandboxStatus: never } });
  await eventually(() => types(items).includes('runtime.podStale'));
  expect(reported(items, 'a')).toEqual([]);
  delete fake.handlers.PodSandboxStatus;
  await eventually(() => reported(items, 'a').length === 1);
});

it('an event that comes before the state does is followed until the state comes', async () => {
  const { fake, items } = await watching({ pods: ['a'] });
  await relisted(items);
  fake.emit({ container_id: 'container-a', container_event_type: 'CONTAINER_STOPPED_EVENT' });
  setTimeout(() => fake.pods.set('a', fakePod('a', 'CONTAINER_EXITED')), 100);
  await eventually(() => stateIn(items, 'a') === 'CONTAINER_EXITED');
  expect(reported(items, 'a')).toHaveLength(2);
});

it('a hundred hints about one pod are few inspections', async () => {
  const { fake, items } = await watching({ pods: ['a'] });
  await relisted(items);
  const before = fake.count('ContainerStatus');
  for (let hint = 0; hint < 100; hint += 1) {
    fake.emit({ container_id: 'container-a', container_event_type: 'CONTAINER_STARTED_EVENT' });
  }
  await eventually(() => fake.count('ContainerStatus') > before);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(fake.count('ContainerStatus') - before).toBeLessThan(50);
  expect(reported(items, 'a')).toHaveLength(1);
});

it('an id that no list has shown brings the next relist forward, not one for each event', async () => {
  const relistPeriodMs = 300;
  const began = performance.now();
  const { fake, items } = await watching({ relistPeriodMs });
  await relisted(items);
  fake.pods.set('a', fakePod('a'));
  for (let hint = 0; hint < 20; hint += 1) {
    fake.emit({ container_id: 'container-a', container_event_type: 'CONTAINER_STARTED_EVENT' });
  }
  await eventually(() => reported(items, 'a').length === 1);
  const periods = Math.ceil((performance.now() - began) / relistPeriodMs);
  expect(fake.count('ListPodSandbox')).toBeLessThanOrEqual(periods + 1);
});

/** A call for the pod `a`, whose event the runtime sends 100 ms before the answer. */
const after = (fake: () => FakeRuntime, container_id: string, reply: object) => async (): Promise<object> => {
  fake().emit({ container_id, container_event_type: 'CONTAINER_STARTED_EVENT' });
  await sleep(100);
  return reply;
};
const CreateContainer = () => ({ container_id: 'made' });
const callOf = { id: 2, resume: false, signal: new AbortController().signal, emit: () => {} };

/** Waits until relists are rare, because the events have been complete: none for half a second. */
async function untilRare(fake: FakeRuntime): Promise<void> {
  await eventually(() => fake.count('ListPodSandbox') > 5);
  for (let before = 0; before < fake.count('ListPodSandbox'); await sleep(500)) before = fake.count('ListPodSandbox');
}

it('the event about a sandbox whose call has not returned asks for no relist', async () => {
  const { fake, items, ports } = await watching({ relistPeriodMs: 20 });
  await relisted(items);
  fake.handlers.RunPodSandbox = after(() => fake, 'sandbox-a', { pod_sandbox_id: 'sandbox-a' });
  await untilRare(fake);
  const before = fake.count('ListPodSandbox');
  const metadata = { name: 'a', uid: 'a', namespace: 'default', attempt: 0 };
  await ports['cri.runPodSandbox']({ ...callOf, input: { config: { metadata }, runtimeHandler: '' } });
  await sleep(700);
  expect(fake.count('ListPodSandbox')).toBe(before);
});

it('what a pod has seen by an inspection of its own is not reported once more, what follows is', async () => {
  const { fake, items, ports } = await watching({ pods: ['a'] });
  await relisted(items);
  fake.pods.set('a', fakePod('a', 'CONTAINER_CREATED'));
  const { containers } = await ports['cri.podStatus']({ ...callOf, input: { uid: 'a' } });
  expect(containers[0]?.state).toBe('CONTAINER_CREATED');
  fake.emit({ container_id: 'container-a', container_event_type: 'CONTAINER_CREATED_EVENT' });
  await sleep(100);
  expect(reported(items, 'a')).toHaveLength(1);
  fake.pods.set('a', fakePod('a', 'CONTAINER_RUNNING'));
  fake.emit({ container_id: 'container-a', container_event_type: 'CONTAINER_STARTED_EVENT' });
  await eventually(() => reported(items, 'a').length === 2);
});

it('an inspection whose caller has gone leaves the report to the watch', async () => {
  const { fake, items, ports } = await watching({ pods: ['a'] });
  await relisted(items);
  fake.pods.set('a', fakePod('a', 'CONTAINER_EXITED'));
  const aborter = new AbortController();
  const answered = Promise.withResolvers<void>();
  fake.handlers.ContainerStatus = async () => {
    aborter.abort();
    await answered.promise;
    return {};
  };
  const inspection = ports['cri.podStatus']({ ...callOf, signal: aborter.signal, input: { uid: 'a' } });
  await expect(inspection).rejects.toThrow('ancel');
  answered.resolve();
  delete fake.handlers.ContainerStatus;
  fake.emit({ container_id: 'container-a', container_event_type: 'CONTAINER_STOPPED_EVENT' });
  await eventually(() => stateIn(items, 'a') === 'CONTAINER_EXITED');
});

it('an inspection that is given up lets the answers come that are under way', async () => {
  const { fake, items, ports } = await watching({ pods: ['a'] });
  await relisted(items);
  const aborter = new AbortController();
  fake.handlers.ContainerStatus = async () => {
    aborter.abort();
    await sleep(100);
    return {};
  };
  const inspection = ports['cri.podStatus']({ ...callOf, signal: aborter.signal, input: { uid: 'a' } });
  await expect(inspection).resolves.toMatchObject({ uid: 'a' });
});

it('a relist leaves what a call of our own made to the pod, once', async () => {
  const { fake, items, ports } = await watching({ pods: ['a'], relistPeriodMs: 200, handlers: { CreateContainer } });
  await relisted(items);
  const { sandbox, containers } = fakePod('a');
  const made = { ...containers[0]!, id: 'made', state: 'CONTAINER_CREATED' };
  const input = { podSandboxId: 'sandbox-a', config: {}, sandboxConfig: { metadata: { uid: 'a' } } } as const;
  await ports['cri.createContainer']({ ...callOf, input });
  const lists = fake.count('ListContainers');
  fake.pods.set('a', { sandbox, containers: [...containers, made] });
  await eventually(() => fake.count('ListContainers') > lists);
  await sleep(50);
  expect(reported(items, 'a')).toHaveLength(1);
  await eventually(() => reported(items, 'a').length === 2);
});

it('the answer to a start shows the container, which is asked for once, and not for its event, too', async () => {
  const { fake, items, ports } = await watching({ pods: ['a'] });
  await relisted(items);
  fake.handlers.StartContainer = after(() => fake, 'container-a', {});
  const before = fake.count('ContainerStatus');
  const { status } = await ports['cri.startContainer']({ ...callOf, input: { containerId: 'container-a' } });
  expect(status).toMatchObject({ id: 'container-a', state: 'CONTAINER_RUNNING', labels: {} });
  await sleep(200);
  expect(fake.count('ContainerStatus')).toBe(before + 1);
  expect(reported(items, 'a')).toHaveLength(1);
});

/** An event with statuses, as containerd 2 sends it. */
const withStatuses = (type: string, id: string, { sandbox, containers }: ReturnType<typeof fakePod>) =>
  ({
    container_id: id,
    container_event_type: type,
    pod_sandbox_status: sandbox,
    containers_statuses: containers,
  }) as never;

it('an event with the status of its container is believed, and nothing is asked for', async () => {
  const { fake, items } = await watching({ pods: ['a'] });
  await relisted(items);
  const calls = fake.calls.length;
  fake.emit(withStatuses('CONTAINER_STOPPED_EVENT', 'container-a', fakePod('a', 'CONTAINER_EXITED')));
  await eventually(() => stateIn(items, 'a') === 'CONTAINER_EXITED');
  fake.emit(withStatuses('CONTAINER_STOPPED_EVENT', 'container-a', fakePod('a', 'CONTAINER_EXITED')));
  await sleep(100);
  expect(reported(items, 'a').map(({ type }) => type)).toEqual(['runtime.podChanged', 'runtime.containerChanged']);
  expect(fake.calls).toHaveLength(calls);
});

it('what an event says of another container is not believed', async () => {
  const two = (state: 'CONTAINER_RUNNING' | 'CONTAINER_EXITED') => {
    const { sandbox, containers } = fakePod('a', state);
    return { sandbox, containers: [...containers, { ...containers[0]!, id: 'other' }] };
  };
  const { fake, items } = await watching({ others: { a: two('CONTAINER_RUNNING') } });
  await relisted(items);
  fake.emit(withStatuses('CONTAINER_STOPPED_EVENT', 'container-a', two('CONTAINER_EXITED')));
  await eventually(() => reported(items, 'a').length === 2);
  await sleep(100);
  expect(reported(items, 'a').slice(1)).toMatchObject([{ status: { id: 'container-a', state: 'CONTAINER_EXITED' } }]);
});

it('an event with statuses that answers a call of our own saves the calls that read', async () => {
  const { fake, items, ports } = await watching({});
  await relisted(items);
  const pod = fakePod('a');
  const says = (type: string, id: string, reply: object) => async () => {
    fake.emit(withStatuses(type, id, pod));
    await sleep(20);
    return reply;
  };
  fake.handlers.RunPodSandbox = says('CONTAINER_STARTED_EVENT', 'sandbox-a', { pod_sandbox_id: 'sandbox-a' });
  fake.handlers.CreateContainer = says('CONTAINER_CREATED_EVENT', 'container-a', { container_id: 'container-a' });
  fake.handlers.StartContainer = says('CONTAINER_STARTED_EVENT', 'container-a', {});
  const metadata = { name: 'a', uid: 'a', namespace: 'default', attempt: 0 };
  const made = await ports['cri.runPodSandbox']({ ...callOf, input: { config: { metadata }, runtimeHandler: '' } });
  expect(made.status).toMatchObject({ id: 'sandbox-a', state: 'SANDBOX_READY' });
  const input = { podSandboxId: 'sandbox-a', config: {}, sandboxConfig: { metadata } } as const;
  await ports['cri.createContainer']({ ...callOf, input });
  const begun = await ports['cri.startContainer']({ ...callOf, input: { containerId: 'container-a' } });
  expect(begun.status).toMatchObject({ id: 'container-a', state: 'CONTAINER_RUNNING' });
  await sleep(200);
  expect(fake.calls.slice(2)).toEqual(['RunPodSandbox', 'CreateContainer', 'StartContainer']);
  expect(reported(items, 'a')).toEqual([]);
});

it('a container that ends before the answer to its start is there has ended in the answer, too', async () => {
  const { fake, items, ports } = await watching({});
  const pod = fakePod('a');
  fake.pods.set('a', pod);
  fake.emit(withStatuses('CONTAINER_CREATED_EVENT', 'container-a', pod));
  await relisted(items);
  fake.handlers.StartContainer = async () => {
    fake.emit(withStatuses('CONTAINER_STARTED_EVENT', 'container-a', pod));
    const [ended] = pod.containers;
    const over = { ...pod, containers: [{ ...ended!, state: 'CONTAINER_EXITED' as const, exit_code: 5 }] };
    fake.emit(withStatuses('CONTAINER_STOPPED_EVENT', 'container-a', over));
    await sleep(20);
    return {};
  };
  const begun = await ports['cri.startContainer']({ ...callOf, input: { containerId: 'container-a' } });
  expect(begun.status).toMatchObject({ id: 'container-a', state: 'CONTAINER_EXITED', exit_code: 5 });
});

it('a sandbox that was there already shows nothing of its containers: its pod has to be inspected', async () => {
  const { fake, items, ports } = await watching({});
  await relisted(items);
  const metadata = { name: 'a', uid: 'a', namespace: 'default', attempt: 0 };
  const { sandbox, containers } = fakePod('a');
  fake.pods.set('a', { sandbox: Object.assign(sandbox, { metadata }), containers });
  const input = { config: { metadata }, runtimeHandler: '' };
  const made = await ports['cri.runPodSandbox']({ ...callOf, resume: true, input });
  expect(made).toEqual({ podSandboxId: 'sandbox-a', status: null });
});

it('the events of a removal of our own cause one inspection, when it is done', async () => {
  const { fake, items, ports } = await watching({ pods: ['a'] });
  await relisted(items);
  fake.handlers.RemovePodSandbox = async () => {
    fake.pods.delete('a');
    for (const container_id of ['container-a', 'sandbox-a']) {
      fake.emit({ container_id, container_event_type: 'CONTAINER_DELETED_EVENT' });
    }
    await sleep(100);
    return {};
  };
  const before = fake.count('ListPodSandbox');
  await ports['cri.removePodSandbox']({ ...callOf, input: { podSandboxId: 'sandbox-a' } });
  expect(fake.count('ListPodSandbox')).toBe(before);
  await eventually(() => items.some((item) => item.type === 'runtime.podRemoved' && item.uid === 'a'));
  expect(fake.count('ListPodSandbox')).toBe(before + 1);
});

it('that a container has ended is asked for once, whatever comes after the first event', async () => {
  const { fake, items } = await watching({ pods: ['a'] });
  await relisted(items);
  fake.pods.set('a', fakePod('a', 'CONTAINER_EXITED'));
  fake.emit({ container_id: 'container-a', container_event_type: 'CONTAINER_STOPPED_EVENT' });
  await eventually(() => stateIn(items, 'a') === 'CONTAINER_EXITED');
  const calls = fake.calls.length;
  fake.emit({ container_id: 'container-a', container_event_type: 'CONTAINER_STOPPED_EVENT' });
  await sleep(100);
  expect(fake.calls).toHaveLength(calls);
});

it('a stop of our own shows its end in the answer, and is not published beside it', async () => {
  const { fake, items, ports } = await watching({ pods: ['a'] });
  await relisted(items);
  fake.handlers.StopContainer = async () => {
    fake.pods.set('a', fakePod('a', 'CONTAINER_EXITED'));
    fake.emit({ container_id: 'container-a', container_event_type: 'CONTAINER_STOPPED_EVENT' });
    return {};
  };
  const input = { containerId: 'container-a', timeoutSeconds: 1 };
  const { status } = await ports['cri.stopContainer']({ ...callOf, input });
  expect(status).toMatchObject({ id: 'container-a', state: 'CONTAINER_EXITED' });
  await sleep(100);
  expect(reported(items, 'a')).toHaveLength(1);
});

it('without events the relist finds all changes', async () => {
  const { fake, items } = await watching({ pods: ['a', 'b'], relistPeriodMs: 20, streamsEvents: false });
  await relisted(items);
  fake.pods.set('a', fakePod('a', 'CONTAINER_EXITED'));
  fake.pods.delete('b');
  fake.pods.set('c', fakePod('c'));
  await eventually(() => reported(items, 'a').length === 2 && reported(items, 'c').length === 1);
  await eventually(() => items.some((item) => item.type === 'runtime.podRemoved' && item.uid === 'b'));
});

it('failing and working relists are said when they change, and what was missed is found', async () => {
  const { fake, items } = await watching({ pods: ['a'], relistPeriodMs: 20 });
  await relisted(items);
  fake.handlers.ListPodSandbox = () => {
    throw new Refusal(grpc.status.UNAVAILABLE, 'restarting');
  };
  await eventually(() => types(items).includes('runtime.relistFailing'));
  await new Promise((resolve) => setTimeout(resolve, 100));
  delete fake.handlers.ListPodSandbox;
  fake.pods.set('a', fakePod('a', 'CONTAINER_EXITED'));
  await eventually(() => reported(items, 'a').length === 2);
  expect(types(items).filter((type) => type.startsWith('runtime.relist'))).toEqual([
    'runtime.relisted',
    'runtime.relistFailing',
    'runtime.relistWorking',
  ]);
});

it('a runtime that starts after us is found', async () => {
  const { fake, items } = await watching({ pods: ['a'], relistPeriodMs: 50, listening: false });
  await eventually(() => types(items).includes('runtime.relistFailing'));
  expect(types(items)).not.toContain('runtime.relisted');
  await fake.listen();
  await relisted(items);
  expect(reported(items, 'a')).toHaveLength(1);
});

it('a broken event stream is warned of once and opened again', async () => {
  const { fake, items, warnings } = await watching({ pods: ['a'] });
  await relisted(items);
  await eventually(() => fake.listeners === 1);
  fake.breakEventStreams();
  await eventually(() => fake.listeners === 1);
  fake.pods.set('a', fakePod('a', 'CONTAINER_EXITED'));
  fake.emit({ container_id: 'container-a', container_event_type: 'CONTAINER_STOPPED_EVENT' });
  await eventually(() => reported(items, 'a').length === 2);
  expect(warnings).toEqual([expect.stringContaining('stream broken')]);
});

it('a list with unknown enums, missing metadata and foreign entries is read for what it says', async () => {
  const odd = { id: 'odd', state: 9, created_at: '1', labels: fakePod('a').sandbox.labels, exit_code: -1 };
  const { items } = await watching({
    handlers: {
      ListPodSandbox: () => ({ items: [{ id: 'foreign' }, {}] }),
      ListContainers: () => ({ containers: [odd, { id: 'foreign', labels: { app: 'x' } }, {}] }),
      ContainerStatus: () => ({ status: odd }),
    },
  });
  await relisted(items);
  expect(items.at(-1)).toEqual({ type: 'runtime.relisted', uids: ['a'] });
  expect(reported(items, 'a')[0]?.status).toMatchObject({
    containers: [{ state: 'CONTAINER_UNKNOWN', exit_code: -1 }],
  });
});

it('an idle node is silent', async () => {
  const { fake, items } = await watching({ pods: ['a', 'b'], relistPeriodMs: 10 });
  await relisted(items);
  const count = items.length;
  const inspections = fake.count('ContainerStatus');
  await eventually(() => fake.count('ListContainers') > 4);
  expect(items).toHaveLength(count);
  expect(fake.count('ContainerStatus')).toBe(inspections);
});
