import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { JsonEvent } from '../../../../src/kernel/json.ts';
import { csiNodeMachine } from '../../../../src/machines/charts/node/csi-node.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { type Answers, fail, late, ok, runUnder } from '../../../support/answering-world.ts';

const INPUT = { nodeName: 'node1', behavior: NEWEST_BEHAVIOR };
const registered = { type: 'node.registered', uid: '<uid:node1>' } as JsonEvent;
const recorded = readFileSync(new URL('../../../golden/pods/cases/node-register/api.ndjson', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((text) => JSON.parse(text) as { path: string; body: Record<string, unknown> })
  .find(({ path }) => path.endsWith('/csinodes'))!.body;

/** With the Node as its owner. */
const own = recorded['metadata'] as Readonly<Record<string, unknown>>;

/** The number of the behavior `csiNodeOfNode`. */
const CSINODE_OF_NODE = 34;
/** The number of the behavior `driversWithoutTopology`. */
const WITHOUT_TOPOLOGY = 19;

type Texts = Readonly<Record<string, string | null>>;
interface Request {
  readonly resource: string;
  readonly body: { readonly metadata: Readonly<Record<'labels' | 'annotations', Texts | undefined>> };
}

/** Answers for the CSINode, and those of an API server that stores the Node. */
function withNode(answers: Answers, labels: Texts = {}, annotations: Texts = {}) {
  const node = { labels, annotations };
  const patches: unknown[] = [];
  const merged = (before: Texts, change: Texts = {}): Texts =>
    Object.fromEntries(Object.entries({ ...before, ...change }).filter(([, value]) => value !== null));
  const csiNode = (name: string, input: Request) => {
    const answer = answers[name];
    return typeof answer === 'function' ? answer(input as never) : answer!;
  };
  const all: Answers = {
    ...answers,
    'kube.get': (input: Request) =>
      input.resource === 'nodes' ? ok({ metadata: { ...node } }) : csiNode('kube.get', input),
    'kube.patch': (input: Request) => {
      if (input.resource !== 'nodes') return csiNode('kube.patch', input);
      const { metadata, ...rest } = input.body;
      patches.push({ metadata, ...rest });
      node.labels = merged(node.labels, metadata.labels);
      node.annotations = merged(node.annotations, metadata.annotations);
      return ok({ metadata: { ...node } });
    },
  };
  return { answers: all, patches, node };
}

const NODE_IDS = 'csi.volume.kubernetes.io/nodeid';

const toPlugins = (sent: readonly { readonly to: string }[]) =>
  sent.filter(({ to }) => to === 'parent/pluginManager').map(({ to: _to, ...event }) => event);

it('posts what the recorded kubelet posted, once the Node is there', () => {
  const bodies: unknown[] = [];
  const world = runUnder(
    csiNodeMachine,
    INPUT,
    {
      'kube.get': fail('csinodes "node1" not found', 'NotFound'),
      'kube.create': ({ body }: { body: unknown }) => {
        bodies.push(body);
        return ok(body);
      },
    },
    ['nodeStatus'],
  );
  expect(world.asked()).toEqual([]);
  world.send(registered);
  world.time.advanceTo(world.time.now());
  expect(bodies).toEqual([recorded]);
  expect(world.sent().map((message) => (message as { reports?: unknown }).reports)).toEqual([
    { storageError: 'CSINode is not yet initialized' },
    { storageError: '' },
  ]);
  expect(world.divergence()).toBeNull();
});

it('is content with the `null` by which a real API server says that there are no drivers', () => {
  const world = runUnder(
    csiNodeMachine,
    INPUT,
    {
      'kube.get': fail('csinodes "node1" not found', 'NotFound'),
      'kube.create': ok({ ...recorded, spec: { drivers: null } }),
    },
    ['nodeStatus'],
  );
  world.send(registered);
  world.time.advanceTo(world.time.now());
  expect(world.state()).toBe('initialized');
});

it.each([
  [NEWEST_BEHAVIOR, 'initialized', 1],
  [WITHOUT_TOPOLOGY - 1, 'backingOff', 0],
])('of behavior %i, with the `null` for no topology keys, is %s', (behavior, state, written) => {
  const driver = { name: 'a.csi', nodeID: 'n', topologyKeys: [] };
  const answered = { ...recorded, spec: { drivers: [{ ...driver, topologyKeys: null }] } };
  const { answers } = withNode({ 'kube.get': ok(recorded), 'kube.patch': ok(answered) });
  const world = runUnder(csiNodeMachine, { ...INPUT, behavior }, answers, ['nodeStatus', 'pluginManager']);
  world.send({ type: 'csi.driverRegistered', driver });
  world.send(registered);
  world.time.advanceTo(world.time.now());
  expect(world.state()).toBe(state);
  expect(toPlugins(world.sent())).toHaveLength(written);
});

const ofEarlierNode = {
  ...recorded,
  metadata: { ...own, ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'node1', uid: 'earlier' }] },
};

