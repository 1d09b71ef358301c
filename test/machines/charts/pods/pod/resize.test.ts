/** In-place resize: proves R1 to R3 of `pod-resize.ts`, with the recorded events and conditions. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { changesOf, resizeSteps } from '../../../../../src/machines/charts/pods/pod/resize-policy.ts';
import type { Pod, ResourceRequirements } from '../../../../../src/machines/model/api/pod.ts';
import type { Allocation } from '../../../../../src/machines/model/operations/grants.ts';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { apiPod, bootCountingNode, removePod, sendPods } from '../../../../support/counting-node.ts';
import { manifest, settings as nodeSettings, PodsNode } from '../../../../support/pods-node.ts';
import { container, pod } from '../support.ts';

/** The number of behaviors before `resizesPendingAsKubelet`. */
const BEFORE = 29;
const GOLDEN = join(import.meta.dirname, '../../../../golden/pods/cases');

let node: PodsNode;
const boot = (more: Partial<NodeSettings> = {}): PodsNode => (node = bootCountingNode(more));

type Policy = { readonly resourceName: string; readonly restartPolicy: string };

const asking = (
  uid: string,
  generation: number,
  resources: ResourceRequirements,
  resizePolicy: readonly Policy[] = [],
): Pod => apiPod(uid, { containers: [{ name: 'c', image: 'app:1', resources, resizePolicy }] }, generation);

const send = (op: 'ADD' | 'UPDATE', ...pods: Pod[]) => sendPods(node, op, ...pods);
const running = (uid: string) => () => node.phase(uid) === 'Running';
const conditions = (uid: string) =>
  (node.status(uid)?.conditions ?? []).filter(({ type }) => type.startsWith('PodResize'));
const resizeEvents = () => node.events().filter((text) => text.startsWith('Resize'));
const isCalm = (uid: string) => () =>
  conditions(uid).length === 0 && resizeEvents().at(-1)?.startsWith('ResizeCompleted');

/** The recorded kubelet's events about resizes; numbers that depend on other pods are left out as in the recording. */
function recorded(name: string): string[] {
  const lines = readFileSync(join(GOLDEN, name, 'api.ndjson'), 'utf8')
    .trim()
    .split('\n');
  return lines
    .map((line) => JSON.parse(line).body)
    .filter(({ reason = '' }) => reason.startsWith('Resize'))
    .map(({ reason, message }) => `${reason}: ${message}`);
}

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('more of what the node has', () => {
  it('is given to the running container, its pod first, and nothing is stopped', () => {
    boot();
    send('ADD', asking('p', 1, { requests: { cpu: '100m' }, limits: { cpu: '200m', memory: '64Mi' } }));
    node.until('Running', running('p'));
    send('UPDATE', asking('p', 2, { requests: { cpu: '150m' }, limits: { cpu: '300m', memory: '128Mi' } }));
    expect(conditions('p')).toMatchObject([{ type: 'PodResizeInProgress', status: 'True', observedGeneration: 2 }]);
    node.until('done', () => isCalm('p')() === true);
    expect(node.world.resizes).toMatchObject([
      { linux: { cpu_quota: '20000', cpu_shares: '102', memory_limit_in_bytes: '134217728' } },
      { linux: { cpu_quota: '30000', cpu_shares: '153', memory_limit_in_bytes: '134217728' } },
    ]);
    expect(node.world.groups.get('/kubepods/burstable/podp')).toMatchObject({
      cpuShares: '153',
      cpuQuotaUs: '30000',
      memoryBytes: '134217728',
    });
    expect(node.world.runtime.started).toHaveLength(1);
    expect(node.world.callsOf('cri.stopContainer')).toEqual([]);
    const order = node.world.calls.map(({ name }) => name).filter((name) => /update|memoryUsage/i.test(name));
    const held = ['cri.updatePodSandboxResources', 'cgroup.update'];
    expect(order).toEqual([...held, 'cri.updateContainerResources', ...held, ...held, 'cri.updateContainerResources']);
  });

  it('is had as it was recorded when it has to wait for another pod', () => {
    boot();
    const limits = { cpu: '1500m' };
    send('ADD', asking('filler', 1, { requests: { cpu: '1200m' }, limits: { cpu: '1200m' } }));
    send('ADD', asking('p', 1, { requests: { cpu: '100m' }, limits }));
    node.until('Running', running('p'));
    send('UPDATE', asking('p', 2, { requests: { cpu: '1' }, limits }));
    const message = "Node didn't have enough resource: cpu, requested: 1000, used: 1200, capacity: 2000";
    expect(conditions('p')).toMatchObject([
      { type: 'PodResizePending', status: 'True', reason: 'Deferred', message, observedGeneration: 2 },
    ]);
    expect(node.status('p')?.allocatedResources).toEqual({ cpu: '100m' });
    node.run(2_000);
    expect(node.world.resizes).toEqual([]);
    removePod(node, 'filler');
    node.until('done', () => isCalm('p')() === true);
    expect(node.status('p')?.allocatedResources).toEqual({ cpu: '1' });
    expect(resizeEvents()).toEqual(recorded('resize-deferred').map((text) => text.replace('<n>', '1200')));
  });
});

