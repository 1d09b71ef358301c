/** The tables of checks on machines with systemd and cgroup v2: one guest each, with its rows in order. */
import { MOUNT_CHECKOUT } from '../support/checkout.ts';
import type { Plan } from '../support/suite.ts';
import { ENDS } from './ends.ts';
import { FLEET } from './fleet.ts';
import { GROUPS } from './groups.ts';
import { ISOLATION } from './isolation.ts';
import { PEER } from './peer.ts';
import { JOURNAL, PRESSURE } from './pressure.ts';
import { RESOURCES } from './resources.ts';
import { SERVICE } from './service.ts';
import { TESTS } from './tests.ts';

/** The configuration of every node of a cluster here: authorization is not tested. */
const OPEN = { authentication: { anonymous: { enabled: true }, webhook: { enabled: false } } };

const mounted = (label: string, folder: string, options = 'defaults'): string => `
mkdir -p ${folder}
echo 'LABEL=${label} ${folder} ext4 ${options} 0 0' >>/etc/fstab
mount ${folder}`;

export const SUITES = {
  core: { name: 'core', rows: [...SERVICE, ...GROUPS, ...ENDS] },
  resources: {
    name: 'resources',
    joined: true,
    hardware: {
      numaNodes: 2,
      memoryMiB: 1_536,
      kernelOptions: ['hugepagesz=2M', 'hugepages=64'],
      disks: [{ name: 'swap', size: '1G', format: 'swap' }],
    },
    prepare: 'swapon LABEL=swap\nsystemctl start kube.slice',
    configuration: {
      ...OPEN,
      failSwapOn: false,
      memorySwap: { swapBehavior: 'LimitedSwap' },
      cpuManagerPolicy: 'static',
      memoryManagerPolicy: 'Static',
      topologyManagerPolicy: 'single-numa-node',
      kubeReserved: { cpu: '500m', memory: '200Mi' },
      systemReserved: { cpu: '500m', memory: '1000Mi' },
      evictionHard: { 'memory.available': '100Mi' },
      reservedMemory: [{ numaNode: 0, limits: { memory: '1300Mi' } }],
      enforceNodeAllocatable: ['pods', 'kube-reserved', 'system-reserved'],
      kubeReservedCgroup: '/kube.slice',
      systemReservedCgroup: '/system.slice',
    },
    rows: RESOURCES,
  },
  pressure: {
    name: 'pressure',
    joined: true,
    hardware: {
      memoryMiB: 2_048,
      disks: [
        { name: 'images', size: '1G', format: [] },
        { name: 'kubelet', size: '600M', format: ['-N', '6000'] },
        { name: 'journal', size: '48M', format: [] },
      ],
    },
    // By default systemd limits a container to 15% of the machine's processes, too few to exhaust them.
    prepare: `systemctl stop containerd
sysctl -w kernel.pid_max=1500
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\\nDefaultTasksMax=infinity\\n' >/etc/systemd/system.conf.d/tasks.conf
systemctl daemon-reexec
${mounted('images', '/var/lib/containerd')}
${mounted('kubelet', '/var/lib/kubelet')}
${mounted('journal', JOURNAL)}
systemctl start containerd`,
    flags: [`--journal-dir=${JOURNAL}`],
    journal: JOURNAL,
    configuration: {
      ...OPEN,
      podPidsLimit: -1,
      kubeReserved: {},
      evictionHard: {
        'memory.available': '500Mi',
        'nodefs.available': '150Mi',
        'nodefs.inodesFree': '1000',
        'imagefs.available': '100Mi',
        'pid.available': '600',
      },
      evictionPressureTransitionPeriod: '10s',
    },
    rows: PRESSURE,
  },
  isolation: {
    name: 'isolation',
    debian: 'forky',
    joined: true,
    hardware: {
      disks: [{ name: 'kubelet', size: '600M', format: ['-O', 'quota,project', '-E', 'quotatype=prjquota'] }],
    },
    prepare: `${mounted('kubelet', '/var/lib/kubelet', 'prjquota')}
apparmor_parser -r /mnt/deny-write.apparmor
mkdir -p /var/lib/kubelet/seccomp /srv/outer/inner
cp /mnt/no-mkdir.json /var/lib/kubelet/seccomp/
mount -t tmpfs tmpfs /srv/outer/inner`,
    configuration: {
      ...OPEN,
      cgroupDriver: 'cgroupfs',
      seccompDefault: true,
      featureGates: { MemoryQoS: true, LocalStorageCapacityIsolationFSQuotaMonitoring: true },
    },
    rows: ISOLATION,
  },
  fleet: {
    name: 'fleet',
    joined: true,
    // A shutdown that gives pods time to end ends those of the API server for good, as the kubelet's does. The test API
    // server takes JSON only; a Go kubelet sends protobuf unless it is told.
    configuration: { ...OPEN, shutdownGracePeriodByPodPriority: [], contentType: 'application/json' },
    rows: FLEET,
  },
  peer: {
    name: 'peer',
    joined: true,
    configuration: {
      ...OPEN,
      shutdownGracePeriodByPodPriority: [],
      contentType: 'application/json',
    },
    rows: PEER,
  },
  tests: {
    name: 'tests',
    debian: 'forky',
    hardware: { memoryMiB: 6_144, disks: [{ name: 'work', size: '8G', format: [] }] },
    // The folder of the runtimes and nodes of tests, which is in memory by default.
    prepare: `${MOUNT_CHECKOUT}
mount LABEL=work /tmp
chmod 1777 /tmp`,
    checkout: true,
    rows: TESTS,
  },
} as const satisfies Readonly<Record<string, Plan>>;
