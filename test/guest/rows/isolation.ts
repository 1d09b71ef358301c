/** The isolation of containers, on a runtime that supports all of it: containerd 2. And volumes that are shared. */
import { expect } from 'vitest';
import type { Pod } from '../../../src/machines/model/api/pod.ts';
import type { GuestCluster } from '../support/cluster.ts';
import type { Guest } from '../support/guest.ts';
import { properties, type Row, scopeOf, sliceOf, textOf, touchesNothing } from './row.ts';

const SLEEP = { command: ['sh', '-c', 'while :; do sleep 1; done'] };
const inPod = (pod: string, command: string): string => `statelet exec ${pod} -- sh -c '${command}'`;

/** Runs a pod with this container while it is inspected. */
async function withPod(
  [name, container, spec]: readonly [string, object, object?],
  cluster: GuestCluster,
  inspect: (pod: Awaited<ReturnType<GuestCluster['runs']>>) => Promise<void>,
): Promise<void> {
  await cluster.create(name, { ...SLEEP, ...container }, { ...spec });
  await inspect(await cluster.runs(name));
  await cluster.delete(name);
}

const appArmor = (profile: object) => ({ securityContext: { appArmorProfile: profile } });
const seccomp = (profile: object) => ({ securityContext: { seccompProfile: profile } });
/** The seccomp mode (0: none, 2: a filter) of the container's first process. */
const seccompOf = (guest: Guest, pod: string) => guest.run(inPod(pod, 'grep ^Seccomp: /proc/1/status'));

const IQN = 'iqn.2026-01.test:disk';
/** Starts the initiator and a target with one disk, which is blank. */
const TARGET = `set -e
systemctl start iscsid tgt
truncate -s 64M /srv/disk
tgtadm --lld iscsi --mode target --op new --tid 1 --targetname ${IQN}
tgtadm --lld iscsi --mode logicalunit --op new --tid 1 --lun 1 --backing-store /srv/disk
tgtadm --lld iscsi --mode target --op bind --tid 1 --initiator-address ALL`;

