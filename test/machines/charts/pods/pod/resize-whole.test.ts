/** In-place resize of whole pods, and to less memory than is in use: proves R2 and R4 of `pod-resize.ts`. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  changesOf,
  memoryDecreases,
  memoryProblem,
  resizeSteps,
} from '../../../../../src/machines/charts/pods/pod/resize-policy.ts';
import type { Container, Pod, ResourceRequirements } from '../../../../../src/machines/model/api/pod.ts';
import type { NodeSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { apiPod, bootCountingNode, sendPods } from '../../../../support/counting-node.ts';
import { settings as nodeSettings, type PodsNode } from '../../../../support/pods-node.ts';
import { container, nodeBefore, pod } from '../support.ts';

const MI = 1_048_576;
const GROUP = '/kubepods/burstable/podp';
const RESTART = [{ resourceName: 'memory', restartPolicy: 'RestartContainer' }];

const amounts = (cpu: string, memory: string) => ({
  requests: { cpu: '50m', memory: '50Mi' },
  limits: { cpu, memory },
});
const [small, large] = [amounts('60m', '60Mi'), amounts('70m', '80Mi')];

describe('the plan for a pod as a whole', () => {
  const node = { ...nodeSettings, cgroupVersion: 1 as const };
  const of = (resources: ResourceRequirements, ...containers: Container[]) => pod({ resources, containers });
  const own = { requests: { cpu: '10m' }, limits: { cpu: '20m', memory: '30Mi' } };

  it('changes nothing of a container that has limits of its own', () => {
    expect(changesOf(of(large, container({ resources: own })), { '': small, c: own })).toEqual([]);
  });

  it('changes a container that has the limits of its pod, by the policy of the container', () => {
    const actuated = { '': small, c: {} };
    expect(changesOf(of(large, container()), actuated)).toEqual([
      { name: 'c', restarts: false, resources: ['cpu', 'memory'] },
    ]);
    expect(changesOf(of(large, container({ resizePolicy: RESTART })), actuated)).toMatchObject([{ restarts: true }]);
  });

  it('is made so although no container changes', () => {
    const whole = of(large, container({ resources: own }));
    expect(resizeSteps(whole, { '': small, c: own }, node, []).filter(({ kind }) => kind === 'group')).toMatchObject([
      { kind: 'group', resources: { memoryBytes: String(80 * MI) } },
      { kind: 'group', resources: { cpuQuotaUs: '7000', cpuPeriodUs: '100000' } },
    ]);
  });

  it('gives a container that asks for no CPU the least shares, as upstream does in an update', () => {
    const actuated = { '': small, c: {} };
    const whole = of(large, container());
    const steps = resizeSteps(whole, actuated, node, changesOf(whole, actuated));
    const shares = steps.flatMap((step) => (step.kind === 'container' ? [step.resources.cpu_shares] : []));
    expect(shares).toEqual(['2', '2']);
  });

  it.each([
    ['raises the pod before', small, large, ['sandbox', 'group', 'c', 'sandbox', 'group', 'c']],
    ['lowers the pod after', large, small, ['c', 'sandbox', 'group', 'c', 'sandbox', 'group']],
  ])('%s the container that has its limits, memory before CPU', (_, before, after, order) => {
    const actuated = { '': before, c: {} };
    const whole = of(after, container());
    const steps = resizeSteps(whole, actuated, node, changesOf(whole, actuated));
    expect(steps.map((step) => ('name' in step ? step.name : step.kind))).toEqual(order);
    const quota = ({ limits }: typeof small) => `${Number.parseInt(limits.cpu, 10)}00`;
    const bytes = String(Number.parseInt(after.limits.memory, 10) * MI);
    expect(steps.filter(({ kind }) => kind === 'container')).toMatchObject([
      { resources: { memory_limit_in_bytes: bytes, cpu_quota: quota(before) } },
      { resources: { memory_limit_in_bytes: bytes, cpu_quota: quota(after) } },
    ]);
  });
});

describe('memory that is in use', () => {
  const limited = (name: string, memory: string) => container({ name, resources: { limits: { memory } } });
  const had = { a: { limits: { memory: '128Mi' } }, b: { limits: { memory: '64Mi' } } };
  const [a, b] = ['8Mi', '256Mi'];
  const whole = pod({ containers: [limited('a', a), limited('b', b)] });
  const decreases = memoryDecreases(whole, had, nodeSettings, changesOf(whole, had));

  it('is asked about only where a limit becomes less', () => {
    expect(decreases).toEqual({ podBytes: null, containers: [{ name: 'a', bytes: String(8 * MI) }] });
    expect(memoryDecreases(whole, { a: {}, b: {} }, nodeSettings, changesOf(whole, { a: {}, b: {} }))).toEqual({
      podBytes: String(264 * MI),
      containers: [
        { name: 'a', bytes: String(8 * MI) },
        { name: 'b', bytes: String(256 * MI) },
      ],
    });
  });

  it('refuses, as upstream says it, what is not above it', () => {
    const mine = `attempting to set container "a" memory limit (8388608) below current usage (8388608)`;
    const used = { podBytes: '8388608', containers: { a: '8388608' } };
    expect(memoryProblem(decreases, used)).toBe(`cannot decrease memory limits: ${mine}`);
    expect(memoryProblem({ ...decreases, podBytes: '8388608' }, used)).toBe(
      `cannot decrease memory limits: [${mine.replace('container "a"', 'pod')}, ${mine}]`,
    );
    expect(memoryProblem(decreases, { podBytes: '1', containers: { a: '8388607' } })).toBe('');
    expect(memoryProblem(decreases, { podBytes: '1', containers: {} })).toBe('');
  });
});

describe('a pod that runs', () => {
  let node: PodsNode;
  beforeEach(() => void (node = bootCountingNode()));
  afterEach(() => {
    expect(node.crashes()).toEqual([]);
    node.assertReplays();
  });

  const asking = (generation: number, resources: ResourceRequirements, more: Partial<Container> = {}): Pod =>
    apiPod('p', { containers: [{ name: 'c', image: 'app:1', ...more }], resources }, generation);
  const alone = (generation: number, memory: string): Pod =>
    apiPod(
      'p',
      { containers: [{ name: 'c', image: 'app:1', resources: { limits: { memory } }, resizePolicy: RESTART }] },
      generation,
    );
  const run = (first: Pod, second: Pod, meanwhile = () => {}) => {
    sendPods(node, 'ADD', first);
    node.until('Running', () => node.phase('p') === 'Running');
    meanwhile();
    sendPods(node, 'UPDATE', second);
    node.until('done', () => resizeEvents().at(-1)?.startsWith('ResizeCompleted') === true);
  };
  const resizeEvents = () => node.events().filter((text) => text.startsWith('Resize'));
  const reasons = () => resizeEvents().map((text) => text.split(':')[0]);
  const restarts = () => node.status('p')?.containerStatuses?.[0]?.restartCount;

  it('gets what it asks for as a whole, and its container with it', () => {
    run(asking(1, small), asking(2, large));
    expect(node.world.groups.get(GROUP)).toMatchObject({ memoryBytes: String(80 * MI), cpuQuotaUs: '7000' });
    expect(node.world.resizes.at(-1)).toMatchObject({
      linux: { memory_limit_in_bytes: String(80 * MI), cpu_quota: '7000' },
    });
    expect([reasons(), restarts()]).toEqual([['ResizeStarted', 'ResizeCompleted'], 0]);
  });

  it('restarts once if the policy of its container requires it, however often the change is tried', () => {
    let failures = 0;
    node.world.fault = (name) => (name === 'cgroup.update' && failures++ < 3 ? { error: 'busy' } : undefined);
    run(asking(1, small, { resizePolicy: RESTART }), asking(2, large, { resizePolicy: RESTART }));
    expect([restarts(), failures > 3]).toEqual([1, true]);
    expect(reasons()).toEqual(['ResizeStarted', 'ResizeError', 'ResizeCompleted']);
  });

  it('gives up memory after the restarting containers have ended', () => {
    const used = () => void (node.world.memoryUsage = node.world.runtime.running('app') ? String(100 * MI) : '0');
    node.world.fault = (name) => {
      if (name === 'cgroup.memoryUsage') used();
      return undefined;
    };
    run(alone(1, '128Mi'), alone(2, '64Mi'));
    expect([restarts(), reasons()]).toEqual([1, ['ResizeStarted', 'ResizeCompleted']]);
    expect(node.world.callsOf('cgroup.memoryUsage')).toHaveLength(1);
  });

  it('is not asked for its memory when it gets more', () => {
    run(asking(1, small), asking(2, large));
    expect(node.world.callsOf('cgroup.memoryUsage')).toEqual([]);
  });

  it('gets back at once what it released without success', () => {
    const first = asking(1, large);
    sendPods(node, 'ADD', first);
    node.until('Running', () => node.phase('p') === 'Running');
    node.world.memoryUsage = String(100 * MI);
    sendPods(node, 'UPDATE', asking(2, small));
    node.until('refused', () => reasons().includes('ResizeError'));
    node.run(20_000);
    sendPods(node, 'UPDATE', asking(3, large));
    node.run(500);
    expect(reasons().at(-1)).toBe('ResizeCompleted');
    expect(node.status('p')?.conditions?.some(({ type }) => type.startsWith('PodResize'))).toBe(false);
  });
});

describe('a change that needs what gates turn off', () => {
  let node: PodsNode;
  const undeclared = ['InPlacePodLevelResourcesVerticalScaling', 'InPlacePodVerticalScalingInitContainers'] as const;
  const asking = (generation: number, whole: ResourceRequirements, ofInit: ResourceRequirements = {}): Pod =>
    apiPod(
      'p',
      {
        initContainers: [{ name: 'i', image: 'app:1', resources: ofInit }],
        containers: [{ name: 'c', image: 'app:1' }],
        resources: whole,
      },
      generation,
    );
  const reports = () => node.events().filter((text) => text.startsWith('FailedNodeDeclaredFeaturesCheck'));
  function change(settings: Partial<NodeSettings>, second: Pod): void {
    node = bootCountingNode(settings);
    node.world.runtime.programs.set('i', [{ runsMs: 10, exitCode: 0 }]);
    sendPods(node, 'ADD', asking(1, small));
    node.until('Running', () => node.phase('p') === 'Running');
    sendPods(node, 'UPDATE', second);
    node.run(5_000);
  }
  afterEach(() => {
    expect(node.crashes()).toEqual([]);
    node.assertReplays();
  });

  it('is an event in the words of the kubelet, and for a whole pod infeasible', () => {
    change({ undeclared }, asking(2, large, { requests: { cpu: '1m' } }));
    const text = 'FailedNodeDeclaredFeaturesCheck: Pod requires node features that are not available: ';
    expect(reports()).toEqual([`${text}${undeclared.join(', ')}`]);
    expect(node.status('p')?.conditions).toContainEqual(
      expect.objectContaining({
        type: 'PodResizePending',
        reason: 'Infeasible',
        message: 'InPlacePodLevelResourcesVerticalScaling is disabled',
      }),
    );
  });

  it.each([
    ['before', { undeclared, behavior: nodeBefore('podDetailsAsKubelet') }],
    ['where the gates are on', {}],
  ])('was none %s', (_, settings) => {
    change(settings, asking(2, large));
    expect(reports()).toEqual([]);
    expect(node.status('p')?.conditions?.filter(({ reason }) => reason === 'Infeasible')).toEqual([]);
  });
});
