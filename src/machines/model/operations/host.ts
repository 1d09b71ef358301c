/** Operations on the machine. Implemented by `src/actors/host` and `src/actors/server`. */

import type { Json } from '../../../kernel/json.ts';
import { idempotent, once, query, type SecretHandle, stream } from '../../../kernel/xstate.ts';
import type { Grant } from './grants.ts';
import type { ConfigObject } from './volume.ts';

export type ConfigurationSource =
  | {
      readonly kind: 'document';
      /** Absolute. */
      readonly path: string;
      readonly value: Json;
      /** The text of a document without `apiVersion` or `kind`, which upstream quotes; null for any other. */
      readonly text: string | null;
      /** Strict decoding errors about duplicate keys, in order. */
      readonly duplicates: readonly string[];
    }
  | { readonly kind: 'empty'; readonly path: string }
  /** Neither YAML nor JSON; `message` is the error of the decoder. */
  | { readonly kind: 'malformed'; readonly path: string; readonly message: string }
  /** `message` names operation, path and reason, as `open /x: no such file or directory`. */
  | { readonly kind: 'unreadable'; readonly path: string; readonly message: string };

/** The `*.conf` files below a directory in the order in which they apply. */
export type DropInListing =
  | { readonly kind: 'files'; readonly files: readonly ConfigurationSource[] }
  | { readonly kind: 'unreadable'; readonly message: string };

type Nothing = Record<string, never>;

/** A manifest file without a valid pod, and the reason. */
export interface ManifestError {
  readonly file: string;
  readonly message: string;
}

/** A static pod as decoded from its file, before defaults. `uid` is the hash of content, node and path. */
export interface Manifest {
  readonly file: string;
  readonly uid: string;
  readonly value: Json;
}

export interface MachineInfo {
  readonly cores: number;
  readonly memoryBytes: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  readonly machineId: string;
  readonly systemUuid: string;
  readonly bootId: string;
  readonly swapBytes: string;
  /** The machine has swap, and its tmpfs cannot be excluded from it. */
  readonly noswap?: false;
  /** Huge page sizes of the kernel, in kibibytes, ascending. */
  readonly hugePageKib: readonly number[];
  /** Bytes reserved for huge pages, by resource: `hugepages-2Mi`. Every size has an entry. */
  readonly hugePageTotals: Readonly<Record<string, string>>;
  /** The kernel's maximum number of processes. */
  readonly pidMax: string;
  /** As Go names it: `amd64`, `arm64`. */
  readonly architecture: string;
  /** AppArmor is enabled in the kernel. */
  readonly appArmor: boolean;
  /** SELinux has a policy and labels processes; absent in journals of agents that did not check. */
  readonly seLinux?: boolean;
  /** The label that the policy has for files of containers (`user:role:type:level`); absent if it has none. */
  readonly seLinuxFileLabel?: string;
  /** CPUs that count how often they were throttled, which containers must not see; absent: none. */
  readonly throttledCpus?: readonly number[];
  readonly topology: MachineTopology;
}

/**
 * Text around the content of a file of the machine, which is read when the text is written; `known`: its content at the
 * start of the node.
 */
export interface NodeText {
  readonly before: string;
  readonly file: string;
  readonly known: string;
  readonly after: string;
}

export interface LogForm {
  readonly verbosity: number;
  /** Absent: text. */
  readonly format?: 'json';
  /** Errors go to stderr, everything else to stdout; absent: all goes to stderr. */
  readonly splitStream?: true;
}

/** A folder of the node that is created if missing. */
export interface NodeFolder {
  readonly path: string;
  readonly mode: number;
  /** The name of the folder in errors; absent: its path alone. */
  readonly what?: string;
  /** The folder becomes a shared mount unless it is in one: `mountPropagation` of volumes requires it. */
  readonly shared?: true;
}

