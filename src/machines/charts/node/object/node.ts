/**
 * The Node object as this agent registers it, and the corrections of a Node that exists already.
 * Upstream: pkg/kubelet/kubelet_node_status.go (initialNode, tryRegisterWithAPIServer). Seeds: S146, S216.
 */
import type { JsonObject } from '../../../../kernel/xstate.ts';
import type { Node, NodeStatus, Taint } from '../../../model/api/node.ts';
import { strategicPatch } from '../../../model/api/strategic-patch.ts';
import type { NodeVolumes } from '../../../model/csi/messages.ts';
import type { NodeLabels } from '../../../model/objects/messages.ts';
import type { NodeFacts } from './facts.ts';

const ATTACH_DETACH = 'volumes.kubernetes.io/controller-managed-attach-detach';
const PROVIDED_NODE_IP = 'alpha.kubernetes.io/provided-node-ip';
const UNINITIALIZED: Taint = {
  key: 'node.cloudprovider.kubernetes.io/uninitialized',
  value: 'true',
  effect: 'NoSchedule',
};

/** Labels that every node has; an existing node gets them back when they were changed. */
const defaultLabels = ({ hostname, info }: NodeFacts): Readonly<Record<string, string>> => ({
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
  return Object.fromEntries(Object.entries(kept).filter(([name, value]) => !isEmptied(name, value)));
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

/** The Node to create. */
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
