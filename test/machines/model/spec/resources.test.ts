/** Tables for resources and the values derived from them: QoS classes, cgroups, shares, OOM scores. */
import { assert, bigInt, property } from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Container, ResourceRequirements } from '../../../../src/machines/model/api/pod.ts';
import { podGroup } from '../../../../src/machines/model/cgroups/pod-cgroup.ts';
import type { NodeSettings } from '../../../../src/machines/model/settings/node-settings.ts';
import { cgroupParent, podQOS } from '../../../../src/machines/model/spec/qos.ts';
import {
  containerResources,
  cpuQuota,
  cpuShares,
  oomScoreAdj,
  podRequests,
  sandboxResources,
} from '../../../../src/machines/model/spec/resources.ts';
import {
  formatBinary,
  formatDecimal,
  milliUnits,
  nanoOf,
  wholeUnits,
} from '../../../../src/machines/model/values/quantity.ts';
import { container, pod } from '../../charts/pods/support.ts';
import { node } from './recordings.ts';

/** The number of behaviors before `groupsAsKubelet`. */
const BEFORE = 34;

describe('quantities', () => {
  it.each([
    ['100m', 1n, 100n],
    ['1.5', 2n, 1500n],
    ['1Ki', 1024n, 1_024_000n],
    ['1n', 1n, 1n],
    ['0', 0n, 0n],
  ])('%s is %s units, %s thousandths', (text, units, milli) => {
    expect(wholeUnits(nanoOf(text))).toBe(units);
    expect(milliUnits(nanoOf(text))).toBe(milli);
  });

  it('refuses what is none', () => expect(() => nanoOf('x')).toThrow('quantity "x": quantities must match'));
});

describe('canonical text', () => {
  it('says the same amount', () => {
    const amounts = bigInt({ min: 0n, max: 2n ** 63n - 1n });
    assert(property(amounts, (amount) => nanoOf(formatDecimal(amount)) === amount));
    assert(property(amounts, (bytes) => wholeUnits(nanoOf(formatBinary(bytes * 10n ** 9n))) === bytes));
  });
});

describe('quality of service', () => {
  const of = (...resources: ResourceRequirements[]): string =>
    podQOS(pod({ containers: resources.map((each, index) => container({ name: `c${index}`, resources: each })) }));
  const guaranteed = { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '1000m', memory: '1024Mi' } };

  it.each([
    ['BestEffort', [{}]],
    ['BestEffort', [{ requests: { cpu: '0' } }]],
    ['BestEffort', [{ limits: { 'ephemeral-storage': '1Gi' } }]],
    ['Burstable', [{ requests: { cpu: '1m' } }]],
    ['Burstable', [guaranteed, {}]],
    ['Burstable', [{ limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '500m' } }]],
    ['Guaranteed', [guaranteed]],
    ['Guaranteed', [guaranteed, { limits: { cpu: '2', memory: '1Gi' } }]],
  ])('%s: %j', (expected, resources) => expect(of(...resources)).toBe(expected));

  it('looks at the whole pod first', () => {
    expect(podQOS(pod({ resources: guaranteed }))).toBe('Guaranteed');
    expect(podQOS(pod({ initContainers: [container({ name: 'i', resources: guaranteed })] }))).toBe('Burstable');
  });
});

describe('cgroup parent', () => {
  const parent = (settings: Partial<NodeSettings>): string =>
    cgroupParent(pod({}, { uid: 'a-b' }), { ...node, cgroupRoot: '/', ...settings });

  it.each([
    [{ cgroupDriver: 'cgroupfs' }, '/kubepods/besteffort/poda-b'],
    [{ cgroupDriver: 'systemd' }, '/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice'],
    [{ cgroupsPerQOS: false }, ''],
    [{ cgroupsPerQOS: false, cgroupRoot: '/own' }, ''],
    [{ cgroupsPerQOS: false, cgroupRoot: '/own', behavior: 38 }, '/own'],
  ] satisfies ReadonlyArray<[Partial<NodeSettings>, string]>)('%j: %s', (settings, expected) =>
    expect(parent(settings)).toBe(expected),
  );
});

