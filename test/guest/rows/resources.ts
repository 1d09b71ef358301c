/** A node with exclusive CPUs, memory and pages: two NUMA nodes, huge pages, swap, and groups for the system. */
import { expect } from 'vitest';
import type { Guest } from '../support/guest.ts';
import { type Row, SLICES, scopeOf, sliceOf, textOf } from './row.ts';

const MIB = 1024 * 1024;
const SLEEP = { command: ['sh', '-c', 'while :; do sleep 1; done'] };

/** The resources of one container: so many whole CPUs, and so much memory. */
const alone = (cpu: number, more: object = {}) => ({
  ...SLEEP,
  resources: { limits: { cpu: String(cpu), memory: '64Mi', ...more } },
});

/** The numbers in a list such as `0-1,3`. */
const numbers = (list: string): readonly number[] =>
  list
    .split(',')
    .filter((part) => part !== '')
    .flatMap((part) => {
      const [first = 0, last = first] = part.split('-').map(Number);
      return Array.from({ length: last - first + 1 }, (_, index) => first + index);
    });

const cpusOf = async (guest: Guest, group: string) => numbers(await textOf(guest, `${group}/cpuset.cpus.effective`));

/** As in `files` of the plan: CPUs 0 and 1 are on node 0. */
const nodeOfCpu = (cpu: number): number => (cpu < 2 ? 0 : 1);