describe('a resize that stays pending', () => {
  const filler = (uid: string, cpu: string) => asking(uid, 1, { requests: { cpu } });
  const pending = () => conditions('p')[0]!;
  const deferred = () => resizeEvents().filter((text) => text.startsWith('ResizeDeferred'));
  function bootPending(more: Partial<NodeSettings> = {}): void {
    boot(more);
    send('ADD', filler('large', '900m'), filler('small', '300m'), asking('p', 1, { requests: { cpu: '100m' } }));
    node.until('Running', running('p'));
    send('UPDATE', asking('p', 2, { requests: { cpu: '1500m' } }));
    node.run(5_000);
    removePod(node, 'small');
    node.until('less is used', () => pending().message?.includes('used: 900') === true);
  }

  it('is an event once, whatever the node has left; its condition has the time of its reason', () => {
    bootPending({ cgroupVersion: 2, swapControllerAvailable: true, limitedSwapBytes: '1000000000' });
    expect(deferred()).toHaveLength(1);
    const { lastProbeTime, lastTransitionTime } = pending();
    expect(Date.parse(lastProbeTime!)).toBeGreaterThan(Date.parse(lastTransitionTime!));
    send('UPDATE', asking('p', 3, { requests: { cpu: '1400m' } }));
    expect(deferred()).toHaveLength(2);
    expect(pending()).toMatchObject({ reason: 'Deferred', observedGeneration: 3, lastTransitionTime });
    send('UPDATE', asking('p', 4, { requests: { cpu: '1400m', memory: '1Mi' } }));
    expect(resizeEvents().at(-1)).toMatch(/^ResizeInfeasible/);
    expect(Date.parse(pending().lastTransitionTime!)).toBeGreaterThan(Date.parse(lastTransitionTime!));
  });

  it('is no event again after a restart of the agent', () => {
    boot();
    const published = { type: 'PodResizePending', status: 'True', reason: 'Deferred', observedGeneration: 2 };
    send('ADD', filler('large', '1200m'), asking('p', 1, { requests: { cpu: '100m' } }));
    node.until('Running', running('p'));
    const waiting = asking('p', 2, { requests: { cpu: '1500m' } });
    send('UPDATE', { ...waiting, status: { phase: 'Running', conditions: [published] } });
    expect(pending().reason).toBe('Deferred');
    expect(deferred()).toEqual([]);
  });

  it('of an earlier node was an event for each message', () => {
    bootPending({ behavior: BEFORE });
    expect(deferred()).toHaveLength(2);
    expect(pending().lastProbeTime).toBe(pending().lastTransitionTime);
  });
});

