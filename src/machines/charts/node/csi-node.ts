/**
 * The CSINode: publishes the CSI drivers of this node, there and in the Node. Until the object exists the node is not
 * ready.
 *
 * Decides: create it, or keep the one that exists; which drivers the Node's labels contradict.
 * Owns: the drivers that registered on this node.
 * Hears: `node.registered`; `csi.driverRegistered` and `csi.driverGone` of the plugin manager.
 * Asks: `kube.get`, `kube.create`, `kube.patch`, `kube.delete` of its CSINode; `kube.get` of the Node, `kube.patch` of nodes/status.
 * Sends: `nodeStatus` whether storage is usable, or why not; `pluginManager` which drivers were written, and which
 *   cannot be.
 * Invariants:
 *   C1 it never gives up, and never repeats a rejected request at once.
 *   C2 a CSINode of an earlier Node is replaced: it would be garbage collected.
 *   C3 an entry of a driver is written before pods may use that driver, the Node's labels and annotation before it.
 * Upstream: pkg/volume/csi/nodeinfomanager.
 */

import type { Ended, JsonObject } from '../../../kernel/xstate.ts';
import { assign, errorOf, line, outputOf, pick, required, sendTo, setup, to, typed } from '../../../kernel/xstate.ts';
import type { CSINode, Node } from '../../model/api/pod.ts';
import { strategicPatch } from '../../model/api/strategic-patch.ts';
import { kubeOperations } from '../../model/operations/kube.ts';
import { type Decider, hasBehavior } from '../../model/settings/behaviors.ts';
import { type BackOff, doubledMs } from '../../model/values/time.ts';
import { CSINODE_UNKNOWN } from './object/facts.ts';
import { driversOnNode, type NodeMetadata } from './object/node.ts';
import { codeOf, nodeTarget } from './registration.ts';

/** Upstream's pauses between attempts. */
const RETRY: BackOff = { baseMs: 500, maxMs: 60_000 };
/** After this many failed attempts upstream tells a driver that it is not registered. */
const TRIES_MAX = 4;

/** In-tree volume plugins that were migrated to CSI drivers; every kubelet lists them. */
const MIGRATED = ['aws-ebs', 'azure-disk', 'azure-file', 'cinder', 'gce-pd', 'portworx-volume', 'vsphere-volume']
  .map((name) => `kubernetes.io/${name}`)
  .join(',');
const MIGRATED_PLUGINS = 'storage.alpha.kubernetes.io/migrated-plugins';

export interface CSIDriver {
  readonly name: string;
  /** The node ID: the driver's name for this node. */
  readonly nodeID: string;
  readonly topologyKeys: readonly string[];
  /** Labels for the Node, by these keys; absent in journals of nodes without `driversOnNode`. */
  readonly topology?: Readonly<Record<string, string>>;
  /** The number of volumes of the driver that fit on this node; absent without a limit. */
  readonly count?: number;
}

export type CSINodeReport =
  | { readonly type: 'csi.driversWritten'; readonly names: readonly string[] }
  | { readonly type: 'csi.driversUnwritten'; readonly names: readonly string[]; readonly error: string };

interface CSINodeInput extends Decider {
  readonly nodeName: string;
}

interface Context extends CSINodeInput {
  readonly nodeUid: string;
  readonly drivers: Readonly<Record<string, CSIDriver>>;
  /** Drivers that are gone from this node: their entries have to be removed. */
  readonly gone: readonly string[];
  readonly existing: CSINode | null;
  /** The metadata of the Node, as last read from the API server. */
  readonly node: NodeMetadata | null;
  readonly retryMs: number;
  /** Failed attempts since the CSINode was last correct. */
  readonly failures: number;
}

type Event =
  | { readonly type: 'node.registered'; readonly uid: string }
  | { readonly type: 'csi.driverRegistered'; readonly driver: CSIDriver }
  | { readonly type: 'csi.driverGone'; readonly name: string }
  | Ended;

