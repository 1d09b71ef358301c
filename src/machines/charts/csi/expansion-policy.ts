/**
 * The rules of expanding a volume on this node: when it is due, the request to its driver, and the patches of its
 * claim. Pure.
 *
 * Invariant: every text for users is upstream's. Upstream: pkg/volume/util/operationexecutor/node_expander.go,
 * pkg/volume/util/resize_util.go, pkg/volume/csi/expander.go.
 */
import type { PlainError } from '../../../kernel/xstate.ts';
import type { PersistentVolumeClaim } from '../../model/api/pod.ts';
import type { CSIVolume } from '../../model/csi/messages.ts';
import { type Capabilities, capabilityOf, type Secrets } from '../../model/csi/policy.ts';
import type { NodeExpandRequest } from '../../model/operations/csi.ts';
import { parseQuantity } from '../../model/values/quantity.ts';

const STORAGE = 'storage';
const PENDING = 'NodeResizePending';
const IN_PROGRESS = 'NodeResizeInProgress';
const INFEASIBLE = 'NodeResizeInfeasible';
const NODE_ERROR = 'NodeResizeError';
/** Conditions of a claim that end with the expansion. */
const CONDITIONS: ReadonlySet<string> = new Set([
  'FileSystemResizePending',
  'Resizing',
  'ControllerResizeError',
  NODE_ERROR,
]);

/** A size in billionths of a byte; 0 for invalid text, which other clients may write. */
function nanoOf(size: unknown): bigint {
  const parsed = parseQuantity(typeof size === 'number' ? String(size) : typeof size === 'string' ? size : '');
  return 'error' in parsed ? 0n : parsed.value.nano;
}

export const isLarger = (size: string, than: string): boolean => nanoOf(size) > nanoOf(than);
export const isKnown = (size: string): boolean => nanoOf(size) > 0n;

const NANO = 1_000_000_000n;
const bytesOf = (size: string): string => String((nanoOf(size) + NANO - 1n) / NANO);

/**
 * The progress of an expansion in the claim's status. `expanding`: the node should expand it. `expanded`: the claim has
 * the size, because another node was faster. `unguided`: its controller does not report progress. `refused`: it is not,
 * or no longer, this node's turn.
 */
type Verdict = 'expanding' | 'expanded' | 'unguided' | 'refused';

export function verdictOf({ status }: PersistentVolumeClaim, to: string): Verdict {
  const step = status?.allocatedResourceStatuses?.[STORAGE] ?? '';
  if (step === PENDING || step === IN_PROGRESS) return 'expanding';
  if (step !== '') return 'refused';
  if (status?.allocatedResources === undefined) return 'unguided';
  return isLarger(to, status.capacity?.[STORAGE] ?? '') ? 'refused' : 'expanded';
}

/**
 * The size that the controller has allocated to the claim: its driver may have made the PersistentVolume larger than
 * that. `to` if the controller does not report it.
 */
export const allocatedSize = ({ status }: PersistentVolumeClaim, to: string): string =>
  status?.allocatedResources?.[STORAGE] ?? to;

const NOT_REQUIRED = 'volume.kubernetes.io/node-expansion-not-required';

/** Each node that uses the volume expands it for itself, also if the claim has its size already. */
export const concernsEachNode = ({ metadata, spec }: PersistentVolumeClaim): boolean =>
  spec?.accessModes?.includes('ReadWriteMany') === true && !Object.hasOwn(metadata?.annotations ?? {}, NOT_REQUIRED);

/** The claim requests another size by now: the controller has to decide again. */
export const isOutdated = ({ spec }: PersistentVolumeClaim, to: string): boolean =>
  nanoOf(spec?.resources?.requests?.[STORAGE] ?? '') !== nanoOf(to);

export const hasSize = ({ status }: PersistentVolumeClaim, size: string): boolean =>
  !isLarger(size, status?.capacity?.[STORAGE] ?? '');

/** The patch applies only to the version of the claim that the agent has read. */
const versionOf = ({ metadata }: PersistentVolumeClaim) => ({ resourceVersion: metadata?.resourceVersion ?? '' });