describe('room for a resize', () => {
  /** The number of behaviors before `resizesJudgedAsKubelet`. */
  const RELEASED = 33;
  const HIGHEST = 2_000_000_000;
  const withPriority = ({ spec, ...rest }: Pod): Pod => ({ ...rest, spec: { ...spec, priority: HIGHEST } });
  function bootFull(wanted: Pod, more: Partial<NodeSettings> = {}): void {
    boot(more);
    const { priority = 0 } = wanted.spec;
    const small = asking('p', 1, { requests: { cpu: '100m' } });
    send('ADD', asking('large', 1, { requests: { cpu: '1500m' } }), priority === 0 ? small : withPriority(small));
    node.until('Running', () => running('p')() && running('large')());
    send('UPDATE', wanted);
  }
  const wanted = asking('p', 2, { requests: { cpu: '1' } });

  it.each([
    ['is used as soon as another pod gives some back, as by the kubelet', {}, '1'],
    ['waited for three minutes before', { behavior: RELEASED }, '100m'],
  ])('%s', (_, more, cpu) => {
    bootFull(wanted, more);
    expect(conditions('p')).toMatchObject([{ type: 'PodResizePending', reason: 'Deferred' }]);
    send('UPDATE', asking('large', 2, { requests: { cpu: '900m' } }));
    node.run(20_000);
    expect(node.status('p')?.allocatedResources).toEqual({ cpu });
  });

  it('is made for a critical pod by preempting others, as by the kubelet', () => {
    bootFull(withPriority(wanted));
    node.until('done', () => isCalm('p')() === true);
    expect(node.status('large')).toMatchObject({ phase: 'Failed', reason: 'Preempting' });
    expect(node.events().filter((text) => text.startsWith('Preempting'))).toHaveLength(1);
    expect(node.status('p')?.allocatedResources).toEqual({ cpu: '1' });
    expect(resizeEvents().map((text) => text.split(':')[0])).toEqual(['ResizeStarted', 'ResizeCompleted']);
  });

  it('is not made for a critical pod that asks for more than the node has, and that may be had later', () => {
    bootFull(withPriority(asking('p', 2, { requests: { cpu: '90' } })));
    const why = '[(res: cpu, q: 88000), ]';
    expect(conditions('p')).toMatchObject([{ reason: 'Deferred', message: expect.stringContaining(why) }]);
    expect(node.phase('large')).toBe('Running');
  });

  it('that no node has made a resize infeasible before', () => {
    bootFull(asking('p', 2, { requests: { cpu: '90' } }), { behavior: RELEASED });
    expect(conditions('p')).toMatchObject([
      { reason: 'Infeasible', message: expect.stringContaining('capacity: 2000') },
    ]);
  });
});

describe('a container whose policy wants a new instance', () => {
  it('is not waited for by a pod that ends, and no condition says so when it has ended', () => {
    boot();
    const resources = { requests: { cpu: '100m' } };
    send('ADD', asking('p', 1, resources));
    node.until('Running', running('p'));
    send('UPDATE', asking('p', 2, { requests: { cpu: '90' } }));
    const waits = { type: 'PodResizePending', reason: 'Deferred', observedGeneration: 2 };
    expect(conditions('p')).toMatchObject([waits]);
    const { metadata, ...rest } = asking('p', 3, { requests: { cpu: '90' } });
    send('UPDATE', { ...rest, metadata: { ...metadata, deletionTimestamp: '2023-11-14T22:13:30Z' } });
    expect(conditions('p')).toMatchObject([waits]);
    node.world.runtime.exit(node.world.runtime.running('c')!, 0);
    node.until('ended', () => node.phase('p') === 'Succeeded');
    expect(conditions('p')).toEqual([]);
  });

  it('restarts with the granted resources, as recorded', () => {
    boot();
    const policy = [{ resourceName: 'memory', restartPolicy: 'RestartContainer' }];
    const with64 = { requests: { cpu: '100m', memory: '32Mi' }, limits: { cpu: '200m', memory: '64Mi' } };
    const with128 = { ...with64, limits: { cpu: '200m', memory: '128Mi' } };
    send('ADD', asking('p', 1, with64, policy));
    node.until('Running', running('p'));
    send('UPDATE', asking('p', 2, with128, policy));
    node.until('done', () => isCalm('p')() === true);
    expect(node.world.resizes).toEqual([]);
    const newest = [...node.world.runtime.containers.values()].at(-1);
    expect(newest?.config.linux?.resources?.memory_limit_in_bytes).toBe('134217728');
    expect(node.status('p')?.containerStatuses?.[0]).toMatchObject({ restartCount: 1 });
    expect(node.events()).toContain('Killing: Container c resize requires restart');
    expect(resizeEvents()).toEqual(recorded('resize-memory-restart'));
  });
});