const driverSpec = ({ name, nodeID, topologyKeys, count }: CSIDriver) => ({
  name,
  nodeID,
  topologyKeys,
  ...(count === undefined ? {} : { allocatable: { count } }),
});

function csiNode({ nodeName, nodeUid, drivers }: Context): CSINode {
  return {
    kind: 'CSINode',
    apiVersion: 'storage.k8s.io/v1',
    metadata: {
      name: nodeName,
      annotations: { [MIGRATED_PLUGINS]: MIGRATED },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: nodeName, uid: nodeUid }],
    },
    spec: { drivers: Object.values(drivers).map(driverSpec) },
  };
}

/** A Go server answers an empty list of topology keys with `null`. */
const withTopologyKeys = (spec: CSINode['spec']): CSINode['spec'] =>
  spec?.drivers
    ? { ...spec, drivers: spec.drivers.map((driver) => ({ ...driver, topologyKeys: driver.topologyKeys ?? [] })) }
    : spec;

/** The patch that corrects annotation and drivers of an existing CSINode; `null` if they are correct. */
function csiNodePatch(context: Context): JsonObject | null {
  const existing = required(context.existing, 'the CSINode that exists');
  const names = new Set([...Object.keys(context.drivers), ...context.gone]);
  const spec = hasBehavior(context, 'driversWithoutTopology') ? withTopologyKeys(existing.spec) : existing.spec;
  const others = (spec?.drivers ?? []).filter(({ name }) => !names.has(name));
  const before = { metadata: { annotations: existing.metadata?.annotations ?? {} }, spec };
  const after = {
    metadata: { annotations: { ...existing.metadata?.annotations, [MIGRATED_PLUGINS]: MIGRATED } },
    spec: { ...spec, drivers: [...others, ...Object.values(context.drivers).map(driverSpec)] },
  };
  return strategicPatch(before, after, { 'spec.drivers': 'name' });
}

const isOfThisNode = ({ existing, nodeName, nodeUid }: Context): boolean =>
  (existing?.metadata?.ownerReferences ?? []).some(
    ({ kind, name, uid }) => kind === 'Node' && name === nodeName && uid === nodeUid,
  );

const nodePart = ({ node, drivers, gone }: Context) =>
  driversOnNode(required(node, 'the Node that was read'), Object.values(drivers), gone);
const nodePatch = (context: Context): JsonObject | null => nodePart(context).patch;

/** Whether the Node has the labels and node IDs of all drivers, including drivers that registered after it was read. */
function isNodeSettled(context: Context): boolean {
  if (context.node === null) return false;
  const { patch, rejected } = nodePart(context);
  return patch === null && rejected.size === 0;
}

const target = (nodeName: string) =>
  ({ client: 'kube', apiVersion: 'storage.k8s.io/v1', resource: 'csinodes', name: nodeName }) as const;

const s = setup({
  types: typed<{ input: CSINodeInput; context: Context; events: Event }>(),
  actors: pick(kubeOperations, 'kube.get', 'kube.create', 'kube.patch', 'kube.delete'),
  guards: {
    isOfEarlierNode: ({ context }) => hasBehavior(context, 'csiNodeOfNode') && !isOfThisNode(context),
    isInLine: ({ context }) => csiNodePatch(context) === null,
    isNodeInLine: ({ context }) => nodePatch(context) === null,
    changesNode: ({ context }) =>
      hasBehavior(context, 'driversOnNode') &&
      Object.keys(context.drivers).length + context.gone.length > 0 &&
      !isNodeSettled(context),
  },
  delays: { retry: ({ context }) => context.retryMs },
});

/** Upstream's text for a driver when `object` could not be changed in time. */
const unwrittenText = (object: 'CSINode' | 'Node', cause: string): string =>
  `error updating ${object} object with CSI driver node info: error updating ${object === 'Node' ? 'node' : object}: ` +
  `timed out waiting for the condition; caused by: ${cause}`;