export const RESOURCES: readonly Row[] = [
  {
    what: '`enforceNodeAllocatable: [pods, kube-reserved, system-reserved]`',
    seen: 'each of the three slices has its `memory.max`, in systemd and in the kernel, also after `systemctl daemon-reload`',
    async see(guest, cluster) {
      const { status } = await cluster.untilNode('has its capacity', () => true);
      const capacity = Number.parseInt(status.capacity['memory']!, 10) * 1024;
      const wanted = {
        'kubepods.slice': String(capacity - (200 + 1_000) * MIB),
        'kube.slice': String(200 * MIB),
        'system.slice': String(1_000 * MIB),
      };
      const slices = Object.keys(wanted);
      const limits = async () => {
        const texts = await Promise.all(slices.map((slice) => textOf(guest, `/sys/fs/cgroup/${slice}/memory.max`)));
        return Object.fromEntries(slices.map((slice, at) => [slice, texts[at]]));
      };
      // The node may register before its groups have been created one after the other.
      await guest.until(
        'each of its groups has a limit',
        `cd /sys/fs/cgroup && cat ${slices.map((slice) => `${slice}/memory.max`).join(' ')}`,
        (output) => /^\d+\n\d+\n\d+\n$/.test(output),
      );
      expect(await limits()).toEqual(wanted);
      await guest.run('systemctl daemon-reload');
      expect(await limits()).toEqual(wanted);
      expect(Number.parseInt(status.allocatable['memory']!, 10) * 1024).toBe(
        capacity - (200 + 1_000 + 100 + 128) * MIB,
      );
    },
  },
  {
    what: '`cpuManagerPolicy: static`, `memoryManagerPolicy: Static`',
    seen: 'a container has exclusive CPUs, and memory from their NUMA node; all other containers run on the remaining CPUs',
    async see(guest, cluster) {
      await cluster.create('shared', SLEEP);
      await cluster.create('alone', alone(1));
      const [shared, owner] = [await cluster.runs('shared'), await cluster.runs('alone')];
      const [cpu, ...others] = await cpusOf(guest, scopeOf(owner));
      expect(others).toEqual([]);
      expect(await textOf(guest, `${scopeOf(owner)}/cpuset.mems.effective`)).toBe(String(nodeOfCpu(cpu!)));
      expect(await cpusOf(guest, scopeOf(shared))).toEqual([0, 1, 2, 3].filter((each) => each !== cpu));
      const state = JSON.parse(await textOf(guest, '/var/lib/kubelet/cpu_manager_state')) as State;
      expect(state).toMatchObject({ policyName: 'static', entries: { [owner.metadata.uid]: { app: String(cpu) } } });
      await cluster.delete('alone');
      await guest.until(
        'the CPU is of all again',
        `cat ${scopeOf(shared)}/cpuset.cpus.effective`,
        (output) => output.trim() === '0-3',
      );
      await cluster.delete('shared');
    },
  },
  {
    what: '`topologyManagerPolicy: single-numa-node`',
    seen: 'two CPUs come from one NUMA node; a pod that needs CPUs of both is rejected with `TopologyAffinityError`',
    async see(guest, cluster) {
      await cluster.create('two', alone(2));
      const cpus = await cpusOf(guest, scopeOf(await cluster.runs('two')));
      expect(cpus.map(nodeOfCpu)).toEqual([1, 1]);
      await cluster.delete('two');
      await cluster.create('three', alone(3));
      const refused = await cluster.untilPod('three', 'is refused', ({ status }) => status?.phase === 'Failed');
      expect(refused.status).toMatchObject({
        reason: 'TopologyAffinityError',
        message: 'Pod was rejected: Resources cannot be allocated with Topology locality',
      });
      await cluster.delete('three');
    },
  },
  {
    what: 'huge pages',
    seen: 'are capacity of the node; a pod has `hugetlb.2MB.max` and a volume of the pages, from one NUMA node',
    async see(guest, cluster) {
      const { status } = await cluster.untilNode('has its capacity', () => true);
      expect(status.capacity['hugepages-2Mi']).toBe('128Mi');
      const volume = { name: 'pages', emptyDir: { medium: 'HugePages' } };
      const container = {
        ...alone(1, { 'hugepages-2Mi': '16Mi' }),
        volumeMounts: [{ name: 'pages', mountPath: '/pages' }],
      };
      await cluster.create('pages', container, { volumes: [volume] });
      const pod = await cluster.runs('pages');
      expect(await textOf(guest, `${sliceOf(pod)}/hugetlb.2MB.max`)).toBe(String(16 * MIB));
      expect(await textOf(guest, `${scopeOf(pod)}/hugetlb.2MB.max`)).toBe(String(16 * MIB));
      const mounts = await guest.run('statelet exec pages -- grep " /pages " /proc/mounts');
      expect(mounts).toMatch(/ hugetlbfs .*pagesize=2M/);
      expect(await textOf(guest, `${scopeOf(pod)}/cpuset.mems.effective`)).toMatch(/^[01]$/);
      await cluster.delete('pages');
    },
  },
  {
    what: '`memorySwap.swapBehavior: LimitedSwap`',
    seen: 'a container of a `Burstable` pod swaps up to its share, a container of a `Guaranteed` pod nothing; `/stats/summary` shows the usage',
    async see(guest, cluster) {
      const resources = { requests: { memory: '256Mi' }, limits: { memory: '300Mi' } };
      const hungry =
        'dd if=/dev/zero of=/dev/null bs=310M count=1 2>/dev/null && touch /tmp/done; while :; do sleep 1; done';
      await cluster.create('swaps', { command: ['sh', '-c', hungry], resources });
      await cluster.create('stays', alone(1));
      const [swaps, stays] = [await cluster.runs('swaps'), await cluster.runs('stays')];
      const [memory, swap] = (await guest.run("awk '/^(MemTotal|SwapTotal):/ {print $2 * 1024}' /proc/meminfo")).split(
        '\n',
      );
      const share = Math.floor((256 * MIB * Number(swap)) / Number(memory) / 4_096) * 4_096;
      expect(Number(await textOf(guest, `${scopeOf(swaps)}/memory.swap.max`))).toBe(share);
      expect(await textOf(guest, `${scopeOf(stays)}/memory.swap.max`)).toBe('0');
      await guest.until(
        'it took more than its memory',
        'statelet exec swaps -- ls /tmp/done',
        (output) => output === '/tmp/done\n',
      );
      expect(Number(await textOf(guest, `${scopeOf(swaps)}/memory.swap.peak`))).toBeGreaterThan(0);
      const summary = JSON.parse(await guest.run('curl -sS http://127.0.0.1:10255/stats/summary')) as Summary;
      expect(summary.node.swap.swapAvailableBytes + summary.node.swap.swapUsageBytes).toBe(Number(swap));
      await cluster.delete('swaps');
      await cluster.delete('stays');
    },
  },
  {
    what: '`systemctl restart` with exclusive CPUs and memory',
    seen: 'a container keeps its resources, and no other container gets them',
    async see(guest, cluster) {
      await cluster.create('keeps', alone(1));
      const keeps = await cluster.runs('keeps');
      const given = await cpusOf(guest, scopeOf(keeps));
      await guest.run('systemctl restart statelet');
      await cluster.create('next', alone(1));
      const next = await cluster.runs('next');
      expect(await cpusOf(guest, scopeOf(keeps))).toEqual(given);
      expect(await cpusOf(guest, scopeOf(next))).not.toEqual(given);
      await cluster.delete('keeps');
      await cluster.delete('next');
    },
  },
  {
    what: 'a missing `kubeReservedCgroup`',
    seen: 'the agent does not start, and the error names the missing cgroup',
    async see(guest, cluster) {
      const configuration = '/etc/kubernetes/kubelet.yaml';
      await guest.run(`sed -i s,/kube.slice,/gone.slice, ${configuration}; systemctl restart --no-block statelet`);
      await guest.until('the agent says so', 'journalctl -u statelet -o cat -n 100', (output) =>
        output.includes('gone.slice'),
      );
      await guest.run(`sed -i s,/gone.slice,/kube.slice, ${configuration}; systemctl restart statelet`);
      await cluster.untilCondition('Ready', 'True');
      expect(await textOf(guest, `${SLICES}/memory.max`)).toMatch(/^\d+$/);
    },
  },
];

interface State {
  readonly policyName: string;
  readonly entries: Readonly<Record<string, Readonly<Record<string, string>>>>;
}
interface Summary {
  readonly node: { readonly swap: { readonly swapAvailableBytes: number; readonly swapUsageBytes: number } };
}
