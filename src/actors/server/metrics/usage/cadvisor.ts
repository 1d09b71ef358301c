/** The metrics of `/metrics/cadvisor`, from one reading of all cgroups. Names and labels are cAdvisor's. */
import { type MachineInfo, physicalCoresOf, socketsOf } from '../../../../machines/model/operations/host.ts';
import type { CgroupSample } from '../../../stats/cgroup-samples.ts';
import type { DiskActivity, DiskSample, InterfaceUsage } from '../../../stats/machine-devices.ts';
import type { DeviceIo } from '../../../stats/usage-types.ts';
import type { Family, FamilyType, Sample } from '../instruments.ts';

const NANOSECONDS = 1e9;
const MS_PER_SECOND = 1_000;

type Values = readonly { readonly value: bigint | number; readonly labels?: Readonly<Record<string, string>> }[];
type Reader = (sample: CgroupSample) => bigint | number | null | undefined | Values;

interface Definition {
  readonly help: string;
  readonly type: FamilyType;
  readonly read: Reader;
  /** Whether the value is constant: it then has no timestamp. */
  readonly isFixed?: boolean;
}

const seconds = (nanoseconds: bigint | undefined): number | undefined =>
  nanoseconds === undefined ? undefined : Number(nanoseconds) / NANOSECONDS;
const counter = (help: string, read: Reader): Definition => ({ help, type: 'counter', read });
const gauge = (help: string, read: Reader): Definition => ({ help, type: 'gauge', read });
const fixed = (help: string, read: Reader): Definition => ({ help, type: 'gauge', read, isFixed: true });
const network =
  (field: Exclude<keyof InterfaceUsage, 'name'>): Reader =>
  ({ interfaces }) =>
    (interfaces ?? []).map((each) => ({ value: each[field], labels: { interface: each.name } }));
const device =
  (field: Exclude<keyof DeviceIo, 'device'>): Reader =>
  ({ usage }) =>
    usage.io.devices.map((each) => ({ value: each[field], labels: { device: each.device } }));

const MICROSECONDS = 1e6;

/** Pressure of single cgroups exists in version 2 only: version 1 has at most that of the whole machine. */
const waiting =
  (of: 'cpu' | 'memory' | 'io', kind: 'some' | 'full'): Reader =>
  ({ usage }) =>
    usage.cpu?.pressure == null ? null : Number(usage[of]?.pressure?.[kind].total ?? 0n) / MICROSECONDS;
const pressure = (of: 'cpu' | 'memory' | 'io', what: string): Readonly<Record<string, Definition>> => ({
  [`container_pressure_${of}_stalled_seconds_total`]: counter(
    `Total time duration no tasks in the container could make progress due to ${what} congestion.`,
    waiting(of, 'full'),
  ),
  [`container_pressure_${of}_waiting_seconds_total`]: counter(
    `Total time duration tasks in the container have waited due to ${what} congestion.`,
    waiting(of, 'some'),
  ),
});

const GROUP_DISKS: Readonly<Record<string, Reader>> = {
  container_fs_reads_bytes_total: device('readBytes'),
  container_fs_writes_bytes_total: device('writtenBytes'),
  container_fs_reads_total: device('reads'),
  container_fs_writes_total: device('writes'),
};