it.each([
  [
    'is replaced when it is of an earlier Node',
    NEWEST_BEHAVIOR,
    ['kube.get', 'kube.delete', 'kube.get', 'kube.create'],
  ],
  ['was kept then', CSINODE_OF_NODE - 1, ['kube.get']],
])('a CSINode %s', (_, behavior, operations) => {
  let exists = true;
  const world = runUnder(
    csiNodeMachine,
    { ...INPUT, behavior },
    {
      'kube.get': () => (exists ? ok(ofEarlierNode) : fail('csinodes "node1" not found', 'NotFound')),
      'kube.delete': () => {
        exists = false;
        return ok(null);
      },
      'kube.create': ({ body }: { body: JsonEvent }) => ok(body),
    },
    ['nodeStatus'],
  );
  world.send(registered);
  world.time.advanceTo(world.time.now() + 10_000);
  expect(world.asked()).toEqual(operations);
  expect(world.state()).toBe('initialized');
  expect(world.divergence()).toBeNull();
});

it('a CSINode whose owner the server takes away is replaced ever more rarely', () => {
  const answers = {
    'kube.get': fail('csinodes "node1" not found', 'NotFound'),
    'kube.delete': ok(null),
    'kube.create': ok(ofEarlierNode),
  };
  const world = runUnder(csiNodeMachine, INPUT, answers, ['nodeStatus']);
  world.send(registered);
  world.time.advanceTo(world.time.now() + 60_000);
  const deletions = world.asked().filter((name) => name === 'kube.delete').length;
  expect(deletions).toBeGreaterThan(3);
  expect(deletions).toBeLessThan(10);
});

it('does not ask at once again for what the server did not take', () => {
  const { annotations: _none, ...unannotated } = own;
  let patches = 0;
  const world = runUnder(
    csiNodeMachine,
    INPUT,
    {
      'kube.get': ok({ ...recorded, metadata: unannotated }),
      'kube.patch': () => {
        patches += 1;
        return ok({ ...recorded, metadata: unannotated });
      },
    },
    ['nodeStatus'],
  );
  world.send(registered);
  world.time.advanceTo(world.time.now() + 10_000);
  expect(patches).toBe(5);
});

it('adds a driver that registers and keeps those of others', () => {
  const others = { ...recorded, spec: { drivers: [{ name: 'other', nodeID: 'o', topologyKeys: null }] } };
  const bodies: unknown[] = [];
  const world = runUnder(
    csiNodeMachine,
    INPUT,
    withNode({
      'kube.get': ok(others),
      'kube.patch': ({ body }: { body: { spec: { drivers: unknown[] } } }) => {
        bodies.push(body);
        return ok({ ...others, spec: { drivers: [...others.spec.drivers, ...body.spec.drivers] } });
      },
    }).answers,
    ['nodeStatus', 'pluginManager'],
  );
  world.send(registered);
  world.time.advanceTo(world.time.now());
  const driver = { name: 'csi.example.test', nodeID: 'n', topologyKeys: [], count: 3 };
  world.send({ type: 'csi.driverRegistered', driver });
  world.time.advanceTo(world.time.now());
  expect(bodies).toEqual([
    {
      spec: {
        '$setElementOrder/drivers': [{ name: 'other' }, { name: 'csi.example.test' }],
        drivers: [{ name: 'csi.example.test', nodeID: 'n', topologyKeys: [], allocatable: { count: 3 } }],
      },
    },
  ]);
  expect(world.state()).toBe('initialized');
  expect(toPlugins(world.sent())).toEqual([{ type: 'csi.driversWritten', names: ['csi.example.test'] }]);
});

