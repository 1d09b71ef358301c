/** Devices that a scheduler allocated: drivers prepare them before a pod starts, and release them after its end. */
import { afterEach, describe, expect, it } from 'vitest';
import { readClaimState } from '../../../../../src/machines/model/dra/claims.ts';
import { knownKind } from '../../../../../src/simulation/api-server/kinds.ts';
import { type ClusterNode, clusterNode } from './support.ts';

const DRIVER = 'gpu.example.test';
const STATE = '/var/lib/kubelet/dra_manager_state';
let cluster: ClusterNode;
/** The uids of pods, including those that are gone. */
const uids: Record<string, string> = {};

const API = { apiVersion: 'resource.k8s.io/v1', kind: 'ResourceClaim' } as const;

interface ClaimOptions {
  /** The pod for which the claim was generated. */
  readonly owner?: string;
  /** The pods for which the claim is reserved. */
  readonly reservedFor?: readonly string[];
  readonly isAllocated?: boolean;
}

/** The uid of a pod; a fixed one if there is no such pod. */
const uidOf = (name: string): string => cluster.kube.pod(name)?.metadata.uid ?? `uid-of-${name}`;

function createClaim(name: string, { owner, reservedFor = [], isAllocated = true }: ClaimOptions = {}): void {
  const ownerReferences =
    owner === undefined ? [] : [{ apiVersion: 'v1', kind: 'Pod', name: 'p', uid: uidOf(owner), controller: true }];
  const result = { driver: DRIVER, pool: 'node', device: 'gpu-0', request: 'gpu' };
  cluster.kube.create({
    ...API,
    metadata: { name, namespace: 'default', ownerReferences },
    spec: { devices: { requests: [{ name: 'gpu', exactly: { deviceClassName: 'gpu' } }] } },
  });
  cluster.kube.registry.patch(
    { kind: knownKind(API.apiVersion, 'resourceclaims'), namespace: 'default', name, subresource: 'status' },
    'application/merge-patch+json',
    {
      status: {
        ...(isAllocated ? { allocation: { devices: { results: [result] } } } : {}),
        reservedFor: reservedFor.map((name) => ({ resource: 'pods', name, uid: uidOf(name) })),
      },
    },
  );
}

/** Boots a node with registered drivers, after the scheduler has assigned the pod. */
function booted(spec: object, { status = {}, hasDriver = true, claims = () => {} } = {}): ClusterNode {
  cluster.kube.createPod('p', spec);
  claims();
  cluster.kube.patch('pods', 'p', { status }, 'status');
  return start(hasDriver);
}

function start(hasDriver = true): ClusterNode {
  for (const name of ['p', 'q']) uids[name] = uidOf(name);
  cluster.node.boot();
  cluster.node.run(50);
  if (hasDriver) register();
  return cluster;
}

const register = (service = 'v1.DRAPlugin') =>
  cluster.node.kernel.dispatch(
    'kubelet/draManager',
    { type: 'dra.registered', driver: DRIVER, endpoint: '/plugins/gpu/dra.sock', service },
    'test',
  );

const phase = (name = 'p'): string | undefined => cluster.kube.pod(name)?.status?.phase;
const messages = (name = 'p') =>
  cluster.kube
    .of('create', /events$/)
    .filter(({ body }) => body.involvedObject.name === name && body.reason === 'FailedPrepareDynamicResources')
    .map(({ body }) => body.message);
const failedWith = (text: string) => `Failed to prepare dynamic resources: prepare dynamic resources: ${text}`;
const named = (claim = 'mine', request: object = {}) => ({
  resourceClaims: [{ name: 'gpu', resourceClaimName: claim }],
  containers: [{ name: 'app', image: 'app:1', resources: { claims: [{ name: 'gpu', ...request }] } }],
});
const template = {
  resourceClaims: [{ name: 'gpu', resourceClaimTemplateName: 'gpus' }],
  containers: [{ name: 'app', image: 'app:1', resources: { claims: [{ name: 'gpu' }] } }],
};
const calls = () => cluster.node.world.dra.calls;
const running = () => cluster.node.until('Running', () => phase() === 'Running', 60_000);
const gone = (name = 'p') => cluster.node.until('gone', () => cluster.kube.pod(name) === undefined, 60_000);
const states = () => {
  const text = cluster.node.world.dra.checkpoints.get(STATE) ?? '';
  const state = readClaimState(text);
  const nameOf = (uid: string) => ['p', 'q'].find((name) => uids[name] === uid) ?? uid;
  return 'claims' in state ? state.claims.map(({ name, pods }) => [name, pods.map(nameOf).toSorted()]) : state.error;
};
const created = () => cluster.node.world.runtime.started.length;
const cdiOf = () => cluster.node.world.calls.filter(({ name }) => name === 'cri.createContainer').length;

