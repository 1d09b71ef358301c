/** A node with pods of many kinds, once with the Go kubelet and once with Statelet: what both make of the same pods. */
import { expect } from 'vitest';
import type { Pod } from '../../../src/machines/model/api/pod.ts';
import type { GuestCluster } from '../support/cluster.ts';
import type { Guest } from '../support/guest.ts';
import { KUBEADM_NODE, type Row, SLICES, sliceOf } from './row.ts';

const SLEEP = { image: 'localhost/bb:1', imagePullPolicy: 'Never', command: ['sh', '-c', 'while :; do sleep 5; done'] };

type Resources = Readonly<Record<string, unknown>>;

const container = (name: string, resources: Resources = {}, more: object = {}) => ({
  ...SLEEP,
  name,
  resources,
  ...more,
});
const both = (cpu: string, memory: string) => ({ limits: { cpu, memory }, requests: { cpu, memory } });

/** The pods by name; what is compared are their cgroups and statuses. */
const SPECS: Readonly<Record<string, object>> = {
  'best-effort': { containers: [container('app')] },
  limited: {
    containers: [
      container('app', { limits: { cpu: '250m', memory: '64Mi' }, requests: { cpu: '100m', memory: '32Mi' } }),
    ],
  },
  requesting: { containers: [container('app', { requests: { cpu: '100m', memory: '32Mi' } })] },
  'cpu-only': { containers: [container('app', { requests: { cpu: '70m' }, limits: { cpu: '300m' } })] },
  'memory-only': {
    containers: [container('app', { limits: { memory: '50000001' }, requests: { memory: '33333333' } })],
  },
  // A limit as small would keep the emulated runtime from creating the sandbox.
  tiny: { containers: [container('app', { requests: { cpu: '1m' } })] },
  half: { containers: [container('app', { limits: { cpu: '123m', memory: '40Mi' } }), container('other')] },
  'two-limited': {
    containers: [
      container('app', { limits: { cpu: '150m', memory: '40Mi' }, requests: { cpu: '20m', memory: '20Mi' } }),
      container('other', { limits: { cpu: '50m', memory: '24Mi' } }),
    ],
  },
  guaranteed: { containers: [container('app', both('110m', '36Mi')), container('other', both('40m', '20Mi'))] },
  'large-init': {
    initContainers: [container('before', both('400m', '96Mi'), { command: ['true'] })],
    containers: [container('app', both('100m', '32Mi'))],
  },
  sidecar: {
    initContainers: [container('beside', both('60m', '24Mi'), { restartPolicy: 'Always' })],
    containers: [container('app', { limits: { memory: '32Mi' } })],
  },
  'pod-level': { resources: both('300m', '80Mi'), containers: [container('app'), container('other')] },
  'pod-and-container': {
    resources: { limits: { cpu: '400m', memory: '100Mi' }, requests: { cpu: '150m', memory: '50Mi' } },
    containers: [container('app', { limits: { memory: '40Mi' }, requests: { cpu: '50m' } }), container('other')],
  },
};

/** Resizes of the container `app`, in their order. */
const RESIZES: readonly (readonly [pod: string, resources: Resources])[] = [
  ['limited', { limits: { cpu: '500m', memory: '96Mi' }, requests: { cpu: '250m', memory: '64Mi' } }],
  ['limited', { limits: { cpu: '90m', memory: '48Mi' }, requests: { cpu: '45m', memory: '24Mi' } }],
  ['requesting', { requests: { cpu: '200m', memory: '48Mi' } }],
  ['cpu-only', { requests: { cpu: '10m' }, limits: { cpu: '20m' } }],
  ['two-limited', { limits: { cpu: '75m', memory: '60Mi' }, requests: { cpu: '30m', memory: '30Mi' } }],
  ['guaranteed', both('220m', '44Mi')],
  ['sidecar', { limits: { memory: '48Mi' }, requests: { memory: '40Mi' } }],
];

const FILES = [
  'cpu.max',
  'cpu.weight',
  'cpu.idle',
  'cpuset.cpus',
  'memory.max',
  'memory.high',
  'memory.low',
  'memory.min',
  'memory.swap.max',
  'memory.oom.group',
  'pids.max',
];

/** Names in place of the identities of pods and containers, so that two nodes can be compared. */
function namesOf(pods: readonly Pod[]): readonly (readonly [identity: string, name: string])[] {
  return pods.flatMap((pod) => {
    const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
    const containers = [...initContainerStatuses, ...containerStatuses].map(
      ({ name, containerID = '' }) =>
        [`cri-containerd-${containerID.replace('containerd://', '')}.scope`, name] as const,
    );
    return [[sliceOf(pod).split('/').at(-1)!, pod.metadata.name] as const, ...containers];
  });
}