const failing = (object: 'CSINode' | 'Node', text: string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const { message } = errorOf(event);
    enqueue(line('error', [text, { node: context.nodeName, err: message }]));
    const failures = context.failures + 1;
    enqueue.assign({ failures });
    const names = Object.keys(context.drivers);
    if (failures < TRIES_MAX || names.length === 0) return;
    const error = unwrittenText(object, message);
    enqueue.sendTo(to('pluginManager'), { type: 'csi.driversUnwritten', names, error } satisfies CSINodeReport);
  });
const failed = failing('CSINode', 'Failed to initialize CSINode');
const failedOnNode = failing('Node', 'Failed to write the CSI drivers into the Node');

/** A driver whose topology contradicts the Node is reported, and is not written. */
const rejectDrivers = s.enqueueActions(({ context, enqueue }) => {
  const { rejected } = nodePart(context);
  for (const [name, cause] of rejected) {
    const report: CSINodeReport = { type: 'csi.driversUnwritten', names: [name], error: unwrittenText('Node', cause) };
    enqueue.sendTo(to('pluginManager'), report);
  }
  const accepted = Object.entries(context.drivers).filter(([name]) => !rejected.has(name));
  if (rejected.size > 0) enqueue.assign({ drivers: Object.fromEntries(accepted) });
});

const sendWritten = s.enqueueActions(({ context, enqueue }) => {
  const names = Object.keys(context.drivers);
  if (names.length === 0) return;
  enqueue.sendTo(to('pluginManager'), { type: 'csi.driversWritten', names } satisfies CSINodeReport);
});

const noteNode = s.assign(({ event }) => (event.type === 'node.registered' ? { nodeUid: event.uid } : {}));

const noteExisting = s.assign({ existing: ({ event }) => outputOf<CSINode>(event) });

/** Stores only the part of the Node that drivers change. */
const noteNodeObject = s.assign({
  node: ({ event }): NodeMetadata => {
    const { labels, annotations } = outputOf<Node>(event).metadata ?? {};
    return { ...(labels ? { labels } : {}), ...(annotations ? { annotations } : {}) };
  },
});

const noteDriver = s.assign(({ context, event }) => {
  if (event.type === 'csi.driverRegistered') {
    const { driver } = event;
    const gone = context.gone.filter((name) => name !== driver.name);
    return { drivers: { ...context.drivers, [driver.name]: driver }, gone };
  }
  if (event.type !== 'csi.driverGone') return {};
  const { [event.name]: _gone, ...drivers } = context.drivers;
  return { drivers, gone: [...new Set([...context.gone, event.name])] };
});