describe('less', () => {
  const much = { requests: { memory: '64Mi' }, limits: { memory: '128Mi' } };
  const little = { requests: { memory: '32Mi' }, limits: { memory: '64Mi' } };

  it('than what is in use is not given, and that is said until it fits', () => {
    boot();
    send('ADD', asking('p', 1, much));
    node.until('Running', running('p'));
    node.world.memoryUsage = '100000000';
    send('UPDATE', asking('p', 2, little));
    const below = (whose: string) =>
      `attempting to set ${whose} memory limit (67108864) below current usage (100000000)`;
    const message = `cannot decrease memory limits: [${below('pod')}, ${below('container "c"')}]`;
    node.until('said', () => conditions('p')[0]?.message === message);
    expect(conditions('p')).toMatchObject([{ type: 'PodResizeInProgress', reason: 'Error' }]);
    const requests = () => node.status('p')?.containerStatuses?.[0]?.resources?.requests;
    expect(requests()).toEqual({ memory: '64Mi' });
    node.world.memoryUsage = '1000';
    node.until('done', () => isCalm('p')() === true);
    expect(requests()).toEqual({ memory: '32Mi' });
    expect(node.world.groups.get('/kubepods/burstable/podp')).toMatchObject({ memoryBytes: '67108864' });
    expect(resizeEvents().map((text) => text.split(':')[0])).toEqual([
      'ResizeStarted',
      'ResizeError',
      'ResizeCompleted',
    ]);
  });

  it('is made so by the next agent when this one ends half-way', () => {
    boot();
    node.world.setManifests([]);
    send('ADD', asking('p', 1, much));
    node.until('Running', running('p'));
    node.world.fault = (name) => (name === 'cri.updateContainerResources' ? { hangs: true } : undefined);
    send('UPDATE', asking('p', 2, little));
    node.run(3_000);
    expect(node.world.softState.resizes).toMatchObject({ p: { c: much } });
    node = node.restart();
    node.world.fault = () => undefined;
    node.run(1);
    node.kernel.dispatch('kubelet/syncLoop', { type: 'config.sourceReady', source: 'api', uids: ['p'] }, 'test');
    node.run(3);
    send('ADD', asking('p', 2, little));
    node.until('done', () => node.world.resizes.length === 1);
    expect(node.world.runtime.started).toHaveLength(1);
    node.run(3_000);
    expect(node.world.softState.resizes ?? {}).toEqual({});
  });
});

describe('a call that fails', () => {
  it('is tried again, and the error is in the condition meanwhile', () => {
    boot();
    node.world.fault = (name, _, nth) =>
      name === 'cri.updateContainerResources' && nth === 0 ? { error: 'device busy' } : undefined;
    send('ADD', asking('p', 1, { requests: { cpu: '100m' } }));
    node.until('Running', running('p'));
    send('UPDATE', asking('p', 2, { requests: { cpu: '200m' } }));
    node.until('said', () => conditions('p')[0]?.message === 'device busy');
    node.until('done', () => isCalm('p')() === true);
    expect(node.world.runtime.started).toHaveLength(1);
  });

  it('is tried again after ten to fifteen seconds, as by the kubelet', () => {
    boot();
    node.world.fault = (name) => (name === 'cri.updateContainerResources' ? { error: 'device busy' } : undefined);
    send('ADD', asking('p', 1, { requests: { cpu: '100m' } }));
    node.until('Running', running('p'));
    send('UPDATE', asking('p', 2, { requests: { cpu: '200m' } }));
    const attempts = () => node.world.callsOf('cri.updateContainerResources').length;
    node.until('the first attempt', () => attempts() === 1);
    node.run(9_900);
    expect(attempts()).toBe(1);
    node.run(5_200);
    expect(attempts()).toBe(2);
  });
});

describe('a runtime that is told what the pod has', () => {
  const resize = (fault: PodsNode['world']['fault']) => {
    boot();
    send('ADD', asking('p', 1, { requests: { cpu: '100m' } }));
    node.until('Running', running('p'));
    node.world.fault = fault;
    send('UPDATE', asking('p', 2, { requests: { cpu: '200m' } }));
    node.run(2_000);
  };
  const told = () =>
    node.sink.records.flatMap((record) =>
      record.k === 'effect' && record.name === 'cri.updatePodSandboxResources' ? [sharesIn(record.input)] : [],
    );
  const sharesIn = (input: unknown) => (input as { resources: { cpu_shares: string } }).resources.cpu_shares;
  const sharesOf = (uid: string) => node.world.groups.get(`/kubepods/burstable/pod${uid}`)?.cpuShares;

  it('may refuse the resize before anything has changed', () => {
    resize((name) => (name === 'cri.updatePodSandboxResources' ? { error: 'no room' } : undefined));
    const [condition] = conditions('p');
    expect(condition?.message).toMatch(
      /^failed to notify runtime for UpdatePodSandboxResources \(resource=cpu\); resize rejected: updatePodSandboxResources failed for sanboxID "[^"]+": no room$/,
    );
    expect(condition).toMatchObject({ type: 'PodResizeInProgress', reason: 'Error' });
    expect(sharesOf('p')).toBe('102');
    expect(node.world.resizes).toEqual([]);
    node.world.fault = () => undefined;
    node.until('done', () => isCalm('p')() === true);
    expect(sharesOf('p')).toBe('204');
  });

  it.each([
    ['UNIMPLEMENTED', 'unknown method UpdatePodSandboxResources'],
    ['UNKNOWN', 'rpc error: code = Unknown desc = not implemented yet'],
  ])('does not refuse it by not knowing the request: %s', (code, error) => {
    resize((name) => (name === 'cri.updatePodSandboxResources' ? { error, code } : undefined));
    expect(isCalm('p')()).toBe(true);
    expect(sharesOf('p')).toBe('204');
  });

  it('is told the former resources if the cgroup does not change', () => {
    resize((name) => (name === 'cgroup.update' ? { error: 'device busy' } : undefined));
    expect(conditions('p')).toMatchObject([{ reason: 'Error', message: 'device busy' }]);
    expect(told()).toEqual(['204', '102']);
  });
});