const DEFINITIONS: Readonly<Record<string, Definition>> = {
  container_cpu_usage_seconds_total: counter('Cumulative cpu time consumed in seconds.', ({ usage }) =>
    usage.cpu === null ? [] : [{ value: seconds(usage.cpu.usage)!, labels: { cpu: 'total' } }],
  ),
  container_cpu_user_seconds_total: counter('Cumulative user cpu time consumed in seconds.', ({ usage }) =>
    seconds(usage.cpu?.user),
  ),
  container_cpu_system_seconds_total: counter('Cumulative system cpu time consumed in seconds.', ({ usage }) =>
    seconds(usage.cpu?.system),
  ),
  container_cpu_cfs_periods_total: counter('Number of elapsed enforcement period intervals.', ({ usage, limits }) =>
    limits.cpuQuotaUs === null ? null : usage.cpu?.periods,
  ),
  container_cpu_cfs_throttled_periods_total: counter('Number of throttled period intervals.', ({ usage, limits }) =>
    limits.cpuQuotaUs === null ? null : usage.cpu?.throttledPeriods,
  ),
  container_cpu_cfs_throttled_seconds_total: counter(
    'Total time duration the container has been throttled.',
    ({ usage, limits }) => (limits.cpuQuotaUs === null ? null : seconds(usage.cpu?.throttled)),
  ),
  container_cpu_cfs_burst_periods_total: counter('Number of periods when burst occurs.', ({ usage, limits }) =>
    limits.cpuQuotaUs === null ? null : usage.cpu?.bursts?.periods,
  ),
  container_cpu_cfs_burst_seconds_total: counter(
    'Total time duration the container has been bursted.',
    ({ usage, limits }) => (limits.cpuQuotaUs === null ? null : seconds(usage.cpu?.bursts?.nanoseconds)),
  ),
  container_memory_cache: gauge('Number of bytes of page cache memory.', ({ usage }) => usage.memory?.cache),
  container_memory_failcnt: counter('Number of memory usage hits limits', ({ usage }) => usage.memory?.failures),
  container_memory_failures_total: counter(
    'Cumulative count of memory allocation failures.',
    ({ usage: { memory } }) =>
      memory === null
        ? []
        : (['container', 'hierarchy'] as const).flatMap((scope) => [
            { value: memory.pageFaults, labels: { failure_type: 'pgfault', scope } },
            { value: memory.majorPageFaults, labels: { failure_type: 'pgmajfault', scope } },
          ]),
  ),
  container_memory_kernel_usage: gauge(
    'Size of kernel memory allocated in bytes.',
    ({ usage }) => usage.memory?.kernel,
  ),
  container_memory_mapped_file: gauge('Size of memory mapped files in bytes.', ({ usage }) => usage.memory?.mappedFile),
  container_memory_max_usage_bytes: gauge(
    'Maximum memory usage recorded in bytes',
    ({ usage }) => usage.memory?.maxUsage,
  ),
  container_memory_rss: gauge('Size of RSS in bytes.', ({ usage }) => usage.memory?.rss),
  container_memory_swap: gauge('Container swap usage in bytes.', ({ usage }) => usage.memory?.swap),
  container_memory_total_active_file_bytes: gauge(
    'Current total active file in bytes.',
    ({ usage }) => usage.memory?.activeFile,
  ),
  container_memory_total_inactive_file_bytes: gauge(
    'Current total inactive file in bytes.',
    ({ usage }) => usage.memory?.inactiveFile,
  ),
  container_oom_events_total: counter(
    'Count of out of memory events observed for the container',
    ({ usage }) => usage.memory?.oomKills,
  ),
  container_memory_usage_bytes: gauge(
    'Current memory usage in bytes, including all memory regardless of when it was accessed',
    ({ usage }) => usage.memory?.usage,
  ),
  container_memory_working_set_bytes: gauge('Current working set in bytes.', ({ usage }) => usage.memory?.workingSet),
  container_network_receive_bytes_total: counter('Cumulative count of bytes received', network('rxBytes')),
  container_network_receive_errors_total: counter(
    'Cumulative count of errors encountered while receiving',
    network('rxErrors'),
  ),
  container_network_receive_packets_dropped_total: counter(
    'Cumulative count of packets dropped while receiving',
    network('rxDropped'),
  ),
  container_network_receive_packets_total: counter('Cumulative count of packets received', network('rxPackets')),
  container_network_transmit_bytes_total: counter('Cumulative count of bytes transmitted', network('txBytes')),
  container_network_transmit_errors_total: counter(
    'Cumulative count of errors encountered while transmitting',
    network('txErrors'),
  ),
  container_network_transmit_packets_dropped_total: counter(
    'Cumulative count of packets dropped while transmitting',
    network('txDropped'),
  ),
  container_network_transmit_packets_total: counter('Cumulative count of packets transmitted', network('txPackets')),
  container_processes: gauge('Number of processes running inside the container.', ({ processes }) => processes),
  container_threads: gauge('Number of threads running inside the container', ({ usage }) => usage.pids?.current ?? 0),
  container_threads_max: gauge(
    'Maximum number of threads allowed inside the container, infinity if value is zero',
    ({ usage }) => usage.pids?.limit ?? 0,
  ),
  container_file_descriptors: gauge('Number of open file descriptors for the container.', ({ files }) => files?.open),
  container_sockets: gauge('Number of open sockets for the container.', ({ files }) => files?.sockets),
  container_ulimits_soft: gauge(
    'Soft ulimit values for the container root process. Unlimited if -1, except priority and nice',
    ({ files }) => (files?.openLimit == null ? [] : [{ value: files.openLimit, labels: { ulimit: 'max_open_files' } }]),
  ),
  ...pressure('cpu', 'CPU'),
  ...pressure('memory', 'memory'),
  ...pressure('io', 'IO'),
  container_last_seen: gauge('Last time a container was seen by the exporter', ({ atMs }) =>
    Math.floor(atMs / MS_PER_SECOND),
  ),
  container_start_time_seconds: fixed('Start time of the container since unix epoch in seconds.', ({ startedAtMs }) =>
    startedAtMs === null ? null : startedAtMs / MS_PER_SECOND,
  ),
  container_spec_cpu_period: fixed('CPU period of the container.', ({ limits }) => limits.cpuPeriodUs),
  container_spec_cpu_quota: fixed('CPU quota of the container.', ({ limits }) => limits.cpuQuotaUs),
  container_spec_cpu_shares: fixed('CPU share of the container.', ({ limits }) => limits.cpuShares),
  container_spec_memory_limit_bytes: fixed('Memory limit for the container.', ({ usage }) =>
    usage.memory === null ? null : (usage.memory.limit ?? 0),
  ),
  container_spec_memory_reservation_limit_bytes: fixed(
    'Memory reservation limit for the container.',
    ({ usage }) => usage.memory?.reservation,
  ),
  container_spec_memory_swap_limit_bytes: fixed('Memory swap limit for the container.', ({ usage }) =>
    usage.memory === null ? null : (usage.memory.swapLimit ?? 0),
  ),
};