export const csiNodeMachine = s.createMachine({
  id: 'csiNode',
  context: ({ input }) => ({
    ...input,
    nodeUid: '',
    drivers: {},
    gone: [],
    existing: null,
    node: null,
    retryMs: RETRY.baseMs,
    failures: 0,
  }),
  entry: sendTo(to('nodeStatus'), { type: 'node.reported', reports: { storageError: CSINODE_UNKNOWN } }),
  initial: 'unregistered',
  on: {
    'csi.driverRegistered': { actions: noteDriver },
    'csi.driverGone': { actions: noteDriver },
  },
  states: {
    unregistered: {
      meta: { waitsFor: 'the Node to be registered' },
      on: { 'node.registered': { target: 'beginning', actions: noteNode } },
    },
    /** Reads the Node again for each change: other clients may have changed it in the meantime. */
    beginning: {
      entry: assign({ node: null }),
      always: [{ guard: 'changesNode', target: 'readingNode' }, { target: 'reading' }],
    },
    readingNode: {
      meta: { waitsFor: 'the Node, which gets the topology of CSI drivers' },
      invoke: {
        id: 'getNode',
        src: 'kube.get',
        input: ({ context }) => nodeTarget(context.nodeName),
        onDone: { target: 'comparingNode', actions: [noteNodeObject, rejectDrivers] },
        onError: { target: 'backingOff', actions: failedOnNode },
      },
    },
    comparingNode: { always: [{ guard: 'isNodeInLine', target: 'reading' }, { target: 'patchingNode' }] },
    patchingNode: {
      meta: { waitsFor: 'the API server to take the topology of CSI drivers' },
      invoke: {
        id: 'patchNode',
        src: 'kube.patch',
        input: ({ context }) => ({
          ...nodeTarget(context.nodeName),
          subresource: 'status',
          patchType: 'application/strategic-merge-patch+json' as const,
          body: nodePatch(context),
        }),
        onDone: { target: 'verifyingNode', actions: noteNodeObject },
        onError: { target: 'backingOff', actions: failedOnNode },
      },
    },
    verifyingNode: { always: [{ guard: 'isNodeInLine', target: 'reading' }, { target: 'backingOff' }] },
    reading: {
      meta: { waitsFor: 'the CSINode of this node' },
      invoke: {
        id: 'get',
        src: 'kube.get',
        input: ({ context }) => target(context.nodeName),
        onDone: { target: 'comparing', actions: noteExisting },
        onError: [
          { guard: ({ event }) => codeOf(event) === 'NotFound', target: 'creating' },
          { target: 'backingOff', actions: failed },
        ],
      },
    },
    creating: {
      meta: { waitsFor: 'the API server to take the CSINode' },
      invoke: {
        id: 'create',
        src: 'kube.create',
        input: ({ context }) => {
          const { name: _named, ...collection } = target(context.nodeName);
          return { ...collection, body: csiNode(context) };
        },
        onDone: { target: 'comparing', actions: noteExisting },
        onError: { target: 'backingOff', actions: failed },
      },
    },
    comparing: {
      always: [
        { guard: 'changesNode', target: 'beginning' },
        { guard: 'isOfEarlierNode', target: 'deleting' },
        { guard: 'isInLine', target: 'initialized' },
        { target: 'patching' },
      ],
    },
    /** It is created after a pause, as by the kubelet: a server that takes owners away is not asked without end. */
    deleting: {
      meta: { waitsFor: 'the API server to delete the CSINode of an earlier Node' },
      entry: line('info', ({ context }) => ['Deleting the CSINode of an earlier Node', { node: context.nodeName }]),
      invoke: {
        id: 'delete',
        src: 'kube.delete',
        input: ({ context }) => target(context.nodeName),
        onDone: 'backingOff',
        onError: [
          { guard: ({ event }) => codeOf(event) === 'NotFound', target: 'backingOff' },
          { target: 'backingOff', actions: failed },
        ],
      },
    },
    patching: {
      meta: { waitsFor: 'the API server to take the drivers of this node' },
      invoke: {
        id: 'patch',
        src: 'kube.patch',
        input: ({ context }) => ({
          ...target(context.nodeName),
          patchType: 'application/strategic-merge-patch+json' as const,
          body: csiNodePatch(context),
        }),
        onDone: { target: 'verifying', actions: noteExisting },
        onError: { target: 'backingOff', actions: failed },
      },
    },
    verifying: { always: [{ guard: 'isInLine', target: 'initialized' }, { target: 'backingOff' }] },
    backingOff: {
      exit: assign({ retryMs: ({ context }) => doubledMs(RETRY, context.retryMs) }),
      after: { retry: 'beginning' },
    },
    initialized: {
      entry: [
        assign({ retryMs: RETRY.baseMs, failures: 0 }),
        sendTo(to('nodeStatus'), { type: 'node.reported', reports: { storageError: '' } }),
        sendWritten,
      ],
      on: {
        'csi.driverRegistered': { target: 'beginning', actions: noteDriver },
        'csi.driverGone': { target: 'beginning', actions: noteDriver },
      },
    },
  },
});
