/**
 * The disturbances of a simulated node: pods are created, changed and deleted; the agent and its actors crash; the
 * machine reboots; the runtime, the API server and the clock fail. Each function returns a description of what it did,
 * or `undefined` if there was nothing to do.
 */

import type { Simulation } from './simulation.ts';
import { type Chance, CONFIG_MAPS, podSpec, resources } from './specs.ts';
import { manifest } from './world/kube-world.ts';

/** By address, malformed events that crash an actor, some of them only in one state. */
const CRASHES: readonly (readonly [address: RegExp, event: object, state?: string])[] = [
  [/^kubelet\/podConfig\/apiSource$/, { type: 'reflector.listed', items: null }],
  [/^kubelet\/podConfig$/, { type: 'xstate.error.actor.fileSource' }, 'open'],
  [/^kubelet\/podConfig\/fileSource$/, { type: 'manifests.changed', manifests: null }],
  [/^kubelet\/mirrorPods$/, { type: 'mirror.wanted', pod: null }],
  [/^kubelet\/mirrorPods\/mirror-[^/]+$/, { type: 'mirror.seen', pod: null, seen: null }],
  [/^kubelet\/status$/, { type: 'status.observed', pod: null, seen: null }],
  [/^kubelet\/status\/pod-[^/]+$/, { type: 'status.observed', seen: { status: null } }],
  [/^kubelet\/objects$/, { type: 'objects.wanted', uid: 'x', keys: null }],
  [/^kubelet\/objects\/object-[^/]+$/, { type: 'reflector.listed', items: null }],
  [/^kubelet\/eventRecorder$/, { type: 'event.recorded', ref: null }],
  [/^kubelet\/pods$/, { type: 'config.pods', op: 'ADD', source: 'api', pods: null }],
  [/^kubelet\/pods\/pod-[^/]+$/, { type: 'container.changed', name: 'app', view: null }],
  [/^kubelet\/pods\/pod-[^/]+\/container-[^/]+$/, { type: 'container.configured', wanted: null }],
  [/^kubelet\/pods\/pod-[^/]+\/volumes$/, { type: 'volumes.wanted', plan: null }],
  [/^kubelet\/syncLoop$/, { type: 'runtime.down', errors: null }, 'syncing'],
  [/^kubelet\/allocation$/, { type: 'allocation.wanted', request: null }],
  [/^kubelet\/softState$/, { type: 'pods.known', uids: 5 }],
  [/^kubelet\/softState$/, { type: 'softState.allocated', grant: null }],
  [/^kubelet\/images$/, { type: 'image.wanted', ref: null }],
  [/^kubelet\/images\/image-[^/]+$/, { type: 'image.asked', ask: null }],
  [/^kubelet\/containerGC$/, { type: 'garbage.changed', uid: 'x', dead: null, sandboxes: null }],
  [/^kubelet\/imageGC$/, { type: 'images.inUse', uid: 'x', refs: null }],
  [/^kubelet\/pleg$/, { type: 'xstate.error.actor.watch' }],
];

// oxlint-disable-next-line typescript/no-explicit-any -- pods as the API server has them
type Any = any;
type Disturbance = (simulation: Simulation, chance: Chance) => string | undefined;

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
const STATIC_NAMES = ['s', 't', 'u'];
/** The maximum error of a clock. */
const CLOCK_MAX_MS = 3_600_000;

function create({ node: { kube } }: Simulation, chance: Chance): string | undefined {
  const name = chance.pick(NAMES);
  if (kube.pod(name)) return undefined;
  const finalizers = chance.is(0.1) ? { finalizers: ['example.com/hold'] } : {};
  const spec = podSpec(chance, false);
  kube.createPod(name, spec, finalizers);
  return `${kube.pod(name).metadata.uid} ${JSON.stringify(spec)}`;
}

function remove({ node: { kube }, pods }: Simulation, chance: Chance): string | undefined {
  if (pods.length === 0) return undefined;
  const { metadata } = chance.pick(pods);
  const grace = chance.pick([undefined, undefined, 0, 1, 5, 30]);
  kube.delete('pods', metadata.name, grace);
  return `${metadata.uid} ${grace}`;
}

function patch({ node: { kube, time }, pods }: Simulation, chance: Chance): string | undefined {
  if (pods.length === 0) return undefined;
  const { metadata, spec } = chance.pick(pods);
  const other = (containers: Any[]) => containers.map((each) => ({ ...each, image: chance.pick(['app:1', 'app:2']) }));
  const change = chance.pick([
    { metadata: { labels: { at: String(time.ms) } } },
    { spec: { containers: other(spec.containers) } },
    ...(spec.initContainers ? [{ spec: { initContainers: other(spec.initContainers) } }] : []),
    ...(chance.is(0.3) ? [{ spec: { activeDeadlineSeconds: 20 + chance.below(300) } }] : []),
  ]);
  kube.patch('pods', metadata.name, change);
  return `${metadata.uid} ${JSON.stringify(change)}`;
}