it('says after four tries that a driver cannot be written, and goes on trying', () => {
  const { answers } = withNode({ 'kube.get': fail('away') });
  const world = runUnder(csiNodeMachine, INPUT, answers, ['nodeStatus', 'pluginManager']);
  world.send({ type: 'csi.driverRegistered', driver: { name: 'csi.example.test', nodeID: 'n', topologyKeys: [] } });
  world.send(registered);
  world.time.advanceTo(world.time.now() + 1_499);
  expect(toPlugins(world.sent())).toEqual([]);
  world.time.advanceTo(world.time.now() + 2_001);
  const error =
    'error updating CSINode object with CSI driver node info: error updating CSINode: ' +
    'timed out waiting for the condition; caused by: away';
  expect(toPlugins(world.sent())).toEqual([{ type: 'csi.driversUnwritten', names: ['csi.example.test'], error }]);
  world.send({ type: 'csi.driverGone', name: 'csi.example.test' });
  world.time.advanceTo(world.time.now() + 60_000);
  expect(toPlugins(world.sent())).toHaveLength(1);
  expect(world.asked().length).toBeGreaterThan(6);
  expect(world.divergence()).toBeNull();
});

it('tries again for as long as the API server is away', () => {
  const world = runUnder(csiNodeMachine, INPUT, { 'kube.get': fail('away') }, ['nodeStatus']);
  world.send(registered);
  world.time.advanceTo(world.time.now() + 10_000);
  expect(world.asked()).toHaveLength(5);
  expect(world.logged()).toContain('Failed to initialize CSINode');
});

it('takes back the entry of a driver that is gone, and of no other', () => {
  const entry = (name: string) => ({ name, nodeID: 'n', topologyKeys: [] });
  let known = { ...recorded, spec: { drivers: [entry('other'), entry('csi.example.test')] } };
  const bodies: unknown[] = [];
  const world = runUnder(
    csiNodeMachine,
    INPUT,
    withNode({
      'kube.get': () => ok(known),
      'kube.patch': ({ body }: { body: unknown }) => {
        bodies.push(body);
        known = { ...known, spec: { drivers: [entry('other')] } };
        return ok(known);
      },
    }).answers,
    ['nodeStatus'],
  );
  world.send(registered);
  world.send({ type: 'csi.driverRegistered', driver: entry('csi.example.test') });
  world.time.advanceTo(world.time.now());
  expect(bodies).toEqual([]);
  world.send({ type: 'csi.driverGone', name: 'csi.example.test' });
  world.time.advanceTo(world.time.now());
  expect(bodies).toEqual([
    {
      spec: {
        '$setElementOrder/drivers': [{ name: 'other' }],
        drivers: [{ $patch: 'delete', name: 'csi.example.test' }],
      },
    },
  ]);
  expect(world.state()).toBe('initialized');
  expect(world.divergence()).toBeNull();
});

/** A CSINode to which every driver can be added. */
function keptCSINode(): Answers {
  let csiNode: Record<string, unknown> = recorded;
  return {
    'kube.get': () => ok(csiNode),
    'kube.patch': ({ body }: { body: { spec: { drivers: readonly object[] } } }) => {
      csiNode = { ...csiNode, spec: { drivers: body.spec.drivers.filter((each) => !('$patch' in each)) } };
      return ok(csiNode);
    },
  };
}
const driver = { name: 'a.csi', nodeID: 'n', topologyKeys: ['zone'], topology: { zone: 'z1' } };

it('writes topology and name of the node into the Node before the driver is in the CSINode', () => {
  const { answers, patches, node } = withNode(keptCSINode(), { os: 'linux' }, { [NODE_IDS]: '{"b.csi":"m"}' });
  const world = runUnder(csiNodeMachine, INPUT, answers, ['nodeStatus', 'pluginManager']);
  world.send({ type: 'csi.driverRegistered', driver });
  world.send(registered);
  world.time.advanceTo(world.time.now());
  expect(patches).toEqual([
    { metadata: { labels: { zone: 'z1' }, annotations: { [NODE_IDS]: '{"a.csi":"n","b.csi":"m"}' } } },
  ]);
  expect(world.state()).toBe('initialized');
  expect(toPlugins(world.sent())).toEqual([{ type: 'csi.driversWritten', names: ['a.csi'] }]);

  world.send({ type: 'csi.driverRegistered', driver });
  world.time.advanceTo(world.time.now());
  expect(patches).toHaveLength(1);

  world.send({ type: 'csi.driverGone', name: 'a.csi' });
  world.time.advanceTo(world.time.now());
  expect(node).toEqual({ labels: { os: 'linux', zone: 'z1' }, annotations: { [NODE_IDS]: '{"b.csi":"m"}' } });
  expect(world.divergence()).toBeNull();
});