export interface MachineTopology {
  /** Online CPUs. `core` is a number within its `socket`. */
  readonly cpus: readonly {
    readonly id: number;
    readonly core: number;
    readonly socket: number;
    readonly numaNode: number;
    /** The level 3 cache of the CPU, if some CPUs of its NUMA node have another one. */
    readonly cache?: number;
  }[];
  readonly numaNodes: readonly {
    readonly id: number;
    readonly memoryBytes: string;
    readonly hugePages: readonly { readonly kib: number; readonly count: number }[];
    /** Distances to the other NUMA nodes, in order; absent if the kernel does not report them. */
    readonly distances?: readonly number[];
  }[];
  /** `device`: major and minor number, `8:0`. */
  readonly disks: readonly { readonly name: string; readonly device: string; readonly sizeBytes: string }[];
  readonly fileSystems: readonly { readonly device: string; readonly mountPoint: string; readonly type: string }[];
}

export const socketsOf = ({ cpus }: MachineTopology): number => new Set(cpus.map(({ socket }) => socket)).size;

export const physicalCoresOf = ({ cpus }: MachineTopology): number =>
  new Set(cpus.map(({ socket, core }) => `${socket}/${core}`)).size;

export type OomKill = {
  readonly processName: string;
  readonly pid: number;
  readonly container: string;
  /** The cgroup that ran out of memory; `/` for the whole machine. */
  readonly victimContainer: string;
  /** `CONSTRAINT_NONE`, `CONSTRAINT_MEMCG`, ...; empty if an old kernel does not report it. */
  readonly constraint: string;
};

export interface CgroupInfo {
  readonly version: 1 | 2;
  readonly controllers: readonly string[];
  /** The memory controller accounts swap. */
  readonly swapCounted: boolean;
}

/** Facts that only the agent keeps, and that survive its restart. */
export interface SoftState {
  /** By `<pod uid>/<image>`: back-off of failed pulls. `message` starts with the reason. */
  readonly pulls?: Readonly<
    Record<string, { readonly backoffMs: number; readonly untilMs: number; readonly message: string }>
  >;
  /** By `<pod uid>/<container>`: crash-loop back-off and restart count. */
  readonly containers: Readonly<
    Record<string, { readonly restartCount: number; readonly backoffMs: number; readonly backoffUntilMs: number }>
  >;
  /** By the same key, the number of the newest instance: no runtime knows it after a reboot. */
  readonly begun?: Readonly<Record<string, number>>;
  /** By pod uid, its grant: the resources that it holds. */
  readonly grants?: Readonly<Record<string, Grant>>;
  /** By pod uid, during a resize: the resources of the running instances. */
  readonly resizes?: Readonly<Record<string, Grant['allocation']>>;
  /** By pod uid, what another kubelet granted, until the pod is admitted here. */
  readonly handedOver?: Readonly<Record<string, Grant['allocation']>>;
  /** By pod uid, why this node did not admit the pod. */
  readonly rejections?: Readonly<Record<string, { readonly reason: string; readonly message: string }>>;
  /** By the same key: the results of probes of the instance with this id. */
  readonly probes: Readonly<
    Record<string, { readonly id: string; readonly started: boolean; readonly ready: boolean }>
  >;
}

/** The state of the node's iptables chains, by protocol; `step` is the failed step, with upstream's wording. */
export type IptablesItem =
  | { readonly type: 'iptables.initialized' | 'iptables.restored'; readonly protocol: 'IPv4' | 'IPv6' }
  | {
      readonly type: 'iptables.failed';
      readonly protocol: 'IPv4' | 'IPv6';
      readonly step: string;
      readonly message: string;
    };

/**
 * A pod of the API server, with the objects that it uses by key; `null` for an object that does not exist. Tokens are
 * handles, whose values the port stores encrypted with the node's key.
 */
export interface RememberedPod {
  readonly pod: Json;
  readonly objects: Readonly<Record<string, ConfigObject | null>>;
}

/** The optional fields are absent in journals of nodes without `addressesAsKubelet`. */
export interface MachineAddresses {
  /** The addresses that other machines can reach, in the order of the interfaces. */
  readonly addresses: readonly {
    readonly interface: string;
    readonly address: string;
    readonly family: 'IPv4' | 'IPv6';
  }[];
  readonly local?: readonly string[];
  /** The addresses of the looked-up name. */
  readonly found?: readonly string[];
  /** For each family, the address of the interface with the default route. */
  readonly routed?: readonly string[];
}

