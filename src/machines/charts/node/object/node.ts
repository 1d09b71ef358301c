/**
 * The Node object as this agent registers it, the corrections of an existing Node, and its status. Derived from the
 * facts about the machine, the reports of its subsystems, and its CSI drivers: an annotation with the node ID of each
 * driver, and topology labels, by which the scheduler places volumes and pods.
 *
 * Upstream: pkg/kubelet/kubelet_node_status.go (initialNode, tryRegisterWithAPIServer),
 * pkg/kubelet/nodestatus/setters.go, pkg/volume/csi/nodeinfomanager (updateNodeIDInNode, updateTopologyLabels,
 * removeNodeIDFromNode). Checked against the recording `node-register`. Seeds: S146, S216.
 */
import { isObject, type JsonObject } from '../../../../kernel/xstate.ts';
import type { Node, NodeStatus, Taint } from '../../../model/api/pod.ts';
import { strategicPatch } from '../../../model/api/strategic-patch.ts';
import type { NodeVolumes } from '../../../model/csi/messages.ts';
import type { NodeLabels } from '../../../model/objects/keys.ts';
import { byBytes, quote } from '../../../model/values/go-text.ts';
import { mapValues, pickBy, pickKeys } from '../../../model/values/tables.ts';
import { nodeConditions } from './conditions.ts';
import type { NodeFacts, NodeReports } from './facts.ts';

const ATTACH_DETACH = 'volumes.kubernetes.io/controller-managed-attach-detach';
const PROVIDED_NODE_IP = 'alpha.kubernetes.io/provided-node-ip';
const UNINITIALIZED: Taint = {
  key: 'node.cloudprovider.kubernetes.io/uninitialized',
  value: 'true',
  effect: 'NoSchedule',
};

/** Labels that every node has; an existing node gets them back when they were changed. */
export const defaultLabels = ({
  hostname,
  info,
}: {
  readonly hostname: string;
  readonly info: Pick<NodeFacts['info'], 'architecture' | 'operatingSystem'>;
}): Readonly<Record<string, string>> => ({
  'beta.kubernetes.io/arch': info.architecture,
  'beta.kubernetes.io/os': info.operatingSystem,
  'kubernetes.io/arch': info.architecture,
  'kubernetes.io/hostname': hostname,
  'kubernetes.io/os': info.operatingSystem,
});

/** A patch with the OS and architecture labels that other clients changed or removed; `null` if they are correct. */
export function lostLabels(facts: NodeFacts, { metadata }: Node): JsonObject | null {
  const required = Object.entries(defaultLabels(facts)).filter(([name]) => STABLE_LABELS.includes(name));
  const lost = required.filter(([name, value]) => metadata?.labels?.[name] !== value);
  return lost.length === 0 ? null : { metadata: { labels: Object.fromEntries(lost) } };
}

/** Labels of `--node-labels` that are applied at each start, as upstream; the others are applied to new Nodes only. */
const PLACE_LABELS = [
  'kubernetes.io/hostname',
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
  'failure-domain.beta.kubernetes.io/zone',
  'failure-domain.beta.kubernetes.io/region',
  'node.kubernetes.io/instance-type',
  'beta.kubernetes.io/instance-type',
  'kubernetes.io/os',
  'kubernetes.io/arch',
  'beta.kubernetes.io/os',
  'beta.kubernetes.io/arch',
];

/** The labels that this start sets in an existing Node; a label without a value is removed. */
function keptLabels(facts: NodeFacts, labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  if (!facts.followsFlags) return { ...labels, ...defaultLabels(facts) };
  const nodeLabels = Object.entries({ ...defaultLabels(facts), ...facts.labels });
  const kept = { ...labels, ...Object.fromEntries(nodeLabels.filter(([name]) => PLACE_LABELS.includes(name))) };
  const isEmptied = (name: string, value: string) =>
    value === '' && facts.labels[name] === '' && PLACE_LABELS.includes(name);
  return pickBy(kept, (value, name) => !isEmptied(name, value));
}

/** Labels that upstream restores with each status; others it restores with each start. */
const STABLE_LABELS = ['kubernetes.io/arch', 'kubernetes.io/os'];

function annotations(facts: NodeFacts): Readonly<Record<string, string>> {
  return {
    ...(facts.enableControllerAttachDetach ? { [ATTACH_DETACH]: 'true' } : {}),
    ...(facts.externalCloud && facts.providedNodeIP !== '' ? { [PROVIDED_NODE_IP]: facts.providedNodeIP } : {}),
  };
}

function taints({ taints: configured, externalCloud }: NodeFacts): readonly Taint[] {
  return externalCloud ? [...configured, UNINITIALIZED] : configured;
}

