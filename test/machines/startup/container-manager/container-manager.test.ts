/**
 * The container manager after acceptance: the groups that it creates, keeps and removes, and its reports about them.
 */
import { describe, expect, it } from 'vitest';
import { cpuStateText } from '../../../../src/machines/model/allocation/cpu-state-file.ts';
import { memoryState, memoryStateText } from '../../../../src/machines/model/allocation/memory-state-file.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { containerManagerMachine } from '../../../../src/machines/startup/container-manager/container-manager.ts';
import type { ContainerManagerInput } from '../../../../src/machines/startup/container-manager/policy.ts';
import { type Answers, fail, ok, runUnder } from '../../../support/answering-world.ts';
import { GROUPS, MACHINE_INFO } from '../boot-node.ts';

const INPUT: ContainerManagerInput = {
  behavior: NEWEST_BEHAVIOR,
  nodeName: 'node1',
  machineInfo: { ...MACHINE_INFO, cores: 2, memoryBytes: '4294967296' },
  usesCgroups: true,
  cgroupsPerQOS: true,
  cgroupRoot: '/',
  cgroupDriver: 'cgroupfs',
  kubeletCgroups: '',
  runtimeCgroups: '',
  systemCgroups: '',
  failCgroupV1: false,
  failSwapOn: true,
  protectKernelDefaults: false,
  cpuManagerPolicy: 'none',
  cpuManagerPolicyOptions: {},
  maxNumaNodes: 8,
  memoryManagerPolicy: 'None',
  memoryManagerError: '',
  managers: {},
  rootDir: '/var/lib/kubelet',
  oomScoreAdj: -999,
  storagePath: '',
  hugePageSizes: ['2MB'],
  enforceNodeAllocatable: ['pods'],
  kubeReservedCgroup: '/kube',
  systemReservedCgroup: '/system',
  memoryReservedPercent: null,
  memoryQoS: false,
  reservations: {
    kubeReserved: { cpu: '500m', memory: '1Gi' },
    systemReserved: {},
    evictionHard: { 'memory.available': '100Mi' },
    maxPods: 110,
    podsPerCore: 0,
    reservedSystemCPUs: '',
    ignoreEviction: false,
  },
};

/** The file that a Go kubelet leaves on a node without exclusive resources. */
const NONE = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}';
const NO_MEMORY = '{"policyName":"None","machineState":{},"checksum":4236770233}';

const ANSWERS: Answers = {
  ...GROUPS,
  'host.cgroups': ok({ version: 1, controllers: ['cpu'], swapCounted: false }),
  'cgroup.own': ok({ path: '/kubelet' }),
};

const VERSION_2 = ok({ version: 2, controllers: ['cpu'], swapCounted: false });
/** The number of behaviors before `groupsAsKubelet`. */
const BEFORE = 38;

type SentEvent = { readonly type: string; readonly reason?: string; readonly message?: string };

function start(change: Partial<ContainerManagerInput> = {}, answers: Answers = {}) {
  const asked: { name: string; input: unknown }[] = [];
  const noting = Object.fromEntries(
    Object.entries({ ...ANSWERS, ...answers }).map(([name, answer]) => [
      name,
      (input: never) => {
        asked.push({ name, input });
        return typeof answer === 'function' ? answer(input) : answer;
      },
    ]),
  );
  const run = runUnder(containerManagerMachine, { ...INPUT, ...change }, noting, [
    'eventRecorder',
    'allocation',
    'pods',
  ]);
  run.send({ type: 'containerManager.start' });
  run.time.advanceTo(run.time.now());
  const of = (name: string) => asked.flatMap((each) => (each.name === name ? [each.input as never] : []));
  const sent = (): readonly SentEvent[] => run.sent();
  const refusal = () => sent().find(({ type }) => type === 'containerManager.failed')?.message;
  const events = () =>
    sent().flatMap((each) => (each.type === 'event.recorded' ? [`${each.reason}: ${each.message}`] : []));
  return { ...run, of, refusal, events };
}

