/** Which pods a node admits: the predicates in order, with upstream's reasons and texts. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  admit,
  byUrgency,
  type Candidate,
  choose,
  resize,
} from '../../../../../src/machines/model/allocation/predicates.ts';
import {
  admissionRequest,
  allocationOf,
  demandOf,
  type NodeView,
  withAllocation,
} from '../../../../../src/machines/model/allocation/request.ts';
import { forbiddenSysctl } from '../../../../../src/machines/model/allocation/sysctls.ts';
import type { Pod, PodSpec } from '../../../../../src/machines/model/api/pod.ts';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import { container, nodeBefore, pod } from '../support.ts';

const GOLDEN = join(import.meta.dirname, '../../../../golden/pods/cases');

/** The node of the recordings. */
const NODE: NodeView = {
  nodeName: 'node1',
  allocatable: { cpu: '2000', memory: '25171656704', pods: '110', 'ephemeral-storage': '1000', 'example.com/gpu': '1' },
  labels: { 'kubernetes.io/hostname': 'node1', 'kubernetes.io/os': 'linux', zone: '3' },
  taints: [],
  sysctls: { kernelVersion: '6.18.0', allowedUnsafe: [] },
  appArmor: false,
  strictGroups: false,
  pressures: [],
  isShuttingDown: false,
};

const asking = (requests: Record<string, string>, spec: Partial<PodSpec> = {}, uid = 'uid-1'): Pod =>
  pod({ containers: [container({ resources: { requests } })], ...spec }, { uid });
const active = (uid: string, requests: Record<string, string>, spec: Partial<PodSpec> = {}): Candidate => ({
  uid,
  demand: demandOf(asking(requests, spec, uid)),
});
const verdict = (wanted: Pod, node: Partial<NodeView> = {}, others: readonly Candidate[] = []) =>
  admit(admissionRequest(wanted), { ...NODE, ...node }, others);
const rejection = (wanted: Pod, node: Partial<NodeView> = {}, others: readonly Candidate[] = []) =>
  verdict(wanted, node, others).rejection;

/** The recorded kubelet's reason and message for a pod of this case. */
function recorded(name: string): { reason: string; message: string } {
  const lines = readFileSync(join(GOLDEN, name, 'api.ndjson'), 'utf8')
    .trim()
    .split('\n');
  const statuses = lines.map((line) => JSON.parse(line).body?.status).filter((status) => status?.reason);
  const { reason, message } = statuses[0];
  return { reason, message: message.replace('Pod was rejected: ', '').replace('<n>', '0') };
}

describe('a feature that gates turn off', () => {
  const lacking = (wanted: Pod, ...lacks: ('podLevelResources' | 'restartAll')[]) =>
    admit(admissionRequest(wanted, { admission: { lacks } as never }), NODE, []).rejection;
  const ruled = asking(
    {},
    {
      containers: [
        container({
          restartPolicy: 'Never',
          restartPolicyRules: [{ action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [1] } }],
        }),
      ],
    },
  );

  it('is why a pod that uses it is refused, and no other', () => {
    expect(lacking(asking({}, { resources: { limits: { cpu: '1' } } }), 'podLevelResources')).toEqual({
      reason: 'PodLevelResourcesNotSupported',
      message: 'PodLevelResources feature gate is disabled',
    });
    expect(lacking(ruled, 'podLevelResources', 'restartAll')).toEqual({
      reason: 'PodFeatureUnsupported',
      message: 'Pod requires node features that are not available: RestartAllContainersOnContainerExits',
    });
    expect(lacking(asking({ cpu: '1' }), 'podLevelResources', 'restartAll')).toBeNull();
    expect(lacking(ruled)).toBeNull();
  });
});

describe('users of its own in the network of the machine', () => {
  const wanted = asking({}, { hostNetwork: true, hostUsers: false });
  const refusal = (spec: Pod, more: object = {}, behavior = NEWEST_BEHAVIOR) =>
    admit(admissionRequest(spec, { admission: more as never, behavior }), NODE, []).rejection;

  it('are no feature of this node, as of a kubelet without it', () => {
    expect(refusal(wanted)).toEqual({
      reason: 'PodFeatureUnsupported',
      message: 'Pod requires node features that are not available: UserNamespacesHostNetworkSupport',
    });
    expect(refusal(asking({}, { hostNetwork: true }))).toBeNull();
    expect(refusal(asking({}, { hostUsers: false }))).toBeNull();
  });

  it('were not looked at before, nor where features are not declared', () => {
    expect(refusal(wanted, {}, nodeBefore('podDetailsAsKubelet'))).toBeNull();
    expect(refusal(wanted, { ignoresNeeds: true })).toBeNull();
  });
});