export function newNode(facts: NodeFacts, status: NodeStatus): Node {
  const notes = annotations(facts);
  const unscheduled = taints(facts);
  return {
    kind: 'Node',
    apiVersion: 'v1',
    metadata: {
      name: facts.nodeName,
      labels: { ...defaultLabels(facts), ...facts.labels },
      ...(Object.keys(notes).length === 0 ? {} : { annotations: notes }),
    },
    spec: {
      ...(unscheduled.length === 0 ? {} : { taints: unscheduled }),
      ...(facts.providerID === '' ? {} : { providerID: facts.providerID }),
    },
    status,
  };
}

/**
 * The patch that corrects labels and annotations of an existing Node; `null` if they are correct. Labels and taints of
 * other clients stay. Other `--node-labels`, and `--register-with-taints`, apply only to new Nodes.
 */
export function reconciliation(facts: NodeFacts, existing: Node): JsonObject | null {
  const { [ATTACH_DETACH]: _managed, [PROVIDED_NODE_IP]: provided, ...others } = existing.metadata?.annotations ?? {};
  const stale = facts.followsFlags || provided === undefined ? {} : { [PROVIDED_NODE_IP]: provided };
  const labels = existing.metadata?.labels ?? {};
  const desired = { labels: keptLabels(facts, labels), annotations: { ...others, ...stale, ...annotations(facts) } };
  const before = { labels, annotations: existing.metadata?.annotations ?? {} };
  return strategicPatch({ metadata: before }, { metadata: desired }, {});
}

/** The part of the Node that is sent to `objects`. */
export const labelsIn = ({ metadata }: Node): NodeLabels => ({
  type: 'node.labels',
  labels: metadata?.labels ?? {},
  objectTtl: metadata?.annotations?.['node.alpha.kubernetes.io/ttl'] ?? null,
});
/** The part of the Node that is sent to `csiVolumes`. */
export const volumesIn = ({ status }: Node): NodeVolumes => ({
  type: 'node.volumes',
  inUse: status?.volumesInUse ?? [],
  attached: (status?.volumesAttached ?? []).map(({ name }) => name),
});

/** Lists of the status that the API merges by a key. Addresses are replaced as a whole, as upstream does. */
const MERGE_KEYS = { 'status.conditions': 'type' };

/** Extended resources that other clients advertise stay as they are, those of a machine that is gone are none. */
function advertised({ capacity = {} }: NodeStatus, { isRecreated }: NodeReports): Readonly<Record<string, string>> {
  const extended = pickKeys(capacity, (name) => name.includes('/'));
  return isRecreated === true ? mapValues(extended, () => '0') : extended;
}

/** The reports after the Node is as it shall be: what another client advertises from then on, counts. */
export function withoutRecreation(reports: NodeReports, node: Node | null): NodeReports {
  const { isRecreated, ...others } = reports;
  const { capacity = {} } = node?.status ?? {};
  const isOpen = Object.keys(capacity).some(
    (name) => name.includes('/') && capacity[name] !== '0' && reports.deviceCapacity[name] === undefined,
  );
  return isRecreated === undefined || node === null || isOpen ? reports : others;
}

/** @param before the last known status; fields set by other clients stay */
export function nodeStatus(facts: NodeFacts, reports: NodeReports, before: NodeStatus, nowMs: number): NodeStatus {
  const { volumesInUse: listed = [], declaredFeatures: _declared, ...others } = before;
  const volumesInUse = reports.volumesInUse ?? listed;
  return {
    ...others,
    capacity: { ...advertised(before, reports), ...reports.capacity, ...reports.deviceCapacity },
    allocatable: { ...advertised(before, reports), ...reports.allocatable, ...reports.deviceAllocatable },
    conditions: nodeConditions(reports, before.conditions ?? [], nowMs),
    ...addressesOf(facts, before),
    daemonEndpoints: { kubeletEndpoint: { Port: facts.port } },
    nodeInfo: infoOf(facts, reports),
    images: reports.images,
    ...(facts.declaredFeatures.length === 0 ? {} : { declaredFeatures: facts.declaredFeatures }),
    ...(volumesInUse.length === 0 ? {} : { volumesInUse }),
    ...(reports.runtimeHandlers.length === 0 ? {} : { runtimeHandlers: reports.runtimeHandlers }),
    ...(reports.features === null ? {} : { features: reports.features }),
  };
}

/** The runtime may be upgraded while the agent runs; its name is that of the start. */
function infoOf({ info }: NodeFacts, { runtimeVersion }: NodeReports): NodeFacts['info'] {
  if (runtimeVersion === undefined) return info;
  const [name = ''] = info.containerRuntimeVersion.split('://', 1);
  return { ...info, containerRuntimeVersion: `${name}://${runtimeVersion}` };
}

/** The Node keeps its addresses where a cloud provider's controller has set them, and where this machine has none. */
function addressesOf({ addresses, externalCloud }: NodeFacts, before: NodeStatus): Pick<NodeStatus, 'addresses'> {
  if ((externalCloud && before.addresses?.length) || addresses.length === 0) return {};
  return { addresses };
}