it('removes the annotation with the last driver', () => {
  const { answers, node } = withNode(keptCSINode());
  const world = runUnder(csiNodeMachine, INPUT, answers, ['nodeStatus', 'pluginManager']);
  world.send({ type: 'csi.driverRegistered', driver });
  world.send(registered);
  world.time.advanceTo(world.time.now());
  world.send({ type: 'csi.driverGone', name: 'a.csi' });
  world.time.advanceTo(world.time.now());
  expect(node.annotations).toEqual({});
});

it.each([
  [
    'topology contradicts a label',
    { zone: 'z2' },
    {},
    'detected topology value collision: driver reported "zone":"z1" but existing label is "zone":"z2"',
  ],
  [
    'Node has an annotation that is no map',
    {},
    { [NODE_IDS]: '[]' },
    `failed to parse node's "${NODE_IDS}" annotation value ("[]") err=it is no map of texts`,
  ],
])('rejects a driver whose %s, and no other change is made', (_what, labels, annotations, cause) => {
  const { answers, patches } = withNode(keptCSINode(), labels, annotations);
  const world = runUnder(csiNodeMachine, INPUT, answers, ['nodeStatus', 'pluginManager']);
  world.send({ type: 'csi.driverRegistered', driver });
  world.send(registered);
  world.time.advanceTo(world.time.now());
  const error =
    'error updating Node object with CSI driver node info: error updating node: ' +
    `timed out waiting for the condition; caused by: ${cause}`;
  expect(toPlugins(world.sent())).toEqual([{ type: 'csi.driversUnwritten', names: ['a.csi'], error }]);
  expect(patches).toEqual([]);
  expect(world.state()).toBe('initialized');
});

it('a driver that registers while the CSINode is read is in the Node first, too', () => {
  const kept = keptCSINode();
  const slow: Answers = { ...kept, 'kube.get': late(1_000, ok(recorded)) };
  const { answers, patches } = withNode(slow);
  const world = runUnder(csiNodeMachine, INPUT, answers, ['nodeStatus', 'pluginManager']);
  world.send(registered);
  world.time.advanceTo(world.time.now() + 500);
  world.send({ type: 'csi.driverRegistered', driver });
  world.time.advanceTo(world.time.now() + 5_000);
  expect(patches).toHaveLength(1);
  expect(world.state()).toBe('initialized');
});

it('reports that the Node cannot be written, and goes on trying', () => {
  const { answers } = withNode(keptCSINode());
  const refusing: Answers = { ...answers, 'kube.get': fail('away') };
  const world = runUnder(csiNodeMachine, INPUT, refusing, ['nodeStatus', 'pluginManager']);
  world.send({ type: 'csi.driverRegistered', driver });
  world.send(registered);
  world.time.advanceTo(world.time.now() + 3_500);
  const error =
    'error updating Node object with CSI driver node info: error updating node: ' +
    'timed out waiting for the condition; caused by: away';
  expect(toPlugins(world.sent())).toEqual([{ type: 'csi.driversUnwritten', names: ['a.csi'], error }]);
  expect(world.state()).toBe('backingOff');
});

it('of the behavior before, leaves the Node as it is', () => {
  const { answers, patches } = withNode(keptCSINode());
  const input = { ...INPUT, behavior: WITHOUT_TOPOLOGY };
  const world = runUnder(csiNodeMachine, input, answers, ['nodeStatus', 'pluginManager']);
  world.send({ type: 'csi.driverRegistered', driver });
  world.send(registered);
  world.time.advanceTo(world.time.now());
  expect(patches).toEqual([]);
  expect(toPlugins(world.sent())).toEqual([{ type: 'csi.driversWritten', names: ['a.csi'] }]);
});
