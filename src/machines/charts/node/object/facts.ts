/**
 * The facts about this node in its Node object. {@link NodeFacts} is fixed for one start of the agent; {@link
 * NodeReports} has the reports of its subsystems while it runs.
 */

import type { Image } from '../../../model/api/cri.ts';
import type {
  NodeAddress,
  NodeFeatures,
  NodeRuntimeHandler,
  NodeStatus,
  NodeSystemInfo,
  Taint,
} from '../../../model/api/pod.ts';
import { PLEG_UNKNOWN } from '../../../model/status/runtime-errors.ts';

export interface NodeFacts {
  readonly nodeName: string;
  readonly hostname: string;
  /** `InternalIP` of each family, then `Hostname`; `ExternalIP` and others come from a cloud controller. */
  readonly addresses: readonly NodeAddress[];
  /** An existing Node, too, gets the topology and instance type labels of `--node-labels`, and the provided address. */
  readonly followsFlags?: true;
  readonly info: NodeSystemInfo;
  /** Port of the node's own API. */
  readonly port: number;
  /** `--node-labels`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
  /** The id of the machine at its cloud provider; empty without one. */
  readonly providerID: string;
  /** `--cloud-provider=external`: the cloud's controller finishes the registration. */
  readonly externalCloud: boolean;
  /** The addresses of `--node-ip`, for an external cloud provider. */
  readonly providedNodeIP: string;
  readonly enableControllerAttachDetach: boolean;
  /** The features of KEP-5328 that this agent has, sorted. */
  readonly declaredFeatures: readonly string[];
}

export interface NodeImage {
  readonly names: readonly string[];
  readonly sizeBytes: number;
}

export interface NodeReports {
  /** The errors that keep pods from running; empty while the runtime and PLEG are up. */
  readonly runtimeErrors: readonly string[];
  /** Why pods get no network; empty while the network plugin is up. */
  readonly networkError: string;
  /** Why volumes of CSI drivers cannot be used; empty once the CSINode exists. */
  readonly storageError: string;
  readonly shuttingDown: boolean;
  readonly memoryPressure: boolean;
  readonly diskPressure: boolean;
  readonly pidPressure: boolean;
  readonly capacity: Readonly<Record<string, string>>;
  readonly allocatable: Readonly<Record<string, string>>;
  /** `localStorageCapacityIsolation: false`: the node has no capacity of local storage, and is ready without. */
  readonly ignoresStorage?: true;
  /** Capacity of the devices that plugins offer. */
  readonly deviceCapacity: Readonly<Record<string, string>>;
  readonly deviceAllocatable: Readonly<Record<string, string>>;
  /** The machine was installed anew under the name of its Node: resources of the old one count as zero. */
  readonly isRecreated?: boolean;
  /** Largest first, as {@link nodeImages} lists them. */
  readonly images: readonly NodeImage[];
  readonly runtimeHandlers: readonly NodeRuntimeHandler[];
  readonly features: NodeFeatures | null;
  /** The version of the runtime; absent: that of the start. */
  readonly runtimeVersion?: string;
  /** `<plugin>/<volume>` of attachable volumes that pods here have mounted, sorted; `null`: not known yet. */
  readonly volumesInUse: readonly string[] | null;
}

/** Upstream's texts for a runtime and a CSINode that were not observed yet. */
export const RUNTIME_UNKNOWN = 'container runtime status check may not have completed yet';
export const CSINODE_UNKNOWN = 'CSINode is not yet initialized';

/** True while a part of the readiness was not observed since the agent started. */
export const isUndecided = ({ runtimeErrors, storageError }: NodeReports): boolean =>
  (runtimeErrors.includes(RUNTIME_UNKNOWN) && !runtimeErrors.some(isOfAnswer)) || storageError === CSINODE_UNKNOWN;

/** The runtime has answered that it is not ready. */
const isOfAnswer = (error: string): boolean => error.startsWith('container runtime not ready');

/** True while only the first relist is missing: it takes seconds on a node with many pods. */
export const lacksRelist = ({ runtimeErrors: errors }: NodeReports): boolean =>
  errors.length > 0 && errors.every((error) => error === PLEG_UNKNOWN);

/** The reports before the subsystems have sent any. */
export const NOTHING_REPORTED: NodeReports = {
  runtimeErrors: [RUNTIME_UNKNOWN],
  networkError: '',
  storageError: CSINODE_UNKNOWN,
  shuttingDown: false,
  memoryPressure: false,
  diskPressure: false,
  pidPressure: false,
  capacity: {},
  allocatable: {},
  deviceCapacity: {},
  deviceAllocatable: {},
  images: [],
  runtimeHandlers: [],
  features: null,
  volumesInUse: null,
};

/** Upstream's limit of names for one image in the status; further names are left out. */
const NAMES_MAX = 5;

/**
 * The node's images as its status lists them. Upstream: nodestatus.Images.
 *
 * The largest `max` images with a name (`nodeStatusMaxImages`; -1 for all).
 */
export function nodeImages(images: readonly Image[], max: number): NodeImage[] {
  const named = images
    .map(({ repo_tags, repo_digests, size }) => ({
      names: [...repo_digests, ...repo_tags].slice(0, NAMES_MAX),
      sizeBytes: Number(size),
    }))
    .sort((a, b) => b.sizeBytes - a.sizeBytes || (a.names[0] ?? '').localeCompare(b.names[0] ?? ''));
  return (max < 0 ? named : named.slice(0, max)).filter(({ names }) => names.length > 0);
}

/** Shortages are detected within this time. */
export const PRESSURE_MS = 10_000;

/** The pressure conditions that are true; empty for none. */
export function pressuresIn(conditions: NonNullable<NodeStatus['conditions']>): Partial<NodeReports> {
  const types = conditions.flatMap(({ type, status }) =>
    status === 'True' && type.endsWith('Pressure') ? [type] : [],
  );
  return types.length === 0 ? {} : pressures(types);
}

/** The reports of pressure while these conditions are true. */
export const pressures = (conditions: readonly string[]): Partial<NodeReports> => ({
  memoryPressure: conditions.includes('MemoryPressure'),
  diskPressure: conditions.includes('DiskPressure'),
  pidPressure: conditions.includes('PIDPressure'),
});

/** Adds reports; a device resource whose plugin is gone for good stays, at zero. */
export function withReports(before: NodeReports, now: Partial<NodeReports>): NodeReports {
  const { deviceCapacity, deviceAllocatable } = now;
  if (deviceCapacity === undefined) return { ...before, ...now };
  const gone = Object.fromEntries(Object.keys(before.deviceCapacity).map((name) => [name, '0']));
  const devices = {
    deviceCapacity: { ...gone, ...deviceCapacity },
    deviceAllocatable: { ...gone, ...deviceAllocatable },
  };
  return { ...before, ...now, ...devices };
}