interface Machine {
  readonly disks: readonly DiskSample[];
  /** By major and minor number, the name of a disk: `sda`. */
  readonly names: ReadonlyMap<string, string>;
}

/** The families; `samples` is `null` if the cgroups could not be read. */
export function cadvisorFamilies(samples: readonly CgroupSample[] | null, machine: Machine): Family[] {
  const families = Object.entries(DEFINITIONS).map(([name, { help, type, read, isFixed }]) => ({
    name,
    help,
    type,
    samples: (samples ?? []).flatMap((sample) => samplesOf(sample, read, isFixed === true)),
  }));
  const error: Family = {
    name: 'container_scrape_error',
    help: '1 if there was an error while getting container metrics, 0 otherwise',
    type: 'gauge',
    samples: [{ labels: {}, value: samples === null ? 1 : 0 }],
  };
  return [...families, ...diskFamilies(samples ?? [], machine), error];
}

/**
 * The families of disks: for the machine the counters of its disks, for each cgroup its input and output on these
 * disks.
 */
function diskFamilies(samples: readonly CgroupSample[], { disks, names }: Machine): Family[] {
  const counted = new Set(disks.map(({ device }) => device));
  const ofGroups = (name: string): Sample[] => {
    const read = GROUP_DISKS[name];
    if (read === undefined) return [];
    return samples
      .flatMap((sample) => samplesOf(sample, read, false))
      .map((sample): Sample => ({ ...sample, labels: renamed(sample.labels, names) }))
      .filter(({ labels }) => labels['id'] !== '/' || !counted.has(labels['device'] ?? ''));
  };
  return Object.entries(DISK_FAMILIES).map(([name, definition]) => ({
    name,
    help: definition.help,
    type: definition.type,
    samples: [...diskSamples(disks, definition), ...ofGroups(name)],
  }));
}

function renamed(labels: Sample['labels'], names: ReadonlyMap<string, string>): Sample['labels'] {
  const name = names.get(labels['device'] ?? '');
  return name === undefined ? labels : { ...labels, device: `/dev/${name}` };
}

function samplesOf(sample: CgroupSample, read: Reader, isFixed: boolean): Sample[] {
  const found = read(sample);
  if (found === null || found === undefined) return [];
  const values: Values = typeof found === 'object' ? found : [{ value: found }];
  const { container = '', image = '', name = '', namespace = '', pod = '' } = sample.labels ?? {};
  return values.map(({ value, labels }) => ({
    labels: { container, id: sample.cgroup, image, name, namespace, pod, ...labels },
    value: Number(value),
    ...(isFixed ? {} : { timestampMs: sample.atMs }),
  }));
}

