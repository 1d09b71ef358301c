/**
 * CPUs of single containers with a real containerd, in `cpuset.cpus` of cgroup v1: those of a guaranteed container are
 * exclusive; all other containers lose them when it starts and get them back when it has ended.
 */
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cgroupV1Available, cgroupValue, removeCgroupRoot } from '../support/cgroups.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { askPodResources } from '../support/pod-resources.ts';
import { requirement } from '../support/require.ts';

const containerd = runtimes.find(({ name }) => name === 'containerd')!;
const fewCpus = cpus().length < 2 ? 'the machine has one CPU only' : null;
const { skip } = requirement('containerd', containerd.unavailable ?? cgroupV1Available() ?? fewCpus);

/** CPU 0 is reserved for the system; the next one is the first free one. */
const CONFIGURATION = `cpuManagerPolicy: static
reservedSystemCPUs: "0"
topologyManagerPolicy: single-numa-node
memoryManagerPolicy: Static
systemReserved: {memory: 100Mi}
evictionHard: {memory.available: 100Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 200Mi}}]`;
const others = cpus().length === 2 ? '0' : cpus().length === 3 ? '0,2' : `0,2-${cpus().length - 1}`;
const all = `0-${cpus().length - 1}`;

describe.skipIf(skip)('the CPU manager of a node on containerd', () => {
  let runtime: RuntimeInUse;
  let node: ObservedNode;

  beforeAll(async () => {
    runtime = await containerd.start();
    node = new ObservedNode(runtime, { configuration: CONFIGURATION });
    await node.start();
  });
  afterAll(async () => {
    await node.close();
    await runtime.close();
    removeCgroupRoot(node.cgroupRoot);
  });

  function write(name: string, resources: object): void {
    const { spec, ...pod } = shellPod(name, node.image, SLEEP);
    node.write(`${name}.json`, {
      ...pod,
      spec: { ...spec, containers: spec.containers.map((each) => ({ ...each, resources })) },
    });
  }

  async function groupOf(name: string, level: string): Promise<string> {
    const { id } = await node.running(name);
    const { uid } = await eventually(`${name} is known`, async () => {
      const known = (await node.context('kubelet/status')) as { pods: Record<string, { uid: string; name: string }> };
      return Object.values(known.pods).find((pod) => pod.name === `${name}-node1`) ?? null;
    });
    return `${node.cgroupRoot}/kubepods${level}/pod${uid}/${id}`;
  }

  const cpuset = (group: string) => cgroupValue('cpuset', group, 'cpuset.cpus');
  let shared: string;
  let own: string;

  it('lets containers share all CPUs', async () => {
    write('shared', {});
    shared = await groupOf('shared', '/besteffort');
    expect(cpuset(shared)).toBe(all);
  });

  it('gives a guaranteed container a CPU that the others leave, without a quota', async () => {
    write('own', { limits: { cpu: '1', memory: '32Mi' } });
    own = await groupOf('own', '');
    expect(cpuset(own)).toBe('1');
    expect(cgroupValue('cpu', own, 'cpu.cfs_quota_us')).toBe('-1');
    expect(cgroupValue('cpuset', own, 'cpuset.mems')).toBe('0');
    await eventually('the others leave it', () => cpuset(shared) === others);
  });

  it('tells agents which CPU it is, and which may be given', async () => {
    const answer = (method: string) => askPodResources(node.podResources, method);
    const { podResources } = (await answer('List')) as {
      podResources: readonly {
        name: string;
        containers: readonly { cpuIds?: readonly unknown[]; memory?: readonly object[] }[];
      }[];
    };
    const given = podResources.flatMap(({ name, containers }) =>
      containers.map(({ cpuIds = [] }) => [name, cpuIds.map(String)] as const),
    );
    expect(Object.fromEntries(given)).toEqual({ 'own-node1': ['1'], 'shared-node1': [] });
    const [own] = podResources.filter(({ name }) => name === 'own-node1').flatMap(({ containers }) => containers);
    expect(own?.memory).toMatchObject([{ memoryType: 'memory', topology: { nodes: [{}] } }]);
    const { cpuIds } = (await answer('GetAllocatableResources')) as { cpuIds: readonly unknown[] };
    expect(cpuIds.map(String)).toEqual(
      cpus()
        .map((_, id) => String(id))
        .slice(1),
    );
  });

  const stateFile = (name: string) => JSON.parse(readFileSync(join(node.rootDir, name), 'utf8'));

  it('says in the files of the kubelet what was given', async () => {
    const { entries, ...cpu } = await eventually('the CPUs', () => {
      const state = stateFile('cpu_manager_state');
      return state.entries ? state : undefined;
    });
    expect(cpu).toMatchObject({ policyName: 'static', defaultCpuSet: others });
    expect(Object.values(entries)).toEqual([{ c: '1' }]);
    const memory = await eventually('the memory', () => {
      const state = stateFile('memory_manager_state');
      return state.entries ? state : undefined;
    });
    const blocks = [{ numaAffinity: [0], type: 'memory', size: 32 * 1024 ** 2 }];
    expect(Object.values(memory.entries)).toEqual([{ c: blocks }]);
    expect(memory.machineState[0]).toMatchObject({ numberOfAssignments: 1, cells: [0] });
  });

  it('keeps it so over a restart of the agent', async () => {
    await node.stop('SIGKILL');
    await node.start();
    await node.running('own');
    expect(await groupOf('own', '')).toBe(own);
    expect({ own: cpuset(own), shared: cpuset(shared) }).toEqual({ own: '1', shared: others });
    write('late', {});
    expect(cpuset(await groupOf('late', '/besteffort'))).toBe(others);
  });

  it('refuses a pod for which there are too few', async () => {
    const count = cpus().length;
    write('more', { limits: { cpu: String(count), memory: '32Mi' } });
    const status = await node.untilPhase('more', 'Failed');
    expect(status).toMatchObject({
      reason: 'TopologyAffinityError',
      message: 'Pod was rejected: Resources cannot be allocated with Topology locality',
    });
  });

  it('gives the CPU back when the pod has ended, and its journal replays', async () => {
    node.remove('own.json');
    await node.gone('own');
    await eventually('the others have it', () => cpuset(shared) === all);
    await node.stop();
    for (const incarnation of node.incarnations()) {
      const { code, stderr } = node.statelet('replay', node.journal, `--incarnation=${incarnation}`);
      expect({ code, stderr }).toMatchObject({ code: 0 });
    }
  });
});