/** The patch that marks the claim as being expanded; `null` if it is marked already. */
export function progressPatch(claim: PersistentVolumeClaim) {
  if (claim.status?.allocatedResourceStatuses?.[STORAGE] === IN_PROGRESS) return null;
  return { metadata: versionOf(claim), status: { allocatedResourceStatuses: { [STORAGE]: IN_PROGRESS } } };
}

export function finishPatch(claim: PersistentVolumeClaim, size: string) {
  const { allocatedResourceStatuses, conditions = [] } = claim.status ?? {};
  const isAlone = Object.keys(allocatedResourceStatuses ?? {}).every((resource) => resource === STORAGE);
  const over = conditions.filter(({ type }) => CONDITIONS.has(type));
  return {
    metadata: versionOf(claim),
    status: {
      capacity: { [STORAGE]: size },
      ...(allocatedResourceStatuses ? { allocatedResourceStatuses: isAlone ? null : { [STORAGE]: null } } : {}),
      ...(over.length > 0 ? { conditions: over.map(({ type }) => ({ $patch: 'delete', type })) } : {}),
    },
  };
}

/** The patch that writes a failure into the claim; `null` if the claim has it already. `at` as RFC 3339. */
export function failurePatch(claim: PersistentVolumeClaim, error: string, isInfeasible: boolean, at: string) {
  const { conditions = [] } = claim.status ?? {};
  const isReported = conditions.some(({ type, status }) => type === NODE_ERROR && status === 'True');
  if (isReported && !isInfeasible) return null;
  const condition = {
    type: NODE_ERROR,
    status: 'True',
    lastTransitionTime: at,
    message: `failed to expand pvc with ${error}`,
  };
  return {
    status: {
      ...(isInfeasible ? { allocatedResourceStatuses: { [STORAGE]: INFEASIBLE } } : {}),
      ...(isReported ? {} : { conditions: [condition] }),
    },
  };
}

export const expands = (capabilities: Capabilities): boolean => capabilities.includes('EXPAND_VOLUME');

export const expandRequest = (
  volume: CSIVolume,
  to: string,
  more: { target: string; stagingPath: string; capabilities: Capabilities; secrets: Secrets },
): NodeExpandRequest => ({
  volume_id: volume.handle,
  volume_path: more.target,
  capacity_range: { required_bytes: bytesOf(to) },
  staging_target_path: more.stagingPath,
  volume_capability: capabilityOf(volume, more.capabilities),
  secrets: more.secrets,
});

const FAILED = 'Expander.NodeExpand failed to expand the volume';

/** The consequences of a driver's failure for the expansion. */
export interface ExpandFailure {
  readonly message: string;
  /** The driver has certainly stopped; otherwise it may still be working. */
  readonly isFinal: boolean;
  /** The expansion can never succeed: the controller has to decide otherwise. */
  readonly isInfeasible: boolean;
  /** The driver does not expand volumes that are in use. */
  readonly isInUse: boolean;
}

const INFEASIBLE_CODES: ReadonlySet<string | undefined> = new Set(['INVALID_ARGUMENT', 'OUT_OF_RANGE', 'NOT_FOUND']);
const UNCERTAIN_CODES: ReadonlySet<string | undefined> = new Set([
  undefined,
  'CANCELLED',
  'DEADLINE_EXCEEDED',
  'UNAVAILABLE',
  'RESOURCE_EXHAUSTED',
  'ABORTED',
]);

export function expandFailure({ message, code }: PlainError): ExpandFailure {
  const isInfeasible = INFEASIBLE_CODES.has(code);
  return {
    message: isInfeasible ? `${FAILED} ${message}` : `${FAILED} : ${message}`,
    isFinal: !UNCERTAIN_CODES.has(code),
    isInfeasible,
    isInUse: code === 'FAILED_PRECONDITION',
  };
}

/** A failure before the driver was called, which therefore has certainly stopped. */
export const failedBeforeCall = (message: string): ExpandFailure => ({
  message,
  isFinal: true,
  isInfeasible: false,
  isInUse: false,
});

export const cannotExpand = (driver: string, asKubelet: boolean): string =>
  asKubelet
    ? `NodeExpand is not supported by the CSI driver ${driver}`
    : `Expander.NodeExpand found CSI plugin kubernetes.io/csi/${driver} to not support node expansion`;