describe('a pod as it was recorded', () => {
  it.each([
    ['out-of-cpu', asking({ cpu: '64' })],
    ['out-of-memory-admission', asking({ memory: '900Gi' })],
    ['node-selector-mismatch', asking({}, { nodeSelector: { disk: 'ssd' } })],
  ])('%s is refused with the same words', (name, wanted) => {
    expect(rejection(wanted)).toEqual(recorded(name));
  });

  it('host-ports-conflict is refused with the same words', () => {
    const ports = [{ containerPort: 80, hostPort: 18080 }];
    const spec = { containers: [container({ ports })] };
    const other = { uid: 'other', demand: demandOf(pod(spec, { uid: 'other' })) };
    expect(rejection(pod(spec), {}, [other])).toEqual(recorded('host-ports-conflict'));
  });

  it('that asks for a resource which the node does not know is taken', () => {
    expect(rejection(asking({ 'example.com/other': '1' }))).toBeNull();
  });
});

describe('room', () => {
  it.each([
    [{ cpu: '1500m' }, [], null],
    [{ cpu: '1500m' }, [active('a', { cpu: '600m' })], 'cpu, requested: 1500, used: 600, capacity: 2000'],
    [{ 'example.com/gpu': '2' }, [], 'example.com/gpu, requested: 2, used: 0, capacity: 1'],
    [{ 'ephemeral-storage': '1001' }, [], 'ephemeral-storage, requested: 1001, used: 0, capacity: 1000'],
  ])('for %o beside %o', (requests, others, shortage) => {
    const resource = shortage?.split(',')[0];
    const wanted = shortage && {
      reason: `OutOf${resource}`,
      message: `Node didn't have enough resource: ${shortage}`,
    };
    expect(rejection(asking(requests as never), {}, others)).toEqual(wanted);
  });

  it('is counted in pods, too, and with the overhead of the runtime class', () => {
    expect(rejection(pod(), { allocatable: { pods: '1' } }, [active('a', {})])).toEqual({
      reason: 'OutOfpods',
      message: "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1",
    });
    expect(demandOf(asking({ cpu: '1' }, { overhead: { cpu: '50m', memory: '1Mi' } })).requests).toEqual({
      cpu: '1050',
      memory: '1048576',
    });
  });
});