/** The files of every cgroup below `kubepods.slice`, by name. */
async function groupsOf(guest: Guest, cluster: GuestCluster): Promise<Readonly<Record<string, string>>> {
  const each = `for file in ${FILES.join(' ')}; do [ -e $group/$file ] && echo "$group/$file=$(cat $group/$file)"; done`;
  const text = await guest.run(`find ${SLICES} -type d | while read group; do ${each}; done; true`);
  const names = namesOf(await cluster.pods());
  const named = names.reduce((all, [identity, name]) => all.replaceAll(identity, name), text.trim());
  const sandboxes = named.replaceAll(/cri-containerd-[0-9a-f]{64}\.scope/g, 'sandbox').replaceAll(`${SLICES}/`, '');
  const lines = sandboxes.split('\n').toSorted((a, b) => (a < b ? -1 : 1));
  return Object.fromEntries(lines.map((line) => line.split(/=(.*)/, 2)));
}

/** The parts of each status that come from resources. */
async function statusesOf(cluster: GuestCluster): Promise<Readonly<Record<string, object>>> {
  const pods = await cluster.pods();
  const parts = pods.map(({ metadata, status }) => {
    const containers = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
    const conditions = (status?.conditions ?? []).map(
      ({ type, status: is, reason }) => `${type}=${is} ${reason ?? ''}`,
    );
    return [
      metadata.name,
      {
        phase: status?.phase,
        qosClass: status?.qosClass,
        conditions: conditions.toSorted(),
        containers: containers.map(({ name, resources, allocatedResources, restartCount }) => ({
          name,
          resources,
          allocatedResources,
          restartCount,
        })),
      },
    ] as const;
  });
  return Object.fromEntries(parts.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** As each agent has applied what it can: the resize is over when no condition is left and the status has it. */
async function resizeAll(cluster: GuestCluster): Promise<void> {
  for (const [name, resources] of RESIZES) {
    await cluster.resize(name, resources);
    const wanted = resources as { limits?: Record<string, string>; requests?: Record<string, string> };
    await cluster.untilPod(name, 'has its new resources', ({ status }) => {
      const has = status?.containerStatuses?.find((each) => each.name === 'app')?.resources;
      const isGiven = (kind: 'limits' | 'requests') =>
        Object.entries(wanted[kind] ?? {}).every(([resource, amount]) => has?.[kind]?.[resource] === amount);
      const isOver = status?.conditions?.some(({ type }) => type.startsWith('PodResize')) !== true;
      return isGiven('limits') && isGiven('requests') && isOver;
    });
  }
}

/** Runs the pods under the agent of the unit, and removes them. */
async function seenUnder(guest: Guest, cluster: GuestCluster) {
  const look = async () => ({ groups: await groupsOf(guest, cluster), statuses: await statusesOf(cluster) });
  for (const [name, spec] of Object.entries(SPECS)) await cluster.createPod(name, spec);
  await cluster.allRun();
  const started = await look();
  await resizeAll(cluster);
  const resized = await look();
  for (const name of Object.keys(SPECS)) await cluster.delete(name);
  return { started, resized };
}

type Agent = 'kubelet' | 'statelet';
/** By agent, what its row saw. */
const seen = new Map<Agent, Awaited<ReturnType<typeof seenUnder>>>();

function seenOf(agent: Agent) {
  const found = seen.get(agent);
  if (found === undefined) throw new Error(`the row of ${agent} has failed: there is nothing to compare`);
  return found;
}

export const PEER: readonly Row[] = [
  {
    what: 'pods of thirteen kinds under the Go kubelet',
    seen: 'run, and are resized',
    needs: 'kubelet',
    async see(guest, cluster) {
      await guest.run(KUBEADM_NODE);
      await cluster.untilAgent('kubelet');
      seen.set('kubelet', await seenUnder(guest, cluster));
      await guest.run('systemctl disable --now kubelet; systemctl enable --now statelet');
      await cluster.untilAgent('statelet');
    },
  },
  {
    what: 'the same pods under Statelet',
    seen: 'run, and are resized',
    async see(guest, cluster) {
      seen.set('statelet', await seenUnder(guest, cluster));
    },
  },
  {
    what: 'the cgroups of pods, containers and sandboxes',
    seen: 'have the same values under both, after the start and after the resizes',
    needs: 'kubelet',
    async see() {
      const [here, there] = [seenOf('statelet'), seenOf('kubelet')];
      expect(here.started.groups).toEqual(there.started.groups);
      expect(here.resized.groups).toEqual(there.resized.groups);
    },
  },
  {
    what: 'phases, QoS classes, conditions and resources in the statuses',
    seen: 'are the same under both, after the start and after the resizes',
    needs: 'kubelet',
    async see() {
      const [here, there] = [seenOf('statelet'), seenOf('kubelet')];
      expect(here.started.statuses).toEqual(there.started.statuses);
      expect(here.resized.statuses).toEqual(there.resized.statuses);
    },
  },
];