export const ISOLATION: readonly Row[] = [
  {
    what: 'the cgroup driver that containerd reports',
    seen: 'overrides `cgroupDriver: cgroupfs`: pods are in slices of systemd',
    see: (guest, cluster) =>
      withPod(['plain', {}], cluster, async (pod) => {
        const unit = sliceOf(pod).split('/').at(-1)!;
        expect(await properties(guest, unit, ['ActiveState', 'Transient'])).toEqual({
          ActiveState: 'active',
          Transient: 'yes',
        });
        expect(await textOf(guest, `${scopeOf(pod)}/cgroup.procs`)).not.toBe('');
      }),
  },
  {
    what: 'AppArmor',
    seen: "the runtime's profile by default, the node's by `Localhost`, none by `Unconfined`; a profile that is not loaded is rejected",
    async see(guest, cluster) {
      const profile = (pod: string) => guest.run(inPod(pod, 'cat /proc/1/attr/current'));
      await withPod(['by-default', {}], cluster, async () =>
        expect(await profile('by-default')).toMatch(/^cri-containerd\.apparmor\.d \(enforce\)/),
      );
      const localhost = appArmor({ type: 'Localhost', localhostProfile: 'deny-write' });
      await withPod(['localhost', localhost], cluster, async () => {
        expect(await profile('localhost')).toMatch(/^deny-write \(enforce\)/);
        expect(await guest.run(inPod('localhost', 'touch /tmp/file 2>&1'), true)).toContain('Permission denied');
      });
      await withPod(['unconfined', appArmor({ type: 'Unconfined' })], cluster, async () =>
        expect(await profile('unconfined')).toMatch(/^unconfined/),
      );
      await cluster.create('absent', { ...SLEEP, ...appArmor({ type: 'Localhost', localhostProfile: 'absent' }) });
      await cluster.untilPod('absent', 'is refused', ({ status }) =>
        /absent/.test(status?.containerStatuses?.[0]?.state?.waiting?.message ?? ''),
      );
      await cluster.delete('absent');
    },
  },
  {
    what: 'seccomp',
    seen: "a filter by `RuntimeDefault`, the node's by `Localhost` from `seccomp/`, none by `Unconfined`; without a profile, as `seccompDefault` sets",
    async see(guest, cluster) {
      for (const [name, container, mode] of [
        ['says-nothing', {}, 2],
        ['runtime-default', seccomp({ type: 'RuntimeDefault' }), 2],
        ['unconfined', seccomp({ type: 'Unconfined' }), 0],
      ] as const)
        await withPod([name, container], cluster, async () =>
          expect(await seccompOf(guest, name)).toMatch(new RegExp(`^Seccomp:\\s+${mode}$`, 'm')),
        );
      const localhost = seccomp({ type: 'Localhost', localhostProfile: 'no-mkdir.json' });
      await withPod(['localhost', localhost], cluster, async () =>
        expect(await guest.run(inPod('localhost', 'mkdir /tmp/folder 2>&1'), true)).toContain('not permitted'),
      );
    },
  },
  {
    what: '`hostUsers: false`',
    seen: 'root of the container is an unprivileged user on the machine; its volumes are id-mapped, so that files belong to root in both',
    see: (guest, cluster) =>
      withPod(
        [
          'users',
          { volumeMounts: [{ name: 'data', mountPath: '/data' }] },
          { hostUsers: false, volumes: [{ name: 'data', emptyDir: {} }] },
        ],
        cluster,
        async (pod) => {
          const [inside, outside, length] = (await guest.run(inPod('users', 'cat /proc/1/uid_map')))
            .trim()
            .split(/\s+/);
          expect([inside, length]).toEqual(['0', '65536']);
          expect(Number(outside)).toBeGreaterThanOrEqual(65_536);
          const first = `head -1 ${scopeOf(pod)}/cgroup.procs`;
          expect(await guest.run(`stat -c %u /proc/$(${first})`)).toBe(`${outside}\n`);
          await guest.run(inPod('users', 'touch /data/file'));
          expect(await guest.run(inPod('users', 'stat -c %u /data/file'))).toBe('0\n');
          const volume = `/var/lib/kubelet/pods/${pod.metadata.uid}/volumes/kubernetes.io~empty-dir/data`;
          expect(await guest.run(`stat -c %u ${volume}/file`)).toBe('0\n');
        },
      ),
  },
  {
    what: '`recursiveReadOnly`',
    seen: '`Enabled`: mounts below it are read-only too, and the status shows this; `Disabled`: they are writable',
    async see(guest, cluster) {
      const volumes = [{ name: 'outer', hostPath: { path: '/srv/outer' } }];
      const mounted = (recursiveReadOnly: string) => ({
        volumeMounts: [{ name: 'outer', mountPath: '/outer', readOnly: true, recursiveReadOnly }],
      });
      const write = (pod: string) => guest.run(inPod(pod, 'touch /outer/inner/file 2>&1'), true);
      await withPod(['recursive', mounted('Enabled'), { volumes }], cluster, async (pod) => {
        expect(await write('recursive')).toContain('Read-only file system');
        expect(pod.status?.containerStatuses?.[0]).toMatchObject({
          volumeMounts: [{ name: 'outer', mountPath: '/outer', readOnly: true, recursiveReadOnly: 'Enabled' }],
        });
      });
      await withPod(['flat', mounted('Disabled'), { volumes }], cluster, async () =>
        expect(await write('flat')).not.toContain('Read-only'),
      );
    },
  },
  {
    what: '`POST /checkpoint/<namespace>/<pod>/<container>`',
    seen: 'an archive of the container below `checkpoints`, created by criu; the container continues to run',
    see: (guest, cluster) =>
      withPod(['frozen', {}], cluster, async (pod) => {
        const made = await guest.run('curl -sSk -X POST https://127.0.0.1:10250/checkpoint/default/frozen/app');
        const [archive] = (JSON.parse(made) as { items: readonly string[] }).items;
        expect(await guest.run(`tar -tf ${archive}`)).toContain('checkpoint/inventory.img');
        expect(scopeOf(await cluster.runs('frozen'))).toBe(scopeOf(pod));
      }),
  },
  {
    what: 'project quotas (`LocalStorageCapacityIsolationFSQuotaMonitoring`)',
    seen: 'a volume of a pod with `hostUsers: false` has a project of its own; deleted files that are still open count, and can cause eviction; the project number is released with the pod',
    async see(guest, cluster) {
      const keeps =
        'exec 3>/data/file; rm /data/file; sleep 20; dd if=/dev/zero bs=1M count=20 >&3; while :; do sleep 1; done';
      const container = { command: ['sh', '-c', keeps], volumeMounts: [{ name: 'data', mountPath: '/data' }] };
      const volumes = [{ name: 'data', emptyDir: { sizeLimit: '10Mi' } }];
      await cluster.create('counted', container, { hostUsers: false, volumes });
      const { metadata } = await cluster.runs('counted');
      const volume = `/var/lib/kubelet/pods/${metadata.uid}/volumes/kubernetes.io~empty-dir/data`;
      expect(await textOf(guest, '/etc/projects')).toBe(`1048577:${volume}`);
      expect(await textOf(guest, '/etc/projid')).toBe('volume1048577:1048577');
      expect(await guest.run('repquota -P /var/lib/kubelet')).toMatch(/^volume1048577 /m);
      const { status } = await cluster.untilPod('counted', 'is evicted', (pod) => pod.status?.phase === 'Failed');
      expect(status).toMatchObject({
        reason: 'Evicted',
        message: 'Usage of EmptyDir volume "data" exceeds the limit "10Mi". ',
      });
      await cluster.delete('counted');
      await guest.until('no project is left', 'cat /etc/projects /etc/projid', (output) => output === '');
    },
  },
  {
    what: 'a volume of an image',
    seen: 'has its files, read-only',
    see: (guest, cluster) =>
      withPod(
        [
          'image',
          { volumeMounts: [{ name: 'image', mountPath: '/image' }] },
          { volumes: [{ name: 'image', image: { reference: 'localhost/bb:1', pullPolicy: 'Never' } }] },
        ],
        cluster,
        async () => {
          expect(await guest.run(inPod('image', 'ls /image/bin/busybox'))).toBe('/image/bin/busybox\n');
          expect(await guest.run(inPod('image', 'touch /image/file 2>&1'), true)).toContain('Read-only file system');
        },
      ),
  },
  {
    what: 'a volume of an NFS server',
    seen: 'is the folder of the server, also after `systemctl restart`; its pod ends when the server does not answer any more',
    async see(guest, cluster) {
      const share = '/srv/share';
      await guest.run(
        `systemctl start nfs-server; mkdir -p ${share}; exportfs -o rw,no_root_squash 127.0.0.1:${share}`,
      );
      const volumes = [{ name: 'share', nfs: { server: '127.0.0.1', path: share } }];
      const container = { volumeMounts: [{ name: 'share', mountPath: '/share' }] };
      const folder = (uid: string) => `/var/lib/kubelet/pods/${uid}/volumes/kubernetes.io~nfs/share`;
      const isSilent = 'iptables -$1 INPUT -i lo -p tcp --dport 2049 -j DROP';
      await withPod(['shares', container, { volumes }], cluster, async ({ metadata }) => {
        const path = folder(metadata.uid);
        expect(await guest.run(`findmnt -n -o FSTYPE,SOURCE ${path}`)).toMatch(/^nfs4? +127\.0\.0\.1:\/srv\/share\n$/);
        await guest.run(inPod('shares', 'echo one > /share/file'));
        expect(await textOf(guest, `${share}/file`)).toBe('one');
        await touchesNothing(guest, 'systemctl restart statelet', async () => {
          await cluster.runs('shares');
        });
        await guest.run(`echo two > ${share}/file`);
        const read = inPod('shares', 'cat /share/file');
        await guest.until('the pod reads what was written to the server', read, (output) => output === 'two\n');
        await guest.run(isSilent.replace('$1', 'I'));
      });
      expect(await guest.run('findmnt -n -t nfs,nfs4', true)).toBe('');
      await guest.run(isSilent.replace('$1', 'D'));
    },
  },
  {
    what: 'a volume of an iSCSI target',
    seen: 'is formatted and mounted when the Node lists it as attached, is the same after `systemctl restart`, and its session ends with the pod',
    async see(guest, cluster) {
      await guest.run(TARGET);
      const volumes = [{ name: 'disk', iscsi: { targetPortal: '127.0.0.1', iqn: IQN, lun: 1, fsType: 'ext4' } }];
      const container = { volumeMounts: [{ name: 'disk', mountPath: '/disk' }] };
      const inUse = `kubernetes.io/iscsi/127.0.0.1:${IQN}:1`;
      const see = async ({ metadata }: Pod) => {
        const path = `/var/lib/kubelet/pods/${metadata.uid}/volumes/kubernetes.io~iscsi/disk`;
        expect(await guest.run(`findmnt -n -o FSTYPE,SOURCE ${path}`)).toMatch(/^ext4 +\/dev\/sd[a-z]\n$/);
        await guest.run(inPod('disk', 'echo one > /disk/file; sync'));
        await touchesNothing(guest, 'systemctl restart statelet', async () => {
          await cluster.runs('disk');
        });
        const read = inPod('disk', 'cat /disk/file');
        await guest.until('the restarted agent knows the pod', read, (output) => output === 'one\n');
        expect(await guest.run('iscsiadm -m session')).toContain(IQN);
      };
      await Promise.all([cluster.attach(inUse), withPod(['disk', container, { volumes }], cluster, see)]);
      const sessions = 'iscsiadm -m session 2>&1 || true';
      await guest.until('no session is left', sessions, (output) => output.includes('No active sessions'));
      await cluster.untilNode('uses no volume', ({ status }) => (status.volumesInUse ?? []).length === 0);
      await withPod(['disk', container, { volumes }], cluster, async () => {
        expect(await guest.run(inPod('disk', 'cat /disk/file'))).toBe('one\n');
      });
    },
  },
];