describe('the rules of the node', () => {
  const affinity = (...nodeSelectorTerms: object[]) =>
    ({
      affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
    }) as never;
  const expression = (key: string, operator: string, ...values: string[]) => ({
    matchExpressions: [{ key, operator, values }],
  });

  it.each([
    [affinity(expression('zone', 'In', '3')), true],
    [affinity(expression('zone', 'NotIn', '3')), false],
    [affinity(expression('zone', 'Gt', '2')), true],
    [affinity(expression('zone', 'Lt', '3')), false],
    [affinity(expression('zone', 'Gt', 'x')), false],
    [affinity(expression('gone', 'DoesNotExist')), true],
    [affinity(expression('zone', 'Exists')), true],
    [affinity({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['node1'] }] }), true],
    [affinity({}), false],
    [affinity(expression('zone', 'In', '9'), expression('zone', 'In', '3')), true],
    [{ nodeSelector: { zone: '3' } }, true],
  ])('%j fits: %s', (spec, fits) => {
    expect(rejection(pod(spec as Partial<PodSpec>))?.reason ?? null).toBe(fits ? null : 'NodeAffinity');
  });

  const taint = { key: 'gpu', value: 'yes', effect: 'NoExecute' };
  it.each([
    [{}, [taint], 'TaintToleration'],
    [{ tolerations: [{ key: 'gpu', value: 'yes', effect: 'NoExecute' }] }, [taint], null],
    [{ tolerations: [{ operator: 'Exists' }] }, [taint], null],
    [{ tolerations: [{ key: 'gpu', value: 'no' }] }, [taint], 'TaintToleration'],
    [{}, [{ ...taint, effect: 'NoSchedule' }], null],
  ])('%j under %j: %s', (spec, taints, reason) => {
    expect(rejection(pod(spec as Partial<PodSpec>), { taints })?.reason ?? null).toBe(reason);
  });

  it.each([
    [{ os: { name: 'windows' } }, 'PodOSNotSupported', "Failed to admit pod as the OS field doesn't match node OS"],
    [{ nodeName: 'other' }, 'NodeName', "Predicate NodeName failed: node(s) didn't match the requested node name"],
    [
      { securityContext: { appArmorProfile: { type: 'RuntimeDefault' } } },
      'AppArmor',
      'Cannot enforce AppArmor: AppArmor is not enabled on the host',
    ],
    [
      { securityContext: { supplementalGroupsPolicy: 'Strict' } },
      'SupplementalGroupsPolicyNotSupported',
      'SupplementalGroupsPolicy=Strict is not supported in this node',
    ],
    [
      { securityContext: { sysctls: [{ name: 'kernel.msgmax', value: '1' }] } },
      'SysctlForbidden',
      'forbidden sysctl: "kernel.msgmax" not allowlisted',
    ],
  ])('%j is %s', (spec, reason, message) => {
    expect(rejection(pod(spec as Partial<PodSpec>))).toEqual({ reason, message });
  });

  it('a label for another operating system is refused', () => {
    expect(rejection(pod({}, { labels: { 'kubernetes.io/os': 'windows' } }))).toMatchObject({
      reason: 'PodOSSelectorNodeLabelDoesNotMatch',
    });
  });

  it('two pods may have one port on different addresses or protocols, not on all of them', () => {
    const at = (hostIP: string, protocol: string) => ({
      containers: [container({ ports: [{ containerPort: 53, hostPort: 53, hostIP, protocol }] })],
    });
    const other = [{ uid: 'o', demand: demandOf(pod(at('10.0.0.1', 'TCP'))) }];
    expect(rejection(pod(at('10.0.0.2', 'TCP')), {}, other)).toBeNull();
    expect(rejection(pod(at('10.0.0.1', 'UDP')), {}, other)).toBeNull();
    expect(rejection(pod(at('', 'TCP')), {}, other)).toMatchObject({ reason: 'NodePorts' });
  });

  it('under pressure takes critical pods, and under that of memory those that asked for some', () => {
    const pressures = ['MemoryPressure'];
    const evicted = { reason: 'Evicted', message: 'The node had condition: [MemoryPressure]. ' };
    expect(rejection(pod(), { pressures })).toEqual(evicted);
    expect(rejection(asking({ memory: '1Mi' }), { pressures })).toBeNull();
    expect(rejection(pod({ priority: 2_000_000_000 }), { pressures })).toBeNull();
    expect(rejection(asking({ memory: '1Mi' }), { pressures: ['MemoryPressure', 'DiskPressure'] })).toEqual({
      reason: 'Evicted',
      message: 'The node had condition: [MemoryPressure DiskPressure]. ',
    });
  });

  it('while it shuts down admits no pod', () => {
    expect(rejection(pod(), { isShuttingDown: true })).toEqual({
      reason: 'NodeShutdown',
      message: 'Pod was rejected as the node is shutting down.',
    });
  });
});

describe('kernel settings', () => {
  const settings = { kernelVersion: '4.5.0', allowedUnsafe: ['kernel.msg*', 'net.core.somaxconn'] };
  const own = { hostNetwork: false, hostIPC: false };
  it.each([
    ['net.ipv4.tcp_syncookies', own, null],
    ['net/ipv4/tcp_syncookies', own, null],
    ['net.ipv4.tcp_fin_timeout', own, 'forbidden sysctl: "net.ipv4.tcp_fin_timeout" not allowlisted'],
    ['kernel.msgmax', own, null],
    ['kernel.msgmax', { ...own, hostIPC: true }, 'forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled'],
    [
      'net.ipv4.tcp_syncookies',
      { ...own, hostNetwork: true },
      'forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled',
    ],
    ['kernel.msgx', { ...own, hostIPC: true }, 'forbidden sysctl: "kernel.msgx" not allowed with host IPC enabled'],
    ['net.core.somaxconn', own, null],
    ['vm.swappiness', own, 'forbidden sysctl: "vm.swappiness" not allowlisted'],
    // CVE-2020-8558: with this sysctl, neighbours reach servers that listen on loopback.
    ['net.ipv4.conf.all.route_localnet', own, 'forbidden sysctl: "net.ipv4.conf.all.route_localnet" not allowlisted'],
  ])('%s of %o: %s', (name, namespaces, why) => {
    expect(forbiddenSysctl([name], namespaces, settings)).toBe(why);
  });
});