describe('starting', () => {
  it('tunes the kernel, then makes the group of all pods and the two levels, from the outside in', () => {
    const run = start();
    expect(run.of('host.tuneKernel')).toMatchObject([{ modify: true, expected: { 'vm/overcommit_memory': 1 } }]);
    expect(run.of('cgroup.ensure')).toEqual([
      {
        driver: 'cgroupfs',
        path: '/kubepods',
        resources: {
          cpuShares: '1536',
          memoryBytes: '3221225472',
          pids: '32768',
          hugePageBytes: { '2MB': '0' },
        },
      },
      {
        driver: 'cgroupfs',
        path: '/kubepods/burstable',
        resources: { hugePageBytes: { '2MB': '4611686018427387904' } },
      },
      {
        driver: 'cgroupfs',
        path: '/kubepods/besteffort',
        resources: { cpuShares: '2', hugePageBytes: { '2MB': '4611686018427387904' } },
      },
    ]);
    expect(run.sent().at(-1)).toEqual({ to: 'parent/allocation', type: 'resources.wanted' });
    expect(run.refusal()).toBeUndefined();
    expect(run.divergence()).toBeNull();
  });

  it('does it with the names of systemd where that is the driver', () => {
    const run = start({ cgroupDriver: 'systemd', cgroupRoot: '/my-node' });
    expect(run.of('cgroup.ensure').map(({ path }: { path: string }) => path)).toEqual([
      '/my_node.slice/my_node-kubepods.slice',
      '/my_node.slice/my_node-kubepods.slice/my_node-kubepods-burstable.slice',
      '/my_node.slice/my_node-kubepods.slice/my_node-kubepods-besteffort.slice',
    ]);
  });

  it('limits all pods to the capacity of the machine if no lower limit is configured', () => {
    const [pods] = start({ enforceNodeAllocatable: [] }).of('cgroup.ensure') as { resources: object }[];
    expect(pods?.resources).toMatchObject({ cpuShares: '2048', memoryBytes: '4294967296', pids: '32768' });
  });

  it.each([
    ['as in the kubelet', {}, ['3145728', '1048576']],
    ['which had no limit before', { behavior: 37 }, [undefined, undefined]],
  ])('leaves the huge pages that daemons get to them alone, %s', (_, more, [ofPods, ofDaemons]) => {
    const run = start({
      machineInfo: { ...INPUT.machineInfo, hugePageTotals: { 'hugepages-2Mi': '4194304' } },
      reservations: { ...INPUT.reservations, kubeReserved: { 'hugepages-2Mi': '1Mi' } },
      enforceNodeAllocatable: ['pods', 'kube-reserved'],
      ...more,
    });
    const pagesIn = (group: unknown) =>
      (group as { resources: { hugePageBytes?: Record<string, string> } }).resources.hugePageBytes?.['2MB'];
    expect([pagesIn(run.of('cgroup.ensure')[0]), pagesIn(run.of('cgroup.update')[0])]).toEqual([ofPods, ofDaemons]);
  });

  it.each([
    ['as in the kubelet', NEWEST_BEHAVIOR, '0-2', ['/my_node.slice', '0-2', '/kube.slice/kube-reserved.slice', '0-2']],
    ['as in the kubelet, where they are given out', NEWEST_BEHAVIOR, undefined, ['/my_node.slice', undefined]],
    ['which had none before', BEFORE, '0-2', ['/my-node', undefined, '/kube-reserved.slice', undefined]],
  ])('finds slices by the names of systemd and gives them the CPUs of the machine, %s', (_, behavior, cpus, found) => {
    const run = start({
      behavior,
      ...(cpus === undefined ? {} : { cpus }),
      cgroupDriver: 'systemd',
      cgroupRoot: '/my-node',
      kubeReservedCgroup: '/kube-reserved.slice',
      enforceNodeAllocatable: ['pods', 'kube-reserved-compressible'],
    });
    type Group = { path: string; resources: { cpus?: string } };
    const [all, daemons] = [...run.of('cgroup.ensure').slice(0, 1), ...run.of('cgroup.update')] as Group[];
    const root = (run.of('cgroup.missing') as { path: string }[])[0]?.path;
    expect([root, all?.resources.cpus, daemons?.path, daemons?.resources.cpus].slice(0, found.length)).toEqual(found);
    expect(run.divergence()).toBeNull();
  });

  it.each([
    ['as in the kubelet', NEWEST_BEHAVIOR, { 'memory.min': '1073741824' }],
    ['which was not done before', BEFORE, undefined],
  ])('protects the memory of daemons with MemoryQoS, %s', (_, behavior, unified) => {
    const run = start({ behavior, hasMemoryQoS: true, enforceNodeAllocatable: ['kube-reserved'] });
    const [group] = run.of('cgroup.update') as { resources: { unified?: object } }[];
    expect(group?.resources.unified).toEqual(unified);
  });

  it('makes nothing for a runtime that has no cgroups', () => {
    const run = start({ usesCgroups: false });
    expect(run.asked()).toEqual(['host.cgroups']);
    expect(run.sent().map(({ type }) => type)).toContain('containerManager.started');
  });

  it('holds the groups of daemons to what is reserved for them', () => {
    const run = start({ enforceNodeAllocatable: ['pods', 'kube-reserved', 'system-reserved-compressible'] });
    expect(run.of('cgroup.update')).toEqual([
      { driver: 'cgroupfs', path: '/system', resources: {} },
      {
        driver: 'cgroupfs',
        path: '/kube',
        resources: { cpuShares: '512', memoryBytes: '1073741824', hugePageBytes: { '2MB': '0' } },
      },
    ]);
    expect(run.events()).toEqual([
      'NodeAllocatableEnforced: Updated limits on system reserved cgroup /system',
      'NodeAllocatableEnforced: Updated limits on kube reserved cgroup /kube',
    ]);
  });
});

