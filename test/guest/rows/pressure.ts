/** A node that runs out of each of its resources because of its pods, and the kubelet's reaction. */
import { expect } from 'vitest';
import type { GuestCluster } from '../support/cluster.ts';
import type { Guest } from '../support/guest.ts';
import type { Row } from './row.ts';

export const JOURNAL = '/var/lib/statelet-journal';
const SLEEP = 'while :; do sleep 5; done';
const shell = (script: string) => ({ command: ['sh', '-c', script] });
const DATA = { volumeMounts: [{ name: 'data', mountPath: '/data' }] };

interface Shortage {
  readonly condition: 'MemoryPressure' | 'DiskPressure' | 'PIDPressure';
  /** A script that uses it up, in a volume `/data`. */
  readonly takes: string;
  readonly medium?: 'Memory';
  /** The text in the message of the pod. */
  readonly resource: string;
}

/** A pod that uses too much is evicted while another one continues; the node gets the condition, and loses it again. */
async function evicts(cluster: GuestCluster, { condition, takes, medium, resource }: Shortage): Promise<void> {
  const volumes = [{ name: 'data', emptyDir: medium === undefined ? {} : { medium } }];
  await cluster.create('modest', shell(SLEEP));
  await cluster.runs('modest');
  await cluster.create('greedy', { ...shell(`${takes}; ${SLEEP}`), ...DATA }, { volumes });
  await cluster.untilCondition(condition, 'True');
  const { status } = await cluster.untilPod('greedy', 'is evicted', (pod) => pod.status?.phase === 'Failed');
  expect(status).toMatchObject({ reason: 'Evicted' });
  expect(status!.message).toMatch(new RegExp(`^The node was low on resource: ${resource}\\. Threshold quantity: `));
  await cluster.untilEvent('Evicted', new RegExp(`low on resource: ${resource}`));
  await cluster.untilCondition(condition, 'False');
  await cluster.runs('modest');
  for (const name of ['greedy', 'modest']) await cluster.delete(name);
}

const evicting = (what: string, seen: string, shortage: Shortage): Row => ({
  what: `eviction by ${what}`,
  seen,
  see: (_guest, cluster) => evicts(cluster, shortage),
});

const summaryOf = async (guest: Guest): Promise<Summary> =>
  JSON.parse(await guest.run('curl -sS http://127.0.0.1:10255/stats/summary')) as Summary;