export const hostOperations = {
  'host.permissions': query<Nothing, { uid: number }>(),
  'host.hostname': query<Nothing, { hostname: string }>(),
  /** The addresses of the machine; `lookUp`: a name whose addresses are looked up as well. */
  'host.addresses': query<{ lookUp?: string }, MachineAddresses>(),
  /**
   * Emits the addresses of the machine: first those that it has, then, if they differ, those of each period. A name
   * that cannot be looked up keeps its last addresses.
   */
  'host.watchAddresses': stream<
    { lookUp?: string; periodMs: number },
    { readonly type: 'addresses.seen'; readonly machine: MachineAddresses }
  >(),
  /** `null` content: the file does not exist. A file larger than `maxBytes` is an error. */
  'host.readFile': query<{ path: string; maxBytes: number }, { content: string | null }>(),
  /** Whether each file can be opened for reading; no content is read. */
  'host.readable': query<{ paths: readonly string[] }, { readable: readonly boolean[] }>(),
  /** Reads and decodes one configuration file (YAML 1.1 or JSON); failures are part of the output. */
  'host.readConfiguration': query<{ path: string }, ConfigurationSource>(),
  /** The `*.conf` files below a directory, decoded, in the order in which they apply. */
  'host.readDropIns': query<{ path: string }, DropInListing>(),
  /** Emits `configuration.changed` when files, or `*.conf` below folders, changed since they were last read. */
  'host.watchConfiguration': stream<
    { paths: readonly string[]; periodMs: number },
    { readonly type: 'configuration.changed' }
  >(),
  /** The format of log lines; klog verbosities from 4 on enable debug lines. */
  'host.setLogVerbosity': idempotent<LogForm, null>(),
  /** flock; fails with code `EWOULDBLOCK` while another process holds it and `wait` is false. */
  'host.acquireLock': once<{ path: string; wait: boolean }, null>(),
  /** Emits `lock.contended` when another process opens or deletes the lock file. */
  'host.watchLock': stream<{ path: string }, { readonly type: 'lock.contended' }>(),
  'host.machineInfo': query<Nothing, MachineInfo>(),
  /** The available hierarchies: cgroup v1 controllers, or the unified v2 tree. */
  'host.cgroups': query<Nothing, CgroupInfo>(),
  /**
   * Kernel settings by their path below /proc/sys, with the values that the agent requires: changed if they differ, or
   * only reported if `modify` is false. `errors` are upstream's.
   */
  'host.tuneKernel': idempotent<
    { expected: Readonly<Record<string, number>>; modify: boolean },
    { errors: readonly string[] }
  >(),
  /**
   * Follows the kernel's log. `oom.watching` once it is open; `oom.killed` for each kill that was not reported before.
   */
  'host.watchOom': stream<
    { path: string; seenFile: string },
    { readonly type: 'oom.watching' } | ({ readonly type: 'oom.killed' } & OomKill)
  >(),
  'host.setOomScoreAdj': idempotent<{ value: number }, null>(),
  'host.setOpenFilesLimit': idempotent<{ limit: number }, null>(),
  'host.makeDirectories': idempotent<{ directories: readonly NodeFolder[] }, null>(),
  /** sd_notify to NOTIFY_SOCKET; does nothing without one. */
  'host.notify': once<{ state: string }, null>(),
  /** `WATCHDOG_USEC` and `WATCHDOG_PID` as set by the service manager; empty if unset. */
  'host.watchdogSettings': query<Nothing, { usec: string; pid: string; ownPid: number }>(),
  /**
   * Sends `WATCHDOG=1` to the service manager now and in each interval; emits when notifications fail, or succeed
   * again.
   */
  'host.feedWatchdog': stream<
    { intervalMs: number; tries: number },
    { readonly type: 'watchdog.unheard'; readonly message: string } | { readonly type: 'watchdog.heard' }
  >(),
  /** Creates the node's iptables chains, and recreates them after the tables were flushed. */
  'host.keepIptables': stream<{ periodMs: number }, IptablesItem>(),
  /** Static pod files under a path (file or directory). Emits when the set of decoded manifests or errors changed. */
  'host.watchManifests': stream<
    { path: string; nodeName: string; periodMs: number },
    {
      readonly type: 'manifests.changed';
      readonly manifests: readonly Manifest[];
      /** ConfigMaps and Secrets in files beside the pods. */
      readonly objects: readonly ConfigObject[];
      readonly errors: readonly ManifestError[];
      /** The path has not been listed yet, because that fails: it is not known which files there are. */
      readonly isUnread?: true;
    }
  >(),
  /**
   * Static pods behind a URL: a Pod, or a list of Pods. Emits when the decoded answer or its error changed. `manifests`
   * is `null` while nothing was fetched; an empty answer keeps the previously fetched ones.
   */
  'host.watchManifestUrl': stream<
    {
      url: string;
      headers: Readonly<Record<string, readonly SecretHandle[]>>;
      nodeName: string;
      periodMs: number;
    },
    {
      readonly type: 'manifests.fetched';
      /** `null`: nothing could be fetched; pods of the last answer stay. */
      readonly manifests: readonly Manifest[] | null;
      /** Why the fetch failed; empty: it did not. */
      readonly error: string;
    }
  >(),
  /**
   * Creates the pod's folders and writes its managed files (etc-hosts, termination logs). Paths stay below `root`, or
   * below a folder's own root.
   */
  'host.preparePod': idempotent<
    {
      root: string;
      /** `numbered`: the folder of a container's logs, of which it is told which numbers they have. */
      directories: readonly { path: string; mode: number; root?: string; numbered?: true }[];
      files: readonly { path: string; mode: number; content: string | NodeText | null }[];
    },
    /** By folder, the number after those of its logs; `null`: there are none. */
    { readonly nextLogs: Readonly<Record<string, number>> } | null
  >(),
  /** Removes a folder of a pod that is gone; refuses anything that is not below `root`. */
  'host.removePod': idempotent<{ root: string; paths: readonly string[] }, null>(),
  /**
   * The termination message of a container: the file first, then the end of the log if requested
   * (`FallbackToLogsOnError`).
   */
  'host.terminationMessage': query<{ file: string; logFile: string | null; maxBytes: number }, { message: string }>(),
  /** Size and free space of the file system that holds `path`. */
  'host.fileSystem': query<{ path: string }, { capacityBytes: string; availableBytes: string }>(),
  'host.symlink': idempotent<{ path: string; target: string }, null>(),
  /**
   * With `rootDir`, the kubelet's own files add the resources of pods that the state does not know; `unread`: their
   * error.
   */
  'host.loadSoftState': query<{ path: string; rootDir?: string }, SoftState & { unread?: string }>(),
  /** The pods of the API server that this node remembers. */
  'host.loadPods': query<{ directory: string }, { pods: readonly RememberedPod[] }>(),
  /** `null` removes the pod. */
  'host.savePod': idempotent<{ directory: string; uid: string; remembered: RememberedPod | null }, null>(),
  /** The contents of the kubelet's own checkpoint files; `null` for a missing one. */
  'host.readCheckpoints': query<{ paths: readonly string[] }, { contents: readonly (string | null)[] }>(),
  /** Replaces a checkpoint atomically. */
  'host.writeCheckpoint': idempotent<{ path: string; content: string }, null>(),
  /** With `rootDir`, the kubelet's own files of pod resources are written as well. */
  'host.saveSoftState': idempotent<{ path: string; rootDir?: string; state: SoftState }, null>(),
  /** Serves /healthz on its own port; emits `healthz.listening` once, `healthz.failed` if it cannot listen. */
  'server.healthz': stream<
    { address: string; port: number },
    | { readonly type: 'healthz.listening'; readonly address: string; readonly port: number }
    | { readonly type: 'healthz.failed'; readonly message: string }
  >(),
};
