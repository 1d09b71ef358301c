/**
 * Pods with claims under faults: drivers refuse, answers are lost, the checkpoint cannot be written, the API server is
 * unreachable, the agent is killed. No container ever runs without its claim, and in the end no driver holds a claim.
 */
import { expect, it } from 'vitest';
import { knownKind } from '../../../../../src/simulation/api-server/kinds.ts';
import { Chance } from '../../../../../src/simulation/specs.ts';
import { type ClusterNode, clusterNode } from './support.ts';

const DRIVERS = ['gpu.example.test', 'net.example.test'];
const FAULTY = ['dra.prepare', 'dra.unprepare', 'host.writeCheckpoint', 'kube.get', 'cri.runPodSandbox'];
const NAMES = ['a', 'b', 'c'];
/** Longer than the longest pause between two attempts here. */
const CALM_MS = 900_000;

function createPod({ kube }: ClusterNode, name: string, claims: readonly string[]): void {
  kube.createPod(name, {
    terminationGracePeriodSeconds: 1,
    resourceClaims: claims.map((claim) => ({ name: claim, resourceClaimName: claim })),
    containers: [{ name: 'app', image: 'app:1', resources: { claims: claims.map((claim) => ({ name: claim })) } }],
  });
}

function createClaim({ kube }: ClusterNode, name: string, driver: string, pods: readonly string[]): void {
  const kind = knownKind('resource.k8s.io/v1', 'resourceclaims');
  const claim = { apiVersion: 'resource.k8s.io/v1', kind: 'ResourceClaim', metadata: { name, namespace: 'default' } };
  kube.create({ ...claim, spec: {} });
  const status = {
    allocation: { devices: { results: [{ driver, pool: 'node', device: name, request: 'gpu' }] } },
    reservedFor: pods.map((pod) => ({ resource: 'pods', name: pod, uid: kube.pod(pod).metadata.uid })),
  };
  const place = { kind, namespace: 'default', name, subresource: 'status' };
  kube.registry.patch(place, 'application/merge-patch+json', { status });
}

function register({ node }: ClusterNode): void {
  for (const driver of DRIVERS) {
    const event = { type: 'dra.registered', driver, endpoint: `/plugins/${driver}.sock`, service: 'v1.DRAPlugin' };
    node.kernel.dispatch('kubelet/draManager', event, 'test');
  }
}

/** The claims that drivers hold according to their calls. */
function heldIn(calls: readonly string[]): ReadonlySet<string> {
  const held = new Set<string>();
  for (const call of calls) {
    const [verb, claim = ''] = call.split(' ');
    if (verb === 'prepare') held.add(claim);
    else held.delete(claim);
  }
  return held;
}

/** Checks that each created container has the devices of all claims of its pod. */
function checkDevices({ node }: ClusterNode): void {
  for (const record of node.sink.records) {
    if (record.k !== 'effect' || record.name !== 'cri.createContainer') continue;
    const { config, sandboxConfig } = record.input as Created;
    const claims = sandboxConfig.metadata.name === 'c' ? 2 : 1;
    expect(config.CDI_devices).toHaveLength(claims);
  }
}

interface Created {
  readonly config: { readonly CDI_devices?: readonly object[] };
  readonly sandboxConfig: { readonly metadata: { readonly name: string } };
}

it.each(Array.from({ length: 24 }, (_, seed) => seed + 1))('seed %i', (seed) => {
  const chance = new Chance(seed);
  const cluster = clusterNode();
  const { world } = cluster.node;
  NAMES.forEach((name) => createPod(cluster, name, name === 'c' ? ['one', 'two'] : ['one']));
  createClaim(cluster, 'one', DRIVERS[0]!, NAMES);
  createClaim(cluster, 'two', DRIVERS[1]!, ['c']);
  let isStormy = true;
  world.fault = (name) => {
    if (!isStormy || !FAULTY.includes(name) || !chance.is(0.3)) return undefined;
    return { error: 'connection lost', lost: chance.is(0.5), extraMs: chance.below(3_000) };
  };
  cluster.node.boot();
  for (let step = 0; step < 12; step++) {
    cluster.node.run(1 + chance.below(8_000));
    checkDevices(cluster);
    const [name = ''] = NAMES.slice(chance.below(NAMES.length));
    if (chance.is(0.3)) cluster.kube.isAway = !cluster.kube.isAway;
    if (chance.is(0.4)) cluster.node = cluster.node.restart();
    if (chance.is(0.6)) {
      cluster.node.run(100);
      register(cluster);
    }
    if (step > 5 && chance.is(0.4) && cluster.kube.pod(name) !== undefined) cluster.kube.delete('pods', name);
  }
  isStormy = false;
  cluster.kube.isAway = false;
  // A new manager gets its drivers from the plugin manager; here the test adds them, once the manager listens.
  cluster.node.run(100);
  register(cluster);
  for (const name of NAMES) if (cluster.kube.pod(name) !== undefined) cluster.kube.delete('pods', name);
  cluster.node.run(CALM_MS);
  expect(NAMES.filter((name) => cluster.kube.pod(name) !== undefined)).toEqual([]);
  checkDevices(cluster);
  expect([...heldIn(world.dra.calls)]).toEqual([]);
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});