describe('a node that cannot start', () => {
  it.each<[string, Partial<ContainerManagerInput>, Answers, string]>([
    [
      'its root of cgroups is not there',
      { cgroupRoot: '/a/b' },
      { 'cgroup.missing': ok({ missing: ['/sys/fs/cgroup/cpu/a/b'] }) },
      'invalid configuration: cgroup ["a" "b"] has some missing paths: /sys/fs/cgroup/cpu/a/b',
    ],
    [
      'it keeps back more than it has',
      { reservations: { ...INPUT.reservations, kubeReserved: { cpu: '3' } } },
      {},
      'invalid Node Allocatable configuration. Resource "cpu" has a reservation of 3 but capacity of 2. ' +
        'Expected capacity >= reservation.',
    ],
    [
      'the kernel is protected and set otherwise',
      { protectKernelDefaults: true },
      { 'host.tuneKernel': ok({ errors: ['invalid kernel flag: kernel/panic, expected value: 10, actual value: 0'] }) },
      'invalid kernel flag: kernel/panic, expected value: 10, actual value: 0',
    ],
    [
      'a level cannot be made',
      {},
      {
        'cgroup.ensure': ({ path }: { path: string }) =>
          path.endsWith('burstable') ? fail('read-only file system') : ok(null),
      },
      'failed to initialize top level QOS containers: failed to create top level Burstable QOS cgroup : ' +
        'read-only file system',
    ],
    [
      'a group of daemons is not there',
      { enforceNodeAllocatable: ['system-reserved'] },
      { 'cgroup.update': fail('cgroup "/system" has some missing paths', 'ENOENT') },
      'Failed to enforce System Reserved Cgroup Limits on "/system": cgroup ["system"] has some missing paths',
    ],
    [
      'a group of daemons was not there before',
      { behavior: BEFORE, enforceNodeAllocatable: ['system-reserved'] },
      { 'cgroup.update': fail('cgroup "/system" has some missing paths', 'ENOENT') },
      'Failed to enforce System Reserved Cgroup Limits on "/system": ["system"] cgroup does not exist',
    ],
    [
      'a slice of daemons is not there on version 2',
      { cgroupDriver: 'systemd', systemReservedCgroup: '/sys-1.slice', enforceNodeAllocatable: ['system-reserved'] },
      {
        'host.cgroups': VERSION_2,
        'cgroup.update': fail('cgroup "/sys.slice/sys-1.slice" has some missing paths: /', 'ENOENT'),
      },
      'Failed to enforce System Reserved Cgroup Limits on "/sys-1.slice": could not read controllers for cgroup ' +
        '["sys" "1"]: open /sys/fs/cgroup/sys.slice/sys-1.slice/cgroup.controllers: no such file or directory',
    ],
    [
      'a slice of daemons lacks a controller',
      { enforceNodeAllocatable: ['system-reserved'] },
      { 'host.cgroups': VERSION_2, 'cgroup.update': fail('failed to write "1" to /memory.max', 'ENOENT') },
      'Failed to enforce System Reserved Cgroup Limits on "/system": failed to write "1" to /memory.max',
    ],
    [
      'its root of cgroups is not there on version 2',
      { cgroupDriver: 'systemd', cgroupRoot: '/a/b' },
      { 'host.cgroups': VERSION_2, 'cgroup.missing': ok({ missing: ['/sys/fs/cgroup/a.slice/a-b.slice'] }) },
      'invalid configuration: could not read controllers for cgroup ["a" "b"]: ' +
        'open /sys/fs/cgroup/a.slice/a-b.slice/cgroup.controllers: no such file or directory',
    ],
    [
      'CPUs shall be kept for containers in no cgroup',
      { cpuManagerPolicy: 'static', usesCgroups: false },
      {},
      'the CPU manager policy "static" needs a runtime that keeps containers in cgroups; the embedded one does not',
    ],
    [
      'CPUs shall be given in a way that was not built in 0.2.0',
      { behavior: 0, cpuManagerPolicy: 'static', cpuManagerPolicyOptions: { 'align-by-socket': 'true' } },
      {},
      'the option "align-by-socket" of the CPU manager policy "static" is not supported by this kubelet; ' +
        'leave it out',
    ],
    [
      'there are more NUMA nodes than may be compared',
      { managers: { topology: { policy: 'restricted', scope: 'container', nodes: [0, 1, 2, 3, 4, 5, 6, 7, 8] } } },
      {},
      'unsupported on machines with more than 8 NUMA Nodes',
    ],
    [
      'memory shall be kept for containers by a runtime that cannot',
      { memoryManagerPolicy: 'Static', usesCgroups: false },
      {},
      'the memory manager policy "Static" needs a runtime that keeps containers in cgroups; the embedded one does not',
    ],
    [
      'memory is reserved where there is none',
      {
        memoryManagerPolicy: 'Static',
        memoryManagerError: 'the reserved memory configuration references a NUMA node 7',
      },
      {},
      'the reserved memory configuration references a NUMA node 7',
    ],
    [
      'CPUs were given under another policy',
      { cpuManagerPolicy: 'static' },
      { 'host.readCheckpoints': ok({ contents: [NONE, null] }) },
      'start cpu manager error: could not restore state from checkpoint: configured policy "static" differs from state ' +
        'checkpoint policy "none", please drain this node and delete the CPU manager checkpoint file ' +
        '"/var/lib/kubelet/cpu_manager_state" before restarting Kubelet',
    ],
    [
      'memory was given under another policy',
      { memoryManagerPolicy: 'Static' },
      { 'host.readCheckpoints': ok({ contents: [NONE, NO_MEMORY] }) },
      'start memory manager error: could not restore state from checkpoint: [memorymanager] configured policy "Static" ' +
        'differs from state checkpoint policy "None", please drain this node and delete the memory manager checkpoint ' +
        'file "/var/lib/kubelet/memory_manager_state" before restarting Kubelet',
    ],
    ['what was given cannot be read', {}, { 'host.readCheckpoints': fail('EIO') }, 'start cpu manager error: EIO'],
    ['the system shall move to the root', { systemCgroups: '/' }, {}, 'system container cannot be root ("/")'],
  ])('because %s says so in upstream words', (_, change, answers, message) => {
    const run = start(change, answers);
    expect(run.refusal()).toBe(message);
    expect(run.sent().map(({ type }) => type)).not.toContain('containerManager.started');
    expect(run.divergence()).toBeNull();
  });

  it('but not for the kernel of a machine whose user namespace it is in', () => {
    const errors = ['EACCES: permission denied, open /proc/sys/vm/overcommit_memory'];
    const run = start({ isInUserNamespace: true }, { 'host.tuneKernel': ok({ errors }) });
    expect(run.sent().map(({ type }) => type)).toContain('containerManager.started');
    expect(run.logged()).toContain('Updating kernel flag failed (running in UserNS, ignoring)');
  });

  it('for want of a group tells an event, too', () => {
    const run = start({ enforceNodeAllocatable: ['kube-reserved'] }, { 'cgroup.update': fail('busy') });
    expect(run.events()).toEqual([
      'FailedNodeAllocatableEnforcement: Failed to enforce Kube Reserved Cgroup Limits on "/kube": busy',
    ]);
  });
});