export const PRESSURE: readonly Row[] = [
  {
    what: 'file systems of their own for images and for `/var/lib/kubelet`',
    seen: '`/stats/summary` has each with its size',
    async see(guest) {
      const { node } = await summaryOf(guest);
      const sizes = await guest.run('df -B1 --output=size /var/lib/kubelet /var/lib/containerd | tail -n +2');
      expect([node.fs.capacityBytes, node.runtime.imageFs.capacityBytes]).toEqual(
        sizes.trim().split(/\s+/).map(Number),
      );
    },
  },
  evicting('memory', 'the pod that exceeds its request is evicted; `MemoryPressure` comes and goes', {
    condition: 'MemoryPressure',
    takes: 'dd if=/dev/zero of=/data/file bs=1M count=1300',
    medium: 'Memory',
    resource: 'memory',
  }),
  evicting('disk', 'the pod that fills its volume is evicted; `DiskPressure` comes and goes', {
    condition: 'DiskPressure',
    takes: 'dd if=/dev/zero of=/data/file bs=1M count=430',
    resource: 'ephemeral-storage',
  }),
  evicting('inodes', 'the pod that creates thousands of files is evicted', {
    condition: 'DiskPressure',
    takes: 'cd /data; seq 5200 | xargs touch',
    resource: 'inodes',
  }),
  evicting('pids', 'the pod that starts hundreds of processes is evicted; `PIDPressure` comes and goes', {
    condition: 'PIDPressure',
    takes: 'for i in $(seq 900); do sleep 100000 & done',
    resource: 'pids',
  }),
  {
    what: 'the disk of the images is full',
    seen: '`DiskPressure` as long as it is full, although `/var/lib/kubelet` has room',
    async see(guest, cluster) {
      // Unused images are removed: this pod uses those of the following rows.
      await cluster.create('modest', shell(SLEEP));
      await cluster.runs('modest');
      await guest.run(
        'fallocate -l $(($(df -B1 --output=avail /var/lib/containerd | tail -1) - 50000000)) /var/lib/containerd/fill',
      );
      await cluster.untilCondition('DiskPressure', 'True');
      await guest.run('rm /var/lib/containerd/fill');
      await cluster.untilCondition('DiskPressure', 'False');
      await cluster.delete('modest');
    },
  },
  {
    what: 'limits of `ephemeral-storage` and of `emptyDir.sizeLimit`',
    seen: "a pod that exceeds its limit is evicted, with the kubelet's texts",
    async see(_guest, cluster) {
      const fills = { ...shell(`dd if=/dev/zero of=/data/file bs=1M count=20; ${SLEEP}`), ...DATA };
      const volume = (emptyDir: object) => ({ volumes: [{ name: 'data', emptyDir }] });
      await cluster.create('volume', fills, volume({ sizeLimit: '10Mi' }));
      await cluster.create('storage', { ...fills, resources: { limits: { 'ephemeral-storage': '10Mi' } } }, volume({}));
      for (const [name, message] of [
        ['volume', 'Usage of EmptyDir volume "data" exceeds the limit "10Mi". '],
        ['storage', 'Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. '],
      ] as const) {
        const { status } = await cluster.untilPod(name, 'is evicted', (pod) => pod.status?.phase === 'Failed');
        expect(status).toMatchObject({ reason: 'Evicted', message });
        await cluster.delete(name);
      }
    },
  },
  {
    what: 'a container that is limited to a twentieth of a CPU and needs a whole one',
    seen: 'its pressure (PSI) is above one half in `/stats/summary`',
    async see(guest, cluster) {
      await cluster.create('busy', { ...shell('while :; do :; done'), resources: { limits: { cpu: '50m' } } });
      await cluster.runs('busy');
      const pressure =
        'curl -sS http://127.0.0.1:10255/stats/summary | jq \'.pods[] | select(.podRef.name == "busy").containers[0].cpu.psi.some.avg10\'';
      await guest.until('it waits', pressure, (output) => Number(output) > 50);
      await cluster.delete('busy');
    },
  },
  {
    what: 'the journal on a full disk',
    seen: 'the node continues: a pod starts; when there is room again, the journal continues, with a record of the gap',
    async see(guest, cluster) {
      await guest.run(`dd if=/dev/zero of=${JOURNAL}/fill bs=64k 2>/dev/null; df ${JOURNAL}`);
      await cluster.create('unwritten', shell(SLEEP));
      await cluster.runs('unwritten');
      await guest.run(`rm ${JOURNAL}/fill`);
      await guest.until(
        'the journal goes on',
        `cat ${JOURNAL}/j-*.ndjson | grep -c '"gap","upto"'`,
        (output) => Number(output) > 0,
      );
      await cluster.delete('unwritten');
    },
  },
  {
    what: 'a process of the machine that takes all memory',
    seen: 'event `SystemOOM` of the node; the agent and the runtime go on',
    async see(guest, cluster) {
      await guest.run('systemd-run --wait -q -p OOMScoreAdjust=1000 tail /dev/zero', true);
      await cluster.untilEvent('SystemOOM', /^System OOM encountered, victim process: tail, pid: \d+$/);
      await cluster.untilCondition('MemoryPressure', 'False');
      expect(await guest.run('systemctl is-active statelet containerd')).toBe('active\nactive\n');
      await cluster.create('after', shell(SLEEP));
      await cluster.runs('after');
      await cluster.delete('after');
    },
  },
];

interface FileSystem {
  readonly capacityBytes: number;
}
interface Summary {
  readonly node: { readonly fs: FileSystem; readonly runtime: { readonly imageFs: FileSystem } };
}