it('what may swap keeps its memory, unless it restarts with it', () => {
  boot({ limitedSwapBytes: '1000000000', swapControllerAvailable: true, cgroupVersion: 2 });
  const policy = [{ resourceName: 'memory', restartPolicy: 'RestartContainer' }];
  const [before, after] = ['32Mi', '48Mi'].map((memory) => ({ requests: { memory }, limits: { memory: '64Mi' } }));
  send('ADD', asking('p', 1, before!), asking('anew', 1, before!, policy));
  node.until('Running', () => running('p')() && running('anew')());
  send('UPDATE', asking('p', 2, after!), asking('anew', 2, after!, policy));
  node.until('done', () => isCalm('anew')() === true);
  const message = 'In-place resize of containers with swap is not supported.';
  expect(conditions('p')).toMatchObject([{ type: 'PodResizePending', reason: 'Infeasible', message }]);
  expect(node.status('anew')?.containerStatuses?.[0]).toMatchObject({ restartCount: 1 });
});

it('a static pod keeps its resources, and why is in its status', () => {
  boot();
  const uid = 'fixed';
  const of = (cpu: string) =>
    manifest({ uid, containers: [{ name: 'c', image: 'app:1', resources: { requests: { cpu } } }] });
  node.world.setManifests([of('100m')]);
  node.until('Running', running(uid));
  const known = (node.kernel.snapshotOf(`kubelet/pods/pod-${uid}`) as never as { context: { asked: Pod } }).context
    .asked;
  const containers = [{ ...known.spec.containers[0]!, resources: { requests: { cpu: '200m' } } }];
  send('UPDATE', { ...known, spec: { ...known.spec, containers } });
  expect(conditions(uid)).toMatchObject([
    { type: 'PodResizePending', reason: 'Infeasible', message: 'In-place resize of static-pods is not supported' },
  ]);
  expect(node.world.resizes).toEqual([]);
});

it('other containers in the file of a static pod are no resize', () => {
  boot();
  const uid = 'fixed';
  const of = (...names: string[]) =>
    manifest({
      uid,
      containers: names.map((name) => ({ name, image: 'app:1', resources: { requests: { cpu: '100m' } } })),
    });
  node.world.setManifests([of('c')]);
  node.until('Running', running(uid));
  node.world.setManifests([of('c', 'added')]);
  node.until('the other one', () => node.world.runtime.running('added') !== undefined);
  node.run(3_000);
  expect(conditions(uid)).toEqual([]);
  expect(resizeEvents()).toEqual([]);
  expect(node.world.resizes).toEqual([]);
});