describe('resources', () => {
  it.each([
    [0n, 2n],
    [1n, 2n],
    [100n, 102n],
    [1000n, 1024n],
    [1_000_000n, 262_144n],
  ])('%s thousandths of a CPU are %s shares', (milli, shares) => expect(cpuShares(milli)).toBe(shares));

  it.each([
    [0n, 0n],
    [1n, 1000n],
    [500n, 50_000n],
  ])('%s thousandths of a CPU are %s us', (milli, quota) => expect(cpuQuota(milli, 100_000n)).toBe(quota));

  it('asks cgroup v2 to kill a container as one and to keep it out of swap', () => {
    const { cgroupVersion: _, ...rest } = node;
    const limited = container({ resources: { limits: { memory: '1Mi' } } });
    expect(containerResources(pod(), limited, { ...rest, cgroupVersion: 2 })).toMatchObject({
      memory_limit_in_bytes: '1048576',
      unified: { 'memory.oom.group': '1', 'memory.swap.max': '0' },
    });
  });

  /** A container with a quarter of the node's memory gets a quarter of its swap. */
  it.each<[string, ResourceRequirements, Partial<ReturnType<typeof pod>['spec']>, string]>([
    ['a burstable one its share', { requests: { memory: '1Gi' }, limits: { memory: '2Gi' } }, {}, '524288000'],
    ['one without a limit its share', { requests: { memory: '1Gi' } }, {}, '524288000'],
    ['one that asked for no memory none', { requests: { cpu: '1' } }, {}, '0'],
    [
      'one whose limit is its request none',
      { requests: { cpu: '1', memory: '1Gi' }, limits: { memory: '1Gi' } },
      {},
      '0',
    ],
    ['a guaranteed one none', { limits: { cpu: '1', memory: '1Gi' } }, {}, '0'],
    ['one that asked for more than there is none', { requests: { memory: '5Gi' } }, {}, '0'],
    ['a critical one none', { requests: { memory: '1Gi' } }, { priority: 2_000_000_000 }, '0'],
  ])('under LimitedSwap gives %s', (_, resources, change, swap) => {
    const asking = container({ resources });
    const settings: NodeSettings = {
      ...node,
      cgroupVersion: 2,
      swapControllerAvailable: true,
      memoryCapacityBytes: String(4n * 1_024n ** 3n),
      limitedSwapBytes: '2097152000',
    };
    const whole = pod({ ...change, containers: [asking] });
    expect(containerResources(whole, asking, settings).unified).toMatchObject({ 'memory.swap.max': swap });
    const { limitedSwapBytes: _none, ...others } = settings;
    expect(containerResources(whole, asking, others).unified).toMatchObject({ 'memory.swap.max': '0' });
  });

  it('asks nothing of swap where it is not counted', () => {
    const { swapControllerAvailable: _, ...rest } = node;
    const limited = container({ resources: { limits: { memory: '1Mi' } } });
    expect(containerResources(pod(), limited, rest)).not.toHaveProperty('memory_swap_limit_in_bytes');
    expect(containerResources(pod(), limited, { ...rest, cgroupVersion: 2 }).unified).toEqual({
      'memory.oom.group': '1',
    });
  });

  describe('with MemoryQoS', () => {
    const settings = (more: Partial<NodeSettings> = {}): NodeSettings => ({
      ...node,
      cgroupVersion: 2,
      swapControllerAvailable: false,
      allocatable: { memory: '10000000' },
      memoryQoS: { throttlingFactor: 0.9, reserves: true },
      ...more,
    });
    const of = (resources: ResourceRequirements, more: Partial<NodeSettings> = {}): unknown => {
      const own = container({ resources });
      return containerResources(pod({ containers: [own] }), own, settings(more)).unified;
    };
    const KILL = { 'memory.oom.group': '1' };
    const UNPROTECTED = { 'memory.min': '0', 'memory.low': '0' };
    const burstable = { requests: { memory: '1Mi' }, limits: { memory: '2Mi' } };

    it.each<[string, ResourceRequirements, object]>([
      ['one that may burst', burstable, { 'memory.low': '1048576', 'memory.high': '1990656' }],
      ['one without a limit', { requests: { memory: '1Mi' } }, { 'memory.low': '1048576', 'memory.high': '9101312' }],
      ['a guaranteed one', { limits: { cpu: '1', memory: '2Mi' } }, { 'memory.min': '2097152' }],
      ['one that asks for nothing', {}, UNPROTECTED],
    ])('keeps memory for %s, and slows it before its limit', (_, resources, memory) =>
      expect(of(resources)).toEqual({ ...KILL, ...memory }),
    );

    it('slows one without a limit before all that pods may use', () => {
      const memoryQoS = { throttlingFactor: 0.9, reserves: true, unlimited: '20000000' };
      const resources = { requests: { memory: '1Mi' } };
      expect(of(resources, { memoryQoS })).toMatchObject({ 'memory.high': '18104320' });
    });

    it('keeps nothing unless it is to, and does nothing with hierarchies of version 1', () => {
      const memoryQoS = { throttlingFactor: 0.9, reserves: false };
      expect(of(burstable, { memoryQoS })).toEqual({ ...KILL, ...UNPROTECTED, 'memory.high': '1990656' });
      const before = { memoryQoS, behavior: 38 };
      expect(of(burstable, before)).toEqual({ ...KILL, 'memory.high': '1990656' });
      expect(of(burstable, { cgroupVersion: 1 })).toBeUndefined();
    });

    it('keeps it for the pod as a whole, too', () => {
      const whole = pod({ containers: [container({ resources: burstable })], overhead: { memory: '1Mi' } });
      expect(podGroup(whole, settings()).resources.unified).toEqual({ 'memory.low': '2097152' });
    });
  });

  it('gives each huge page size of the machine a limit', () => {
    const limited = container({ resources: { limits: { 'hugepages-2Mi': '4Mi' } } });
    expect(containerResources(pod(), limited, node).hugepage_limits).toEqual([
      { page_size: '2MB', limit: '4194304' },
      { page_size: '1GB' },
    ]);
  });

  it('gives a container without own huge pages those of its pod, as in the kubelet', () => {
    const resources = { limits: { 'hugepages-2Mi': '4Mi', memory: '1Mi' } };
    const own = container({ resources: { limits: { 'hugepages-2Mi': '2Mi' } } });
    const limits = (of: Container, behavior = node.behavior): unknown =>
      containerResources(pod({ containers: [of], resources }), of, { ...node, behavior }).hugepage_limits;
    expect(limits(container())).toEqual([{ page_size: '2MB', limit: '4194304' }, { page_size: '1GB' }]);
    expect(limits(own)).toEqual([{ page_size: '2MB', limit: '2097152' }, { page_size: '1GB' }]);
    expect(limits(container(), BEFORE)).toEqual([{ page_size: '2MB' }, { page_size: '1GB' }]);
  });

  it('does not limit CPU time when the node does not', () => {
    const limited = container({ resources: { limits: { cpu: '1' } } });
    const resources = containerResources(pod(), limited, { ...node, cpuCFSQuota: false });
    expect(resources).not.toHaveProperty('cpu_quota');
    expect(resources).not.toHaveProperty('cpu_period');
  });

  it('does not limit CPU time of a sandbox whose pod has CPUs of its own', () => {
    const whole = { cpu: '2', memory: '1Mi' };
    const owner = pod({ containers: [container({ resources: { limits: whole, requests: whole } })] });
    const cpuManager = { cpus: [], reserved: [], wholeCores: false, isReservationStrict: false };
    const admission = { cpuManager } as never;
    expect(sandboxResources(owner, { ...node, admission })).toMatchObject({ cpu_quota: '-1', cpu_period: '100000' });
    expect(sandboxResources(owner, node)).toMatchObject({ cpu_quota: '200000' });
    expect(sandboxResources(owner, { ...node, admission, cpuCFSQuota: false })).not.toHaveProperty('cpu_quota');
  });

  it('lets a sidecar live as long as the containers that it serves', () => {
    const sidecar = container({ name: 'side', restartPolicy: 'Always' });
    const big = container({ resources: { requests: { memory: '10Gi' } } });
    const both = pod({ initContainers: [sidecar], containers: [big] });
    expect(oomScoreAdj(both, sidecar, node)).toBe(oomScoreAdj(both, big, node));
    expect(oomScoreAdj(both, big, node)).toBe(1000 - Math.floor((1000 * 10 * 2 ** 30) / 25_276_514_304));
  });

  it('measures a sidecar by the smallest of those that it serves', () => {
    const sidecar = container({ name: 'side', restartPolicy: 'Always' });
    const small = container({ name: 'small', resources: { requests: { memory: '1Gi' } } });
    const big = container({ name: 'big', resources: { requests: { memory: '10Gi' } } });
    const whole = pod({ initContainers: [sidecar], containers: [big, small] });
    expect(oomScoreAdj(whole, sidecar, node)).toBe(oomScoreAdj(whole, small, node));
  });

  it('shares what a pod asked for as a whole among all its containers, init containers too', () => {
    const init = container({ name: 'i', resources: { requests: { memory: '3Gi' } } });
    const main = container({ resources: { requests: { memory: '1Gi' } } });
    const whole = pod({ initContainers: [init], containers: [main], resources: { requests: { memory: '7Gi' } } });
    expect(oomScoreAdj(whole, main, node)).toBe(1000 - Math.floor((1000 * 3 * 2 ** 30) / 25_276_514_304));
  });

  it('protects pods that the node needs', () => {
    const critical = { priority: 2_000_001_000, priorityClassName: 'system-node-critical' };
    expect(oomScoreAdj(pod(critical), container(), node)).toBe(-997);
    expect(oomScoreAdj(pod({ priority: 2_000_001_000 }), container(), node)).toBe(1000);
  });

  it('takes the limit for a request of CPU only where there is no request', () => {
    const shares = (resources: ResourceRequirements): unknown =>
      containerResources(pod(), container({ resources }), node).cpu_shares;
    expect(shares({ limits: { cpu: '1' } })).toBe('1024');
    expect(shares({ limits: { cpu: '1' }, requests: { cpu: '0' } })).toBe('2');
  });

  it('takes a limit of nothing for none: the pod as a whole bounds the container', () => {
    const unlimited = container({ resources: { limits: { memory: '0' } } });
    const whole = pod({ containers: [unlimited], resources: { limits: { memory: '1Mi' } } });
    expect(containerResources(whole, unlimited, node).memory_limit_in_bytes).toBe('1048576');
  });

  it('asks cgroup v2 to kill the sandbox as one, too, unless single processes are to be killed', () => {
    const unified = { 'memory.oom.group': '1' };
    expect(sandboxResources(pod(), { ...node, cgroupVersion: 2 })).toMatchObject({ unified });
    const single: NodeSettings = { ...node, cgroupVersion: 2, killsSingleProcess: true };
    expect(sandboxResources(pod(), single)).not.toHaveProperty('unified');
    expect(containerResources(pod(), container(), single).unified).toEqual({ 'memory.swap.max': '0' });
  });
});