describe('the levels', () => {
  const demand = { burstableCpuMilli: '351', burstableMemoryBytes: '1000', guaranteedMemoryBytes: '500' };
  const change = (run: ReturnType<typeof start>) => {
    run.send({ type: 'qos.changed', demand });
    run.time.advanceTo(run.time.now() + 1_000);
    const [last] = run.of('cgroup.hold').slice(-1) as { desired: readonly { path: string; resources: object }[] }[];
    return last!.desired;
  };

  it('follow what their pods ask for, those that come together at once', () => {
    const run = start();
    const before = run.of('cgroup.hold').length;
    run.send({ type: 'qos.changed', demand: { ...demand, burstableCpuMilli: '1' } });
    expect(change(run)).toMatchObject([
      { path: '/kubepods/burstable', resources: { cpuShares: '359' } },
      { path: '/kubepods/besteffort', resources: { cpuShares: '2' } },
    ]);
    expect(run.of('cgroup.hold')).toHaveLength(before + 1);
    expect(run.divergence()).toBeNull();
  });

  it('are kept out of what higher ones asked for where memory is reserved for them', () => {
    expect(change(start({ memoryReservedPercent: 50 }))).toMatchObject([
      { resources: { memoryBytes: '3221225222', memoryAtLeastUsed: true } },
      { resources: { memoryBytes: '3221224722', memoryAtLeastUsed: true } },
    ]);
  });

  it.each([
    ['as in the kubelet', {}, 'memory.low'],
    ['as before', { behavior: 34 }, 'memory.min'],
  ])('keep what was asked for from being reclaimed with MemoryQoS, %s', (_, more, file) => {
    expect(change(start({ memoryQoS: true, ...more }))).toMatchObject([
      { path: '/kubepods', resources: { unified: { 'memory.min': '1500' } } },
      { path: '/kubepods/burstable', resources: { unified: { [file]: '1000' } } },
      { path: '/kubepods/besteffort', resources: { cpuShares: '2' } },
    ]);
  });
});