describe('the plan', () => {
  const of = (resources: ResourceRequirements) => pod({ containers: [container({ resources })] });
  const small = { requests: { cpu: '100m' }, limits: { cpu: '200m', memory: '64Mi' } };
  const large = { requests: { cpu: '100m' }, limits: { cpu: '400m', memory: '128Mi' } };

  it('is only about what differs', () => {
    expect(changesOf(of(small), { c: { ...small, limits: { cpu: '0.2', memory: '65536Ki' } } })).toEqual([]);
    expect(changesOf(of(large), { c: small })).toEqual([{ name: 'c', restarts: false, resources: ['cpu', 'memory'] }]);
  });

  const stepsOf = (whole: Pod, actuated: Allocation, settings: Partial<NodeSettings> = {}) =>
    resizeSteps(whole, actuated, { ...nodeSettings, cgroupVersion: 1, ...settings }, changesOf(whole, actuated)).map(
      (step) => ('name' in step ? { [step.name]: step.resources } : { [step.kind]: step.resources }),
    );
  const sandboxUpdate = (quota: string, shares: string, bytes: string) => ({
    sandbox: { cpu_period: '100000', cpu_quota: quota, cpu_shares: shares, memory_limit_in_bytes: bytes },
  });
  const [MEMORY_64, MEMORY_128, NO_LIMIT] = ['67108864', '134217728', '9223372036854771712'];

  it('raises the pod before its container, memory before CPU, limits before requests', () => {
    const more = { requests: { cpu: '150m' }, limits: { cpu: '300m', memory: '128Mi' } };
    expect(stepsOf(of(more), { c: small })).toMatchObject([
      sandboxUpdate('20000', '102', MEMORY_128),
      { group: { memoryBytes: MEMORY_128 } },
      { c: { memory_limit_in_bytes: MEMORY_128, cpu_quota: '20000', cpu_shares: '102' } },
      sandboxUpdate('30000', '102', MEMORY_128),
      { group: { cpuQuotaUs: '30000', cpuPeriodUs: '100000' } },
      sandboxUpdate('30000', '153', MEMORY_128),
      { group: { cpuShares: '153' } },
      { c: { memory_limit_in_bytes: MEMORY_128, cpu_quota: '30000', cpu_shares: '153' } },
    ]);
  });

  it('lowers the container before its pod, and requests before limits', () => {
    const less = { requests: { cpu: '50m' }, limits: { cpu: '200m', memory: '64Mi' } };
    expect(stepsOf(of(less), { c: large })).toMatchObject([
      { c: { memory_limit_in_bytes: MEMORY_64, cpu_quota: '40000' } },
      sandboxUpdate('40000', '102', MEMORY_64),
      { group: { memoryBytes: MEMORY_64 } },
      { c: { memory_limit_in_bytes: MEMORY_64, cpu_quota: '20000', cpu_shares: '51' } },
      sandboxUpdate('40000', '51', MEMORY_64),
      { group: { cpuShares: '51' } },
      sandboxUpdate('20000', '51', MEMORY_64),
      { group: { cpuQuotaUs: '20000' } },
    ]);
  });

  it('takes from one container before it gives to another', () => {
    const two = (a: string, b: string) => ({
      a: { limits: { memory: a }, requests: { memory: '1Mi' } },
      b: { limits: { memory: b }, requests: { memory: '1Mi' } },
    });
    const to = two('128Mi', '64Mi');
    const containers = Object.entries(to).map(([name, resources]) => container({ name, resources }));
    expect(stepsOf(pod({ containers }), two('64Mi', '128Mi')).map((step) => Object.keys(step)[0])).toEqual(['b', 'a']);
  });

  it.each<[string, number, string]>([
    ['as the kernel writes it', 1, NO_LIMIT],
    ['as none', 2, '-1'],
  ])('tells the runtime of a pod without a limit of memory %s, in version %i', (_, version, bytes) => {
    const limits = { cpu: '1500m' };
    const steps = stepsOf(
      of({ requests: { cpu: '1' }, limits }),
      { c: { requests: { cpu: '100m' }, limits } },
      { cgroupVersion: version as 1 | 2 },
    );
    expect(steps.slice(0, 2)).toEqual([sandboxUpdate('150000', '1024', bytes), { group: { cpuShares: '1024' } }]);
  });

  it('leaves out what the runtime class costs when it tells the runtime', () => {
    const overhead = { cpu: '100m', memory: '16Mi' };
    const whole = { ...of(large), spec: { ...of(large).spec, overhead } };
    expect(stepsOf(whole, { c: { ...large, limits: { cpu: '200m', memory: '128Mi' } } })).toMatchObject([
      sandboxUpdate('40000', '102', MEMORY_128),
      { group: { cpuQuotaUs: '50000' } },
      { c: { cpu_quota: '40000' } },
    ]);
  });

  it('ends without the limits that are gone', () => {
    expect(stepsOf(of({ requests: { cpu: '100m' } }), { c: small })).toMatchObject([
      sandboxUpdate('20000', '102', NO_LIMIT),
      { group: { memoryBytes: '-1' } },
      { c: { cpu_quota: '20000' } },
      sandboxUpdate('-1', '102', NO_LIMIT),
      { group: { cpuQuotaUs: '-1' } },
      { c: { cpu_shares: '102' } },
    ]);
  });
});