describe('the requests of a pod', () => {
  const requesting = (requests: Readonly<Record<string, string>>, more: object = {}) =>
    container({ resources: { requests }, ...more });
  const sidecar = { restartPolicy: 'Always' };
  const units = (spec: object) =>
    Object.entries(podRequests(pod(spec))).map(([name, amount]) => [name, wholeUnits(amount)]);

  it('are those of containers and sidecars together, or of an init container with the sidecars before it', () => {
    const initContainers = [
      requesting({ cpu: '9', 'a/b': '1' }),
      requesting({ cpu: '2', 'c/d': '3' }, sidecar),
      requesting({ cpu: '5', 'e/f': '4' }),
      requesting({ cpu: '1' }, sidecar),
    ];
    const of = (cpu: string) => units({ initContainers, containers: [requesting({ cpu })] });
    const others = [
      ['c/d', 3n],
      ['a/b', 1n],
      ['e/f', 4n],
    ];
    expect(of('1')).toEqual([['cpu', 9n], ...others]);
    expect(of('7')).toEqual([['cpu', 10n], ...others]);
  });

  it('are summed in little time over a thousand containers of different resources', () => {
    const containers = Array.from({ length: 1_000 }, (_, at) =>
      requesting(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`example.com/r${at}-${i}`, '1']))),
    );
    const before = process.cpuUsage();
    expect(units({ containers })).toHaveLength(20_000);
    expect(process.cpuUsage(before).user).toBeLessThan(2_000_000);
  });
});
