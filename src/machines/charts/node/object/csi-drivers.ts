/**
 * The part of the Node that comes from its CSI drivers: an annotation with the node ID of each driver, and topology
 * labels, by which the scheduler places volumes and pods.
 *
 * Upstream: pkg/volume/csi/nodeinfomanager (updateNodeIDInNode, updateTopologyLabels, removeNodeIDFromNode).
 */
import { isObject, type JsonObject } from '../../../../kernel/xstate.ts';
import type { Node } from '../../../model/api/node.ts';
import { strategicPatch } from '../../../model/api/strategic-patch.ts';
import { byBytes, quote } from '../../../model/values/go-text.ts';

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