describe('memory that is no longer asked for', () => {
  const heldAt = (settings: Partial<ContainerManagerInput>) => {
    const [last] = start({ hasMemoryQoS: true, ...settings })
      .of('cgroup.hold')
      .slice(-1) as { desired: readonly { path: string; resources: { unified?: object } }[] }[];
    return last!.desired.map(({ resources }) => resources.unified);
  };

  it.each([
    ['when the pods are gone', { memoryQoS: true }],
    ['when the policy protects none', { memoryQoS: false }],
  ])('is not protected %s, as by the kubelet', (_, settings) => {
    expect(heldAt(settings)).toEqual([{ 'memory.min': '0' }, { 'memory.low': '0' }, undefined]);
  });

  it('stayed protected before', () => {
    expect(heldAt({ memoryQoS: true, behavior: BEFORE })).toEqual([undefined, undefined]);
  });
});

describe('keeping', () => {
  it('names slices in events as the kubelet does', () => {
    const run = start({ cgroupDriver: 'systemd', cgroupRoot: '/my-node' });
    run.send({ type: 'cgroups.held', group: 'pods', message: 'device busy' });
    expect(run.events()).toEqual([
      'FailedNodeAllocatableEnforcement: Failed to update Node Allocatable Limits ["my-node" "kubepods"]: device busy',
    ]);
  });

  it('tells an event when all pods are held to their limit, and when they are not', () => {
    const run = start();
    run.send({ type: 'cgroups.held', group: 'pods', message: 'device busy' });
    run.send({ type: 'cgroups.held', group: 'pods', message: '' });
    run.send({ type: 'cgroups.held', group: 'system', message: 'no such process' });
    expect(run.events()).toEqual([
      'FailedNodeAllocatableEnforcement: Failed to update Node Allocatable Limits ["kubepods"]: device busy',
      'NodeAllocatableEnforced: Updated Node Allocatable limit across pods',
    ]);
    expect(run.logged()).toContain('Failed to ensure state');
  });

  it('moves kubelet and system into the groups that were named for them', () => {
    const run = start({ kubeletCgroups: '/kube', systemCgroups: '/system' });
    expect(run.of('cgroup.gather')).toEqual([
      { who: 'kubelet', path: '/kube', oomScoreAdj: -999, periodMs: 60_000 },
      { who: 'system', path: '/system', oomScoreAdj: -999, periodMs: 60_000 },
    ]);
  });

  it('removes the groups of pods that there are not, and no other', () => {
    const pods = ['1', '2'].map((uid) => ({ uid, path: `/kubepods/pod${uid}` }));
    const run = start({}, { 'cgroup.listPods': ok({ pods }), 'cgroup.destroy': ok(null) });
    run.send({ type: 'pods.known', uids: ['2', '3'] });
    run.time.advanceTo(run.time.now());
    expect(run.sent().at(-1)).toEqual({ to: 'parent/pods', type: 'pods.wanted' });
    run.send({ type: 'pods.known', uids: ['2', '3'] });
    run.time.advanceTo(run.time.now());
    expect(run.of('cgroup.destroy')).toEqual([{ driver: 'cgroupfs', paths: ['/kubepods/pod1'], within: '/kubepods' }]);
    expect(run.divergence()).toBeNull();
  });

  it('leaves the group of a pod that came while the groups were listed', () => {
    const run = start({}, { 'cgroup.listPods': ok({ pods: [{ uid: '1', path: '/kubepods/pod1' }] }) });
    run.send({ type: 'pods.known', uids: [] });
    run.time.advanceTo(run.time.now());
    run.send({ type: 'pods.known', uids: ['1'] });
    run.time.advanceTo(run.time.now());
    expect(run.of('cgroup.destroy')).toEqual([]);
    expect(run.logged()).not.toContain('Orphaned pod found, removing pod cgroups');
    expect(run.divergence()).toBeNull();
  });
});