function resize({ node: { kube }, pods }: Simulation, chance: Chance): string | undefined {
  const sized = pods.filter(({ spec }) => spec.containers.some((each: Any) => each.resources?.requests));
  if (sized.length === 0) return undefined;
  const { metadata, spec } = chance.pick(sized);
  const containers = spec.containers.map(({ name, resources: { requests, limits } = {} }: Any) => {
    if (!requests) return { name };
    const { requests: next = requests } = resources(chance);
    return { name, resources: limits ? { requests: next, limits: next } : { requests: next } };
  });
  kube.patch('pods', metadata.name, { spec: { containers } }, 'resize');
  return `${metadata.uid} ${JSON.stringify(containers)}`;
}

function changeManifests(simulation: Simulation, chance: Chance): string {
  const name = chance.pick(STATIC_NAMES);
  const others = simulation.manifests.filter(({ file }) => !file.endsWith(`/${name}.yaml`));
  const hadIt = others.length < simulation.manifests.length;
  if (hadIt && !chance.is(0.4)) {
    simulation.setManifests(others);
    return `${name} goes`;
  }
  const uid = `static${simulation.nextStatic()}-${name}`;
  const added = manifest({ uid, name, spec: podSpec(chance, true) });
  const { spec }: Any = added.value;
  simulation.rules.specs.set(uid, spec);
  simulation.setManifests([...others, added]);
  return `${uid} ${JSON.stringify(spec)}`;
}

/** The agent is killed and starts again, sometimes with another clock. */
function restart(simulation: Simulation, chance: Chance): string {
  const offsetMs = chance.is(0.15) ? chance.ms(CLOCK_MAX_MS) : undefined;
  simulation.restart(offsetMs);
  return offsetMs === undefined ? '' : `with a clock ${offsetMs} ms ahead`;
}

/** The machine reboots: all processes have ended, and the runtime has lost its state. */
function reboot(simulation: Simulation): string {
  const { groups, runtime } = simulation.node.world;
  for (const { cancel } of runtime.containers.values()) cancel?.();
  runtime.containers.clear();
  runtime.sandboxes.clear();
  groups.clear();
  simulation.restart();
  return '';
}

/** An actor receives a malformed event. */
function crash(simulation: Simulation, chance: Chance): string | undefined {
  const { node } = simulation;
  const [pattern, event, state] = chance.pick(CRASHES);
  const found = node.kernel?.addresses.filter((each) => pattern.test(each)) ?? [];
  if (found.length === 0) return undefined;
  const address = chance.pick(found);
  if (state !== undefined && node.snapshot(address)?.value !== state) return undefined;
  const before = node.crashes().length;
  simulation.expectCrash(address);
  node.kernel?.dispatch(address, event as never, 'simulation');
  return `${address} ${node.crashes().length - before}`;
}

const changeConfigMap: Disturbance = (simulation, chance) => simulation.configMap(chance.pick(CONFIG_MAPS));

function disturbRuntime({ node: { world } }: Simulation, chance: Chance): string | undefined {
  const { runtime } = world;
  const running = [...runtime.containers.values()].filter(({ state }) => state === 'CONTAINER_RUNNING');
  if (running.length > 0 && chance.is(0.6)) {
    const victim = chance.pick(running);
    const code = chance.pick([0, 1, 137]);
    runtime.exit(victim, code);
    return `${victim.sandbox.config.metadata?.uid}/${victim.config.metadata?.name} exits ${code}`;
  }
  const sandboxes = [...runtime.sandboxes.values()];
  if (sandboxes.length === 0) return undefined;
  const { id, config } = chance.pick(sandboxes);
  const removes = chance.is(0.3);
  if (removes) runtime.removeSandbox(id);
  else runtime.stopSandbox(id);
  return `sandbox of ${config.metadata?.uid} ${removes ? 'removed' : 'stopped'}`;
}

function toggleFault(simulation: Simulation, chance: Chance): string {
  const { world, kube } = simulation.node;
  switch (chance.below(5)) {
    case 0:
      simulation.setRuntimeDown(!world.isDown);
      return `runtime down ${world.isDown}`;
    case 1:
      kube.isAway = !kube.isAway;
      if (kube.isAway) kube.breakWatches();
      return `api away ${kube.isAway}`;
    case 2:
      if (chance.is(0.5)) kube.store.compact();
      kube.breakWatches();
      return 'watches break';
    case 3:
      simulation.extraFaultShare = chance.pick([0, 0.1, 0.3]);
      return `trouble ${simulation.extraFaultShare}`;
    default: {
      const result = chance.pick(['failure', 'success'] as const);
      world.answers.set('sick', { result, output: '' });
      return `sick ${result}`;
    }
  }
}

/** A disturbance is chosen as often as it is listed. */
export const DISTURBANCES: readonly (readonly [string, Disturbance])[] = [
  ['create', create],
  ['create', create],
  ['create', create],
  ['delete', remove],
  ['delete', remove],
  ['patch', patch],
  ['resize', resize],
  ['files', changeManifests],
  ['restart', restart],
  ['reboot', reboot],
  ['crash', crash],
  ['crash', crash],
  ['configMap', changeConfigMap],
  ['runtime', disturbRuntime],
  ['runtime', disturbRuntime],
  ['toggle', toggleFault],
  ['toggle', toggleFault],
];