/** The PATCH of nodes/status from one status to the next; `null` if nothing differs. */
export function statusPatch(before: NodeStatus, after: NodeStatus): JsonObject | null {
  const patch = strategicPatch({ status: before }, { status: after }, MERGE_KEYS);
  if (patch === null || before.addresses === undefined) return patch;
  const { status } = patch;
  if (!isObject(status) || !Array.isArray(status['addresses'])) return patch;
  // The API would merge addresses by type and mix two of one type; `$patch: replace` replaces the list.
  return { ...patch, status: { ...status, addresses: [...status['addresses'], { $patch: 'replace' }] } };
}

/** True if a condition changed in more than its heartbeat. */
export const hasConditionChange = (before: NodeStatus, after: NodeStatus): boolean =>
  hasChange({ conditions: before.conditions ?? [] }, { conditions: after.conditions ?? [] });

/** True if anything but a heartbeat differs. */
export function hasChange(before: NodeStatus, after: NodeStatus): boolean {
  const withoutHeartbeats = ({ conditions, ...status }: NodeStatus): NodeStatus => ({
    ...status,
    conditions: (conditions ?? []).map(({ lastHeartbeatTime: _at, ...rest }) => rest),
  });
  return statusPatch(withoutHeartbeats(before), withoutHeartbeats(after)) !== null;
}

/** True if a volume in use must be listed: its pod waits until the API server knows that it must not be detached. */
export const hasMoreVolumesInUse = (
  { volumesInUse: before = [] }: NodeStatus,
  { volumesInUse: after = [] }: NodeStatus,
): boolean => after.some((name) => !before.includes(name));

/** The annotation with the node IDs by driver, as JSON. */
const NODE_IDS = 'csi.volume.kubernetes.io/nodeid';

export type NodeMetadata = Pick<NonNullable<Node['metadata']>, 'labels' | 'annotations'>;

interface Driver {
  readonly name: string;
  /** The node ID: the driver's name for this node. */
  readonly nodeID: string;
  readonly topology?: Readonly<Record<string, string>>;
}

interface DriversOnNode {
  /** The patch that the Node needs; `null` if it has everything. */
  readonly patch: JsonObject | null;
  /** Why a driver cannot be on this node, by its name. */
  readonly rejected: ReadonlyMap<string, string>;
}

/** Compares the Node with the drivers of this node, and with those that are gone from it. */
export function driversOnNode(
  metadata: NodeMetadata,
  drivers: readonly Driver[],
  gone: readonly string[],
): DriversOnNode {
  const [labels, annotations] = [metadata.labels ?? {}, metadata.annotations ?? {}];
  const nodeIds = parseNodeIds(annotations[NODE_IDS] ?? '');
  const known = new Map(Object.entries(labels));
  const rejected = new Map<string, string>();
  if ('error' in nodeIds) {
    for (const { name } of drivers) rejected.set(name, nodeIds.error);
    return { patch: null, rejected };
  }
  const { ids } = nodeIds;
  for (const name of gone) ids.delete(name);
  for (const { name, nodeID, topology = {} } of drivers) {
    const collision = collisionOf(topology, known);
    if (collision !== null) rejected.set(name, collision);
    else {
      ids.set(name, nodeID);
      for (const [key, value] of Object.entries(topology)) known.set(key, value);
    }
  }
  const { [NODE_IDS]: _before, ...others } = annotations;
  const after = {
    labels: Object.fromEntries(known),
    annotations: ids.size === 0 ? others : { ...others, [NODE_IDS]: printNodeIds(ids) },
  };
  return { patch: strategicPatch({ metadata: { labels, annotations } }, { metadata: after }, {}), rejected };
}

function collisionOf(topology: Readonly<Record<string, string>>, labels: ReadonlyMap<string, string>): string | null {
  const found = Object.entries(topology)
    .toSorted(([a], [b]) => byBytes(a, b))
    .find(([key, value]) => labels.has(key) && labels.get(key) !== value);
  if (found === undefined) return null;
  const [key, value] = found;
  return (
    `detected topology value collision: driver reported ${quote(key)}:${quote(value)} but existing label is ` +
    `${quote(key)}:${quote(labels.get(key) ?? '')}`
  );
}

type NodeIds = { readonly ids: Map<string, string> } | { readonly error: string };

function parseNodeIds(text: string): NodeIds {
  if (text === '') return { ids: new Map() };
  const failure = `failed to parse node's ${quote(NODE_IDS)} annotation value (${quote(text)})`;
  try {
    const value: unknown = JSON.parse(text);
    if (value === null) return { ids: new Map() };
    const entries = isObject(value) ? Object.entries(value) : null;
    if (entries?.every((entry): entry is [string, string] => typeof entry[1] === 'string'))
      return { ids: new Map(entries) };
    return { error: `${failure} err=it is no map of texts` };
  } catch (error) {
    return { error: `${failure} err=${(error as Error).message}` };
  }
}

/** As Go prints a map: sorted. */
const printNodeIds = (ids: ReadonlyMap<string, string>): string =>
  JSON.stringify(Object.fromEntries([...ids].toSorted(([a], [b]) => byBytes(a, b))));