/** The families of the machine, from the facts that the start determined; `null` while these are unknown. */
export function machineFamilies(
  machine: MachineInfo | null,
  levels: Readonly<Record<'books' | 'drawers', number>>,
): Family[] {
  const { machineId = '', systemUuid = '', bootId = '' } = machine ?? {};
  const labels = { boot_id: bootId, machine_id: machineId, system_uuid: systemUuid };
  const gauge = (
    name: string,
    help: string,
    value: number | null,
    own: Family['samples'][number]['labels'] = labels,
  ) => ({
    name,
    help,
    type: 'gauge' as const,
    samples: value === null ? [] : [{ labels: own, value }],
  });
  return [
    gauge('machine_cpu_books', 'Number of CPU books.', machine && levels.books),
    gauge('machine_cpu_drawers', 'Number of CPU drawers.', machine && levels.drawers),
    gauge('machine_cpu_cores', 'Number of logical CPU cores.', machine && machine.cores),
    gauge('machine_cpu_physical_cores', 'Number of physical CPU cores.', machine && physicalCoresOf(machine.topology)),
    gauge('machine_cpu_sockets', 'Number of CPU sockets.', machine && socketsOf(machine.topology)),
    gauge('machine_memory_bytes', 'Amount of memory installed on the machine.', machine && Number(machine.memoryBytes)),
    gauge(
      'machine_swap_bytes',
      'Amount of swap memory available on the machine.',
      machine && Number(machine.swapBytes),
    ),
    gauge(
      'machine_scrape_error',
      '1 if there was an error while getting machine metrics, 0 otherwise.',
      machine ? 0 : 1,
      {},
    ),
    gauge(
      'cadvisor_version_info',
      "A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version & " +
        'cadvisor revision.',
      machine && 1,
      {
        cadvisorRevision: '',
        cadvisorVersion: '',
        dockerVersion: '',
        kernelVersion: machine?.kernelVersion ?? '',
        osVersion: machine?.osImage ?? '',
      },
    ),
  ];
}

/** The machine's own disks in `/metrics/cadvisor`: samples of the root group, by the name of the family. */
interface DiskDefinition {
  readonly help: string;
  readonly type: FamilyType;
  readonly read: (disk: DiskSample) => bigint | number | undefined;
}

const usage = (help: string, field: 'inodesFree' | 'inodes' | 'capacity' | 'used'): DiskDefinition => ({
  help,
  type: 'gauge',
  read: (disk) => disk.usage?.[field],
});
const activity = (help: string, field: keyof DiskActivity, type: FamilyType = 'counter'): DiskDefinition => ({
  help,
  type,
  read: (disk) => disk.activity?.[field],
});
const diskSeconds = (help: string, field: 'readMs' | 'writeMs' | 'busyMs' | 'weightedMs'): DiskDefinition => ({
  help,
  type: 'counter',
  read: (disk) => (disk.activity === null ? undefined : Number(disk.activity[field]) / MS_PER_SECOND),
});

/** The kernel's counting unit, whatever the block size of a disk is. */
const SECTOR_BYTES = 512n;
const sectors = (help: string, field: 'sectorsRead' | 'sectorsWritten'): DiskDefinition => ({
  help,
  type: 'counter',
  read: (disk) => (disk.activity === null ? undefined : disk.activity[field] * SECTOR_BYTES),
});

const DISK_FAMILIES: Readonly<Record<string, DiskDefinition>> = {
  container_fs_inodes_free: usage('Number of available Inodes', 'inodesFree'),
  container_fs_inodes_total: usage('Number of Inodes', 'inodes'),
  container_fs_limit_bytes: usage(
    'Number of bytes that can be consumed by the container on this filesystem.',
    'capacity',
  ),
  container_fs_usage_bytes: usage('Number of bytes that are consumed by the container on this filesystem.', 'used'),
  container_fs_io_current: activity('Number of I/Os currently in progress', 'current', 'gauge'),
  container_fs_io_time_seconds_total: diskSeconds('Cumulative count of seconds spent doing I/Os', 'busyMs'),
  container_fs_io_time_weighted_seconds_total: diskSeconds('Cumulative weighted I/O time in seconds', 'weightedMs'),
  container_fs_read_seconds_total: diskSeconds('Cumulative count of seconds spent reading', 'readMs'),
  container_fs_write_seconds_total: diskSeconds('Cumulative count of seconds spent writing', 'writeMs'),
  container_fs_reads_merged_total: activity('Cumulative count of reads merged', 'readsMerged'),
  container_fs_writes_merged_total: activity('Cumulative count of writes merged', 'writesMerged'),
  container_fs_reads_total: activity('Cumulative count of reads completed', 'reads'),
  container_fs_writes_total: activity('Cumulative count of writes completed', 'writes'),
  container_fs_reads_bytes_total: sectors('Cumulative count of bytes read', 'sectorsRead'),
  container_fs_writes_bytes_total: sectors('Cumulative count of bytes written', 'sectorsWritten'),
  container_fs_sector_reads_total: activity('Cumulative count of sector reads completed', 'sectorsRead'),
  container_fs_sector_writes_total: activity('Cumulative count of sector writes completed', 'sectorsWritten'),
};

const diskSamples = (disks: readonly DiskSample[], { read }: DiskDefinition): Sample[] =>
  disks.flatMap((disk) => {
    const value = read(disk);
    if (value === undefined) return [];
    const labels = { container: '', device: disk.device, id: '/', image: '', name: '', namespace: '', pod: '' };
    return [{ labels, value: Number(value), timestampMs: disk.atMs }];
  });
