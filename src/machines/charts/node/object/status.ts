/**
 * The status of the Node, derived from the facts about the machine and the reports of its subsystems.
 * Upstream: pkg/kubelet/nodestatus/setters.go. Checked against the recording `node-register`.
 */

import { isObject, type JsonObject } from '../../../../kernel/xstate.ts';
import type { NodeStatus } from '../../../model/api/node.ts';
import { strategicPatch } from '../../../model/api/strategic-patch.ts';
import { nodeConditions } from './conditions.ts';
import type { NodeFacts, NodeReports } from './facts.ts';

/** Lists of the status that the API merges by a key. Addresses are replaced as a whole, as upstream does. */
const MERGE_KEYS = { 'status.conditions': 'type' };

/** Extended resources that other clients advertise stay as they are. */
const advertised = ({ capacity = {} }: NodeStatus): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(capacity).filter(([name]) => name.includes('/')));

/** @param before the last known status; fields set by other clients stay */
export function nodeStatus(facts: NodeFacts, reports: NodeReports, before: NodeStatus, nowMs: number): NodeStatus {
  const { volumesInUse: listed = [], declaredFeatures: _declared, ...others } = before;
  const volumesInUse = reports.volumesInUse ?? listed;
  return {
    ...others,
    capacity: { ...advertised(before), ...reports.capacity, ...reports.deviceCapacity },
    allocatable: { ...advertised(before), ...reports.allocatable, ...reports.deviceAllocatable },
    conditions: nodeConditions(reports, before.conditions ?? [], nowMs),
    ...addressesOf(facts, before),
    daemonEndpoints: { kubeletEndpoint: { Port: facts.port } },
    nodeInfo: facts.info,
    images: reports.images,
    ...(facts.declaredFeatures.length === 0 ? {} : { declaredFeatures: facts.declaredFeatures }),
    ...(volumesInUse.length === 0 ? {} : { volumesInUse }),
    ...(reports.runtimeHandlers.length === 0 ? {} : { runtimeHandlers: reports.runtimeHandlers }),
    ...(reports.features === null ? {} : { features: reports.features }),
  };
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
export const holdsMore = (
  { volumesInUse: before = [] }: NodeStatus,
  { volumesInUse: after = [] }: NodeStatus,
): boolean => after.some((name) => !before.includes(name));