describe('a critical pod without room', () => {
  const critical = (requests: Record<string, string>) => asking(requests, { priority: 2_000_000_000 });
  const others = [
    active('small', { cpu: '300m' }),
    active('large', { cpu: '900m' }),
    active('idle', {}),
    active('critical', { cpu: '700m' }, { priority: 2_000_000_000 }),
  ];

  it('displaces the fewest pods that leave the least to be found', () => {
    expect(verdict(critical({ cpu: '300m' }), {}, others)).toEqual({
      rejection: null,
      victims: ['small'],
      shortOf: 'cpu',
    });
    expect(verdict(critical({ cpu: '900m' }), {}, others)).toEqual({
      rejection: null,
      victims: ['large'],
      shortOf: 'cpu',
    });
    expect(verdict(critical({ cpu: '1300m' }), {}, others)).toEqual({
      rejection: null,
      victims: ['large', 'small'],
      shortOf: 'cpu',
    });
  });

  it('spares guaranteed pods while others can make room', () => {
    const guaranteed: Candidate = {
      uid: 'guaranteed',
      demand: { ...active('g', { cpu: '500m' }).demand, qos: 'Guaranteed' },
    };
    const shortages = [{ resource: 'cpu', requested: 500n, used: 2000n, capacity: 2000n }];
    const { demand } = admissionRequest(critical({ cpu: '500m' }));
    expect(choose(demand, [guaranteed, active('b', { cpu: '500m' })], shortages)).toEqual({ victims: ['b'] });
    expect(choose(demand, [guaranteed], shortages)).toEqual({ victims: ['guaranteed'] });
  });

  it('is refused when all others together hold too little, in upstream words', () => {
    expect(rejection(critical({ cpu: '64' }), {}, others)).toEqual({
      reason: 'UnexpectedAdmissionError',
      message:
        'Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods ' +
        'to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 62700), ]',
    });
  });

  it('is refused for what no other pod can give', () => {
    const wanted = asking({ cpu: '900m' }, { priority: 2_000_000_000, nodeSelector: { disk: 'ssd' } });
    expect(rejection(wanted, {}, others)).toMatchObject({ reason: 'NodeAffinity' });
  });

  it('is never displaced by one that is not', () => {
    expect(rejection(asking({ cpu: '900m' }), {}, others)).toMatchObject({ reason: 'OutOfcpu' });
  });
});

describe('a change of resources', () => {
  const whole = { cpu: '2000', memory: '25276514304' };
  const change = (requests: Record<string, string>, others: readonly Candidate[] = [], metadata = {}) =>
    resize(
      admissionRequest({ ...asking(requests), metadata: { ...asking({}).metadata, ...metadata } }),
      NODE,
      whole,
      others,
    );

  it('is had when there is room, its own old share included', () => {
    expect(change({ cpu: '2' }, [active('uid-1', { cpu: '1' })])).toBeNull();
  });

  it('has to wait for others, as it was recorded', () => {
    expect(change({ cpu: '1' }, [active('filler', { cpu: '1200m' })])).toEqual({
      reason: 'Deferred',
      cause: 'OutOfcpu',
      message: "Node didn't have enough resource: cpu, requested: 1000, used: 1200, capacity: 2000",
    });
  });

  it.each([
    [{ cpu: '3' }, "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000"],
    [
      { cpu: '3', memory: '30Gi' },
      "Node didn't have enough capacity: memory, requested: 32212254720, capacity: 25276514304",
    ],
  ])('to %o can never be had', (requests, message) => {
    expect(change(requests as never)).toMatchObject({ reason: 'Infeasible', message });
  });

  it('of a static pod can never be had', () => {
    const annotations = { 'kubernetes.io/config.source': 'file' };
    expect(change({ cpu: '1' }, [], { annotations })).toMatchObject({
      reason: 'Infeasible',
      message: 'In-place resize of static-pods is not supported',
    });
  });

  it('comes in the order of urgency', () => {
    const pending = (name: string, increases: boolean, priority: number, sinceMs: number) => ({
      name,
      request: admissionRequest(asking({ cpu: '1' }, { priority })),
      increases,
      sinceMs,
    });
    const all = [
      pending('late', true, 0, 2),
      pending('early', true, 0, 1),
      pending('high', true, 9, 3),
      pending('less', false, 0, 4),
    ];
    expect(all.toSorted(byUrgency).map(({ name }) => name)).toEqual(['less', 'high', 'early', 'late']);
  });
});

describe('the allocation of a pod', () => {
  const wanted = pod({
    containers: [container({ resources: { requests: { cpu: '1' } } })],
    initContainers: [container({ name: 'init' }), container({ name: 'side', restartPolicy: 'Always' })],
  });

  it('has all containers but ephemeral ones, and takes the place of what the source asks for', () => {
    const allocation = allocationOf(wanted);
    expect(Object.keys(allocation)).toEqual(['c', 'init', 'side']);
    const later = pod({ ...wanted.spec, containers: [container({ resources: { requests: { cpu: '2' } } })] });
    expect(withAllocation(later, allocation)).toEqual(wanted);
    expect(withAllocation(later, null)).toBe(later);
  });
});