describe('state files', () => {
  const held = { type: 'resources.held', cpus: {}, shared: '', memory: {} };
  const send = (run: ReturnType<typeof start>, change = {}) => {
    run.send({ ...held, ...change });
    run.time.advanceTo(run.time.now());
  };

  it('are written when it is known what is held, and left alone when they say it already', () => {
    const run = start();
    send(run);
    expect(run.of('host.writeCheckpoint')).toEqual([
      { path: '/var/lib/kubelet/cpu_manager_state', content: NONE },
      { path: '/var/lib/kubelet/memory_manager_state', content: NO_MEMORY },
    ]);
    send(run);
    expect(run.of('host.writeCheckpoint')).toHaveLength(2);
    const again = start({}, { 'host.readCheckpoints': ok({ contents: [NONE, NO_MEMORY] }) });
    send(again);
    expect(again.of('host.writeCheckpoint')).toEqual([]);
    const embedded = start({ usesCgroups: false });
    send(embedded);
    expect(embedded.of('host.writeCheckpoint')).toEqual([]);
    expect(run.divergence()).toBeNull();
  });

  it('of another kubelet tell what containers hold', () => {
    const change = {
      cpuManagerPolicy: 'static',
      memoryManagerPolicy: 'Static',
      managers: { cpuManager: CPUS, memoryManager: MEMORY },
    };
    const cpus = { u: { c: '1-2' } };
    const memory = { u: { c: [{ numaAffinity: [0], type: 'memory', size: '512' }] }, v: {} };
    const contents = [
      cpuStateText({ policy: 'static', shared: '0,3', entries: cpus }),
      memoryStateText(memoryState('Static', MEMORY, memory)),
    ];
    const run = start(change, { 'host.readCheckpoints': ok({ contents }) });
    expect(run.sent()).toContainEqual({
      to: 'parent/allocation',
      type: 'resources.handedOver',
      holdings: { u: { cpus: cpus.u, memory: memory.u }, v: { memory: {} } },
    });
    expect(run.divergence()).toBeNull();
  });

  it('follow what is held, and are tried again when they could not be written', () => {
    let tries = 0;
    const change = { cpuManagerPolicy: 'static', managers: { cpuManager: CPUS } };
    const run = start(change, { 'host.writeCheckpoint': () => (++tries === 3 ? fail('ENOSPC') : ok(null)) });
    send(run, { shared: '0-3' });
    send(run, { shared: '0,3', cpus: { u: { c: '1-2' } } });
    expect(run.logged()).toContain('Could not save checkpoint');
    run.time.advanceTo(run.time.now() + 10_000);
    const written = run.of('host.writeCheckpoint') as { content: string }[];
    expect(written).toHaveLength(4);
    expect(JSON.parse(written.at(-1)!.content)).toMatchObject({ defaultCpuSet: '0,3', entries: { u: { c: '1-2' } } });
    expect(run.divergence()).toBeNull();
  });
});

const MEMORY = { nodes: [{ id: 0, memory: { memory: { total: '2048', systemReserved: '512' } } }] };
const CPUS = {
  cpus: [0, 1, 2, 3].map((id) => ({ id, core: id, socket: 0, numaNode: 0 })),
  reserved: [0],
  wholeCores: false,
  isReservationStrict: false,
};