describe('a pod with resource claims', () => {
  const begin = () => {
    cluster = clusterNode({ reportsDeviceHealth: true });
  };
  afterEach(() => {
    expect(cluster.node.crashes()).toEqual([]);
    cluster.node.assertReplays();
  });

  it('begins when its driver has prepared them, and gives them back before it is gone', () => {
    begin();
    booted(named(), { claims: () => createClaim('mine', { reservedFor: ['p'] }) });
    running();
    expect([calls(), created(), cdiOf()]).toEqual([[`prepare ${DRIVER}/default/mine`], 1, 1]);
    const container = cluster.node.sink.records.find(
      (record) => record.k === 'effect' && record.name === 'cri.createContainer',
    );
    expect(container).toMatchObject({ input: { config: { CDI_devices: [{ name: `${DRIVER}/gpu=mine` }] } } });
    expect(states()).toEqual([['mine', ['p']]]);
    cluster.kube.delete('pods', 'p');
    gone();
    expect(calls()).toEqual([`prepare ${DRIVER}/default/mine`, `unprepare ${DRIVER}/default/mine`]);
    expect(states()).toEqual([]);
  });

  it.each([
    ['no claim', () => {}, 'fetch ResourceClaim mine: resourceclaims.resource.k8s.io "mine" not found'],
    [
      'a claim that is not reserved for it',
      () => createClaim('mine', { reservedFor: ['q'] }),
      /^pod p \(.+\) is not allowed to use ResourceClaim mine \(.+\)$/,
    ],
    [
      'a claim without an allocation',
      () => createClaim('mine', { reservedFor: ['p'], isAllocated: false }),
      'ResourceClaim mine: not allocated',
    ],
  ])('waits, with %s', (_, prepare, error) => {
    begin();
    booted(named(), { claims: prepare });
    cluster.node.run(30_000);
    const text = messages()[0]?.slice(failedWith('').length);
    expect([phase(), created(), calls()]).toEqual(['Pending', 0, []]);
    expect(text).toEqual(typeof error === 'string' ? error : expect.stringMatching(error));
    cluster.kube.delete('pods', 'p');
    gone();
  });

  it('waits for its driver, and begins when it has come', () => {
    begin();
    booted(named(), { claims: () => createClaim('mine', { reservedFor: ['p'] }), hasDriver: false });
    cluster.node.run(20_000);
    expect(messages()).toContain(failedWith(`DRA driver ${DRIVER} is not registered`));
    expect(states()).toEqual([]);
    register();
    running();
  });

  it('says what a driver refuses, and tries again', () => {
    begin();
    cluster.node.world.dra.refusals.set('mine', 'no power');
    booted(named(), { claims: () => createClaim('mine', { reservedFor: ['p'] }) });
    cluster.node.run(20_000);
    expect(messages()).toContain(failedWith('NodePrepareResources failed for ResourceClaim mine: no power'));
    expect([phase(), states()]).toEqual(['Pending', [['mine', ['p']]]]);
    cluster.node.world.dra.refusals.clear();
    running();
  });

  it('begins as soon as its claim was made from the template', () => {
    begin();
    booted(template);
    cluster.node.run(5_000);
    expect(messages()).toContain(failedWith('pod "default/p": ResourceClaim not created yet'));
    createClaim('p-gpu-x', { owner: 'p', reservedFor: ['p'] });
    const status = { resourceClaimStatuses: [{ name: 'gpu', resourceClaimName: 'p-gpu-x' }] };
    cluster.kube.patch('pods', 'p', { status }, 'status');
    running();
  });

  it('does not get a claim that was made for another one', () => {
    begin();
    booted(template, {
      claims: () => createClaim('p-gpu-x', { owner: 'q', reservedFor: ['p'] }),
      status: { resourceClaimStatuses: [{ name: 'gpu', resourceClaimName: 'p-gpu-x' }] },
    });
    cluster.node.run(5_000);
    const text = 'ResourceClaim default/p-gpu-x was not created for Pod default/p (Pod is not owner)';
    expect([phase(), messages()[0]]).toEqual(['Pending', failedWith(text)]);
  });

  it('begins when there turns out to be nothing to allocate', () => {
    begin();
    booted(template, { status: { resourceClaimStatuses: [{ name: 'gpu' }] } });
    running();
    expect(calls()).toEqual([]);
  });

  it('has the extended resource that a driver backs', () => {
    begin();
    const mapping = { containerName: 'app', resourceName: 'example.test/gpu', requestName: 'gpu' };
    const resources = { requests: { 'example.test/gpu': '1' }, limits: { 'example.test/gpu': '1' } };
    booted(
      { containers: [{ name: 'app', image: 'app:1', resources }] },
      {
        claims: () => createClaim('p-extended', { reservedFor: ['p'] }),
        status: { extendedResourceClaimStatus: { requestMappings: [mapping], resourceClaimName: 'p-extended' } },
      },
    );
    running();
    const container = cluster.node.sink.records.find(
      (record) => record.k === 'effect' && record.name === 'cri.createContainer',
    );
    expect(container).toMatchObject({ input: { config: { CDI_devices: [{ name: `${DRIVER}/gpu=p-extended` }] } } });
  });

  it('runs on over a restart of the agent, and gives its claims back then', () => {
    begin();
    booted(named(), { claims: () => createClaim('mine', { reservedFor: ['p'] }) });
    running();
    cluster = { ...cluster, node: cluster.node.restart() };
    cluster.node.run(30_000);
    expect([phase(), created(), states()]).toEqual(['Running', 1, [['mine', ['p']]]]);
    cluster.kube.delete('pods', 'p');
    cluster.node.run(5_000);
    expect(cluster.kube.pod('p')).toBeDefined();
    expect(cluster.node.logs('Error syncing pod, skipping')[0]).toMatchObject({
      err: `unprepare dynamic resources: DRA driver ${DRIVER} is not registered`,
    });
    cluster.node.until('it is seen to have stopped', () => {
      const [container] = cluster.kube.pod('p').status.containerStatuses;
      return container.state.terminated !== undefined;
    });
    register();
    gone();
    expect(calls()).toEqual([`prepare ${DRIVER}/default/mine`, `unprepare ${DRIVER}/default/mine`]);
  });

  it('its container begins again with the same devices after a restart of the agent', () => {
    begin();
    booted(named(), { claims: () => createClaim('mine', { reservedFor: ['p'] }) });
    running();
    cluster = { ...cluster, node: cluster.node.restart() };
    cluster.node.run(5_000);
    cluster.node.world.runtime.exit(cluster.node.world.runtime.running('app')!, 1);
    cluster.node.until('begins again', () => created() === 2, 60_000);
    const container = cluster.node.sink.records.find(
      (record) => record.k === 'effect' && record.name === 'cri.createContainer',
    );
    expect(container).toMatchObject({ input: { config: { CDI_devices: [{ name: `${DRIVER}/gpu=mine` }] } } });
  });

  it('shares a claim with another pod: the last of them gives it back', () => {
    begin();
    cluster.kube.createPod('q', named());
    booted(named(), { claims: () => createClaim('mine', { reservedFor: ['p', 'q'] }) });
    cluster.node.until('both run', () => phase() === 'Running' && phase('q') === 'Running', 60_000);
    expect(states()).toEqual([['mine', ['p', 'q']]]);
    cluster.kube.delete('pods', 'p');
    gone();
    expect([calls().filter((call) => call.startsWith('unprepare')), states()]).toEqual([[], [['mine', ['q']]]]);
    cluster.kube.delete('pods', 'q');
    gone('q');
    expect(calls().at(-1)).toBe(`unprepare ${DRIVER}/default/mine`);
  });

  it('of a pod that is gone the claims are taken back when its driver has come', () => {
    begin();
    booted(named(), { claims: () => createClaim('mine', { reservedFor: ['p'] }) });
    running();
    const { checkpoints } = cluster.node.world.dra;
    const before = checkpoints.get(STATE) ?? '';
    cluster.kube.delete('pods', 'p');
    gone();
    cluster.node.run(5_000);
    checkpoints.set(STATE, before);
    cluster = { ...cluster, node: cluster.node.restart() };
    cluster.node.run(10_000);
    expect(states()).toEqual([['mine', ['p']]]);
    register();
    cluster.node.run(70_000);
    expect(states()).toEqual([]);
  });

  it('its status says how its devices are', () => {
    begin();
    booted(named('mine', { request: 'gpu' }), { claims: () => createClaim('mine', { reservedFor: ['p'] }) });
    running();
    const health = () => cluster.kube.pod('p').status.containerStatuses[0].allocatedResourcesStatus;
    const id = { resourceID: `${DRIVER}/gpu=mine` };
    cluster.node.until('known', () => health() !== undefined, 30_000);
    expect(health()).toEqual([{ name: 'claim:gpu/gpu', resources: [{ ...id, health: 'Unknown' }] }]);
    const report = { health: 'Unhealthy', message: 'too hot' } as const;
    cluster.node.world.dra.emit(DRIVER, { type: 'dra.healthChanged', devices: { 'node/mine-device': report } });
    cluster.node.until('hot', () => health()?.[0].resources[0].health === 'Unhealthy', 30_000);
    expect(health()[0].resources).toEqual([{ ...id, ...report }]);
    const { resources } = cluster.kube.pod('p').status.containerStatuses[0];
    expect(resources).toEqual({ claims: [{ name: 'gpu', request: 'gpu' }] });
  });
});

describe('the slices of this node', () => {
  const slices = () => cluster.kube.of('deleteCollection', /resourceslices/).length;

  it('are deleted when the agent starts, and when a driver stays away for half a minute', () => {
    cluster = clusterNode();
    start();
    cluster.node.run(60_000);
    expect(slices()).toBe(1);
    cluster.node.world.dra.emit(DRIVER, { type: 'dra.connected', isConnected: false });
    cluster.node.run(29_000);
    cluster.node.world.dra.emit(DRIVER, { type: 'dra.connected', isConnected: true });
    cluster.node.run(60_000);
    expect(slices()).toBe(1);
    cluster.node.world.dra.emit(DRIVER, { type: 'dra.connected', isConnected: false });
    cluster.node.run(31_000);
    expect(slices()).toBe(2);
    cluster.node.assertReplays();
  });
});
