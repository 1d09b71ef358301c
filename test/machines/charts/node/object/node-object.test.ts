/** The Node object compared with the recorded registration of a real kubelet. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import {
  nodeConditions,
  readinessErrors,
  transitionEvents,
} from '../../../../../src/machines/charts/node/object/conditions.ts';
import {
  NOTHING_REPORTED,
  type NodeFacts,
  type NodeReports,
  nodeImages,
} from '../../../../../src/machines/charts/node/object/facts.ts';
import {
  hasChange,
  hasConditionChange,
  newNode,
  nodeStatus,
  reconciliation,
  statusPatch,
} from '../../../../../src/machines/charts/node/object/node.ts';
import { gatesOf } from '../../../../../src/machines/configuration/fields/feature-gates.ts';
import type { Node, NodeStatus } from '../../../../../src/machines/model/api/pod.ts';
import { declaredFeatures } from '../../../../../src/machines/startup/context/derive-features.ts';

interface Recorded {
  readonly method: string;
  readonly path: string;
  readonly body: Node & { readonly status: NodeStatus };
}
const recorded = readFileSync(
  new URL('../../../../golden/pods/cases/node-register/api.ndjson', import.meta.url),
  'utf8',
)
  .trim()
  .split('\n')
  .map((text) => JSON.parse(text) as Recorded);
const posted = recorded.find(({ method, path }) => method === 'POST' && path === '/api/v1/nodes')!.body;
const patches = recorded.filter(({ path }) => path.includes('/nodes/node1/status')).map(({ body }) => body);

const facts: NodeFacts = {
  nodeName: 'node1',
  hostname: 'node1',
  addresses: posted.status.addresses!,
  info: posted.status.nodeInfo!,
  port: 20260,
  labels: {},
  taints: [],
  providerID: '',
  externalCloud: false,
  providedNodeIP: '',
  enableControllerAttachDetach: false,
  declaredFeatures: posted.status.declaredFeatures!,
};

const reports: NodeReports = {
  ...NOTHING_REPORTED,
  runtimeErrors: [],
  storageError: 'CSINode is not yet initialized',
  capacity: posted.status.capacity!,
  allocatable: posted.status.allocatable!,
  images: posted.status.images! as NodeReports['images'],
  runtimeHandlers: posted.status.runtimeHandlers!,
  features: posted.status.features!,
};

const START_MS = 1_700_000_000_000;
const timeless = (value: unknown) => JSON.parse(JSON.stringify(value).replaceAll(/"20[^"]*Z"/g, '"<time>"')) as unknown;
it('a new Node is what the recorded kubelet posted', () => {
  const node = newNode(facts, nodeStatus(facts, reports, {}, START_MS));
  expect(timeless(node)).toEqual(posted);
});

it('follows the version of a runtime that is replaced while the agent runs', () => {
  const before = nodeStatus(facts, reports, {}, START_MS);
  const after = nodeStatus(facts, { ...reports, runtimeVersion: '9.9.9' }, before, START_MS);
  expect(statusPatch(before, after)).toEqual({
    status: { nodeInfo: { containerRuntimeVersion: 'containerd://9.9.9' } },
  });
});

it('readiness is told as the recorded PATCH does', () => {
  const before = nodeStatus(facts, reports, {}, START_MS);
  const after = nodeStatus(facts, { ...reports, storageError: '' }, before, START_MS + 1_000);
  expect(timeless(statusPatch(before, after))).toEqual(patches[1]);
  expect(hasConditionChange(before, after)).toBe(true);
});

it('lists the volumes in use of an earlier start until it knows which there are', () => {
  const before = nodeStatus(facts, { ...reports, volumesInUse: ['kubernetes.io/csi/d^h'] }, {}, START_MS);
  const inUse = (volumesInUse: readonly string[] | null) =>
    nodeStatus(facts, { ...reports, volumesInUse }, before, START_MS).volumesInUse;
  expect([inUse(null), inUse([]), inUse(['x'])]).toEqual([['kubernetes.io/csi/d^h'], undefined, ['x']]);
});

it('pulled images are reported as in the recorded PATCH, and are no change of a condition', () => {
  const ready = { ...reports, storageError: '' };
  const before = nodeStatus(facts, ready, {}, START_MS);
  const images = patches[2]!.status.images as NodeReports['images'];
  const after = nodeStatus(facts, { ...ready, images }, before, START_MS + 1_000);
  expect(timeless(statusPatch(before, after))).toEqual(patches[2]);
  expect([hasChange(before, after), hasConditionChange(before, after)]).toEqual([true, false]);
});

it('declares what the recorded kubelet does, and takes back what it does no more', () => {
  expect(declaredFeatures(gatesOf({ featureGates: {} }))).toEqual(posted.status.declaredFeatures);
  const before = nodeStatus(facts, reports, {}, START_MS);
  const after = nodeStatus({ ...facts, declaredFeatures: [] }, reports, before, START_MS);
  expect(statusPatch(before, after)).toMatchObject({ status: { declaredFeatures: null } });
});

it('the time alone is no news', () => {
  const before = nodeStatus(facts, reports, {}, START_MS);
  expect(hasChange(before, nodeStatus(facts, reports, before, START_MS + 10_000))).toBe(false);
});

it('an external cloud gets its taint and the address as given, and keeps the addresses it set', () => {
  const cloudy = { ...facts, externalCloud: true, providedNodeIP: '192.0.2.1', providerID: 'cloud://a' };
  const node = newNode(cloudy, {});
  expect(node.metadata!.annotations).toEqual({ 'alpha.kubernetes.io/provided-node-ip': '192.0.2.1' });
  expect(node.spec).toEqual({
    taints: [{ key: 'node.cloudprovider.kubernetes.io/uninitialized', value: 'true', effect: 'NoSchedule' }],
    providerID: 'cloud://a',
  });
  const addresses = [{ type: 'ExternalIP', address: '198.51.100.1' }];
  expect(nodeStatus(cloudy, reports, { addresses }, START_MS).addresses).toEqual(addresses);
});

it('an existing Node gets the labels back that every node has, and nothing else', () => {
  const labels = { 'kubernetes.io/os': 'plan9', zone: 'a' };
  expect(reconciliation(facts, { metadata: { name: 'node1', labels } })).toEqual({
    metadata: {
      labels: {
        'beta.kubernetes.io/arch': 'amd64',
        'beta.kubernetes.io/os': 'linux',
        'kubernetes.io/arch': 'amd64',
        'kubernetes.io/hostname': 'node1',
        'kubernetes.io/os': 'linux',
      },
    },
  });
  expect(reconciliation(facts, newNode(facts, {}))).toBeNull();
});

it('an existing Node has the place and kind of machine that the flags of this start name', () => {
  const labels = {
    'topology.kubernetes.io/zone': 'z1',
    'node.kubernetes.io/instance-type': 'big',
    'kubernetes.io/hostname': 'other',
    'topology.kubernetes.io/region': '',
    team: 'a',
  };
  const flagged = { ...facts, labels, followsFlags: true as const };
  const before = { 'topology.kubernetes.io/zone': 'z0', 'topology.kubernetes.io/region': 'r0', team: 'b' };
  const existing = { metadata: { name: 'node1', labels: { ...newNode(facts, {}).metadata!.labels, ...before } } };
  expect(reconciliation(flagged, existing)).toEqual({
    metadata: {
      labels: {
        'kubernetes.io/hostname': 'other',
        'node.kubernetes.io/instance-type': 'big',
        'topology.kubernetes.io/region': null,
        'topology.kubernetes.io/zone': 'z1',
      },
    },
  });
  expect(reconciliation({ ...facts, labels }, existing)).toBeNull();
});

it('a provided address goes with the flag that named it', () => {
  const key = 'alpha.kubernetes.io/provided-node-ip';
  const existing = newNode({ ...facts, externalCloud: true, providedNodeIP: '192.0.2.1' }, {});
  expect(reconciliation({ ...facts, followsFlags: true }, existing)).toEqual({
    metadata: { annotations: { [key]: null } },
  });
  expect(reconciliation(facts, existing)).toBeNull();
});

it('a node without addresses leaves those that there are', () => {
  const none = { ...facts, addresses: [] };
  expect(nodeStatus(none, reports, {}, START_MS).addresses).toBeUndefined();
  const addresses = [{ type: 'InternalIP', address: '192.0.2.9' }];
  expect(nodeStatus(none, reports, { addresses }, START_MS).addresses).toEqual(addresses);
});

it('the attach-detach annotation follows the configuration in both directions', () => {
  const managed = { ...facts, enableControllerAttachDetach: true };
  const key = 'volumes.kubernetes.io/controller-managed-attach-detach';
  expect(reconciliation(managed, newNode(facts, {}))).toEqual({ metadata: { annotations: { [key]: 'true' } } });
  expect(reconciliation(facts, newNode(managed, {}))).toEqual({ metadata: { annotations: { [key]: null } } });
});

it('errors of readiness are told together, each once, with what capacity is missing', () => {
  const broken = { ...reports, runtimeErrors: ['a', 'b'], networkError: 'a', storageError: '', shuttingDown: true };
  const { cpu: _cpu, ...capacity } = reports.capacity;
  expect(readinessErrors({ ...broken, capacity })).toEqual([
    'a',
    'b',
    'node is shutting down',
    'missing node capacity for resources: cpu',
  ]);
  const ready = nodeConditions(broken, [], START_MS).find(({ type }) => type === 'Ready')!;
  expect([ready.status, ready.reason, ready.message]).toEqual([
    'False',
    'KubeletNotReady',
    '[a, b, node is shutting down]',
  ]);
});

it('a node that does not count local storage is ready without any', () => {
  const { 'ephemeral-storage': _storage, ...capacity } = reports.capacity;
  const without = { ...reports, storageError: '', capacity };
  expect(readinessErrors(without)).toEqual(['missing node capacity for resources: ephemeral-storage']);
  expect(readinessErrors({ ...without, ignoresStorage: true })).toEqual([]);
});

it('a condition keeps its transition time while its status stays, and others keep theirs', () => {
  const foreign = { type: 'NetworkUnavailable', status: 'False' };
  const first = nodeConditions(reports, [foreign], START_MS);
  const second = nodeConditions({ ...reports, diskPressure: true }, first, START_MS + 5_000);
  expect(second[0]).toEqual(foreign);
  const moved = second.filter((condition, index) => condition.lastTransitionTime !== first[index]!.lastTransitionTime);
  expect(moved.map(({ type }) => type)).toEqual(['DiskPressure']);
});

it('a new node tells what it has enough of, but not that it is not ready yet', () => {
  const first = nodeConditions(reports, [], START_MS);
  expect(transitionEvents([], first)).toEqual([
    'NodeHasSufficientMemory',
    'NodeHasNoDiskPressure',
    'NodeHasSufficientPID',
  ]);
  const ready = nodeConditions({ ...reports, storageError: '' }, first, START_MS);
  expect(transitionEvents(first, ready)).toEqual(['NodeReady']);
  expect(transitionEvents(ready, first)).toEqual(['NodeNotReady']);
});

it('images are listed by size, with five names at most, without nameless ones', () => {
  const image = (size: string, names: string[]) =>
    ({ id: size, repo_tags: names, repo_digests: [], size }) as unknown as Parameters<typeof nodeImages>[0][number];
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  expect(nodeImages([image('1', ['x']), image('3', []), image('2', names)], 50)).toEqual([
    { names: names.slice(0, 5), sizeBytes: 2 },
    { names: ['x'], sizeBytes: 1 },
  ]);
  expect(nodeImages([image('1', ['x']), image('2', names)], 1)).toHaveLength(1);
});
