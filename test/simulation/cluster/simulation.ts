/**
 * A node in a cluster where everything goes wrong by chance, in virtual time; then peace. The same seed gives the same
 * run.
 */
import type { Manifest } from '../../../src/machines/model/operations/host.ts';
import { Refusal } from '../../fakes/api-server/errors.ts';
import { timestamp } from '../../fakes/api-server/types.ts';
import { type ClusterNode, clusterNode } from '../../machines/charts/pods/cluster/support.ts';
import { ADMISSION } from '../../support/counting-node.ts';
import { image, manifest, type PodsNode } from '../../support/pods-node.ts';
import type { Fault } from '../../support/pods-world.ts';
import { Chance } from './chance.ts';
import { CRASHES } from './crashes.ts';
import { checkPeace } from './peace.ts';
import { Rules, uidOf } from './rules.ts';
import { CONFIG_MAPS, podSpec, program, resources } from './specs.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- pods as the API server has them
type Any = any;

const allocatable = { cpu: '4000', memory: '8000000000', pods: '110' };
const STEPS = 60;
const HANG_MS = 120_000;
const STEP_MAX_MS = 25_000;
const NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
const STATIC_NAMES = ['s', 't', 'u'];
/** The longest back-off is five minutes, and what waits for room is asked again after three. */
const PEACE_MS = 1_500_000;

export class Simulation {
  node: PodsNode;
  readonly cluster: ClusterNode;
  readonly rules: Rules;
  readonly chance: Chance;
  manifests: Manifest[] = [];
  private uids = 0;
  private isWild = true;
  /** Shares of calls that go wrong, for a while. */
  private trouble = 0;
  private readonly injected = new Set<string>();
  readonly log: string[] = [];

  constructor(seed: number) {
    this.chance = new Chance(seed);
    this.cluster = clusterNode({
      admission: { ...ADMISSION, allocatable, wholeNode: allocatable },
      makesPodCgroups: true,
      ...(this.chance.is(0.7) ? { rememberedPodsDir: '/journal/pods' } : {}),
    });
    const { node, kube } = this.cluster;
    this.node = node;
    const times = (isNew: boolean, metadata: Any, before: Any) => {
      if (isNew) return { creationTimestamp: timestamp(node.time.ms) };
      if (metadata.deletionTimestamp === undefined || before?.deletionTimestamp !== undefined) return {};
      return { deletionTimestamp: timestamp(node.time.ms + metadata.deletionGracePeriodSeconds * 1_000) };
    };
    const put = kube.store.put.bind(kube.store);
    kube.store.put = (kind, object) => {
      const isNew = kube.store.find(kind, object.metadata.namespace, object.metadata.name) === undefined;
      const uid = isNew ? `u${++this.uids}-${object.metadata.name}` : object.metadata.uid;
      const metadata = {
        ...object.metadata,
        uid,
        ...times(
          isNew,
          object.metadata,
          kube.store.find(kind, object.metadata.namespace, object.metadata.name)?.metadata,
        ),
      };
      return put(kind, { ...object, metadata });
    };
    this.rules = new Rules(this.cluster);
    this.prepareWorld();
    node.boot();
  }

  private prepareWorld(): void {
    const { chance } = this;
    const { world } = this.node;
    for (const name of ['app:1', 'app:2']) world.registry.set(name, image(name));
    world.runtime.images.set('app:2', image('app:2'));
    world.registry.set('late:1', image('late:1'));
    world.commands.set('hook', { takesMs: 1_500, exitCode: 0 });
    world.runtime.programOf = (container) => {
      const spec = this.rules.specs.get(uidOf(container));
      const name = container.config.metadata?.name ?? '';
      return program(chance, name, this.isWild, spec?.restartPolicy === 'Always');
    };
    world.fault = (name) => this.fault(name);
    this.cluster.kube.refuse = () => this.refusal();
  }

  private fault(name: string): Fault | undefined {
    if (!this.isWild || name.includes('watch') || name === 'probe.watch') return undefined;
    if (!this.chance.is(0.02 + this.trouble)) return undefined;
    if (this.chance.is(0.3)) return { extraMs: this.chance.ms(30_000) };
    const lost = this.chance.is(0.5) && !name.startsWith('kube.');
    // What is not answered is given up by the port.
    const extraMs = this.chance.is(0.1) ? HANG_MS : this.chance.ms(3_000);
    return { error: `${name} went wrong`, code: 'UNAVAILABLE', lost, extraMs };
  }

  private refusal(): Refusal | undefined {
    if (!this.isWild || !this.chance.is(0.02 + this.trouble)) return undefined;
    const [code, reason, retryAfterSeconds] = this.chance.pick([
      [409, 'Conflict', undefined],
      [429, 'TooManyRequests', 1],
      [500, 'InternalError', undefined],
      [503, 'ServiceUnavailable', 3],
    ] as const);
    return new Refusal(`${reason} by chance`, { code, reason, ...(retryAfterSeconds ? { retryAfterSeconds } : {}) });
  }

  note(text: string): void {
    this.log.push(`+${this.node.time.ms - 1_700_000_000_000} ${text}`);
  }

  run(): this {
    for (let i = 0; i < STEPS; i++) {
      this.disturb();
      this.node.run(this.chance.ms(STEP_MAX_MS));
    }
    this.calm();
    this.node.run(PEACE_MS);
    checkPeace(this);
    this.assertSound();
    return this;
  }

  private disturb(): void {
    const what = this.chance.below(DISTURBANCES.length);
    const [name, act] = DISTURBANCES[what]!;
    const said = act(this);
    if (said !== undefined) this.note(`${name} ${said}`);
  }

  /** Of the API server, not deleted. */
  pods(): Any[] {
    const all = this.cluster.kube.store.list('v1', 'pods') as Any[];
    return all.filter(({ metadata }) => metadata.annotations?.['kubernetes.io/config.mirror'] === undefined);
  }

  create(): string | undefined {
    const { kube } = this.cluster;
    const name = this.chance.pick(NAMES);
    if (kube.pod(name)) return undefined;
    const finalizers = this.chance.is(0.1) ? { finalizers: ['example.com/hold'] } : {};
    const spec = podSpec(this.chance, false);
    kube.createPod(name, spec, finalizers);
    return `${kube.pod(name).metadata.uid} ${JSON.stringify(spec)}`;
  }

  delete(): string | undefined {
    const pods = this.pods();
    if (pods.length === 0) return undefined;
    const { metadata } = this.chance.pick(pods);
    const grace = this.chance.pick([undefined, undefined, 0, 1, 5, 30]);
    this.cluster.kube.delete('pods', metadata.name, grace);
    return `${metadata.uid} ${grace}`;
  }

  patch(): string | undefined {
    const pods = this.pods();
    if (pods.length === 0) return undefined;
    const { metadata, spec } = this.chance.pick(pods);
    const patch = this.chance.pick([
      { metadata: { labels: { at: String(this.node.time.ms) } } },
      { spec: { containers: this.other(spec.containers) } },
      ...(spec.initContainers ? [{ spec: { initContainers: this.other(spec.initContainers) } }] : []),
      ...(this.chance.is(0.3) ? [{ spec: { activeDeadlineSeconds: 20 + this.chance.below(300) } }] : []),
    ]);
    this.cluster.kube.patch('pods', metadata.name, patch);
    return `${metadata.uid} ${JSON.stringify(patch)}`;
  }

  private other(containers: Any[]): Any[] {
    return containers.map((each) => ({ ...each, image: this.chance.pick(['app:1', 'app:2']) }));
  }

  resize(): string | undefined {
    const pods = this.pods().filter(({ spec }) => spec.containers.some((each: Any) => each.resources?.requests));
    if (pods.length === 0) return undefined;
    const { metadata, spec } = this.chance.pick(pods);
    const containers = spec.containers.map(({ name, resources: { requests, limits } = {} }: Any) => {
      if (!requests) return { name };
      const { requests: next = requests } = resources(this.chance);
      return { name, resources: limits ? { requests: next, limits: next } : { requests: next } };
    });
    this.cluster.kube.patch('pods', metadata.name, { spec: { containers } }, 'resize');
    return `${metadata.uid} ${JSON.stringify(containers)}`;
  }

  files(): string | undefined {
    const name = this.chance.pick(STATIC_NAMES);
    const others = this.manifests.filter(({ file }) => !file.endsWith(`/${name}.yaml`));
    const hadIt = others.length < this.manifests.length;
    const comes = !hadIt || this.chance.is(0.4);
    const uid = `static${++this.uids}-${name}`;
    const added = manifest({ uid, name, spec: podSpec(this.chance, true) });
    if (comes) this.rules.specs.set(uid, (added.value as Any).spec);
    this.manifests = comes ? [...others, added] : others;
    this.node.world.setManifests(this.manifests);
    return comes ? `${uid} ${JSON.stringify((added.value as Any).spec)}` : `${name} goes`;
  }

  restart(): string {
    this.collect();
    this.node = this.node.restart();
    this.cluster.node = this.node;
    // As the container manager does, who is not here.
    const { groups, runtime } = this.node.world;
    const known = new Set(runtime.uids);
    for (const path of groups.keys()) if (!known.has(/\/pod([^/]+)$/.exec(path)?.[1] ?? '')) groups.delete(path);
    return '';
  }

  /** The machine starts again: nothing runs, and what the runtime knew is gone. */
  reboot(): string {
    const { groups, runtime } = this.node.world;
    for (const { cancel } of runtime.containers.values()) cancel?.();
    runtime.containers.clear();
    runtime.sandboxes.clear();
    groups.clear();
    return this.restart();
  }

  /** Crashes that nobody asked for. */
  private collect(): void {
    const crashes = this.node.crashes().filter((each) => !this.injected.has(each.split(': ')[0]!));
    for (const each of crashes) this.rules.say(`crashed: ${each}`);
    this.injected.clear();
  }

  crash(): string | undefined {
    const { kernel } = this.node;
    const [pattern, event, state] = this.chance.pick(CRASHES);
    const found = kernel.addresses.filter((each) => pattern.test(each));
    if (found.length === 0) return undefined;
    const address = this.chance.pick(found);
    const { value } = kernel.snapshotOf(address) as { value: unknown };
    if (state !== undefined && value !== state) return undefined;
    const before = this.node.crashes().length;
    kernel.dispatch(address, event as never, 'simulation');
    this.injected.add(address);
    return `${address} ${this.node.crashes().length - before}`;
  }

  private calm(): void {
    this.isWild = false;
    const { world } = this.node;
    world.answers.clear();
    this.turnRuntime(false);
    this.cluster.kube.isAway = false;
    for (const name of CONFIG_MAPS) this.configMap(name);
    for (const { metadata } of this.pods()) {
      if (metadata.finalizers) this.cluster.kube.patch('pods', metadata.name, { metadata: { finalizers: null } });
    }
    if (this.chance.is(0.5)) this.restart();
    this.note('peace');
  }

  configMap(name = this.chance.pick(CONFIG_MAPS)): string {
    const { kube } = this.cluster;
    const data = { at: String(this.node.time.ms) };
    if (kube.store.get('v1', 'configmaps', name, 'default')) kube.patch('configmaps', name, { data });
    else kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data });
    return name;
  }

  disturbRuntime(): string | undefined {
    const { runtime } = this.node.world;
    const running = [...runtime.containers.values()].filter(({ state }) => state === 'CONTAINER_RUNNING');
    if (running.length > 0 && this.chance.is(0.6)) {
      const victim = this.chance.pick(running);
      const code = this.chance.pick([0, 1, 137]);
      runtime.exit(victim, code);
      return `${uidOf(victim)}/${victim.config.metadata?.name} exits ${code}`;
    }
    const sandboxes = [...runtime.sandboxes.values()];
    if (sandboxes.length === 0) return undefined;
    const { id, config } = this.chance.pick(sandboxes);
    const removes = this.chance.is(0.3);
    if (removes) runtime.removeSandbox(id);
    else runtime.stopSandbox(id);
    return `sandbox of ${config.metadata?.uid} ${removes ? 'removed' : 'stopped'}`;
  }

  /** What changed while nobody could ask is seen when it is back, as by the real watch. */
  private turnRuntime(isDown: boolean): void {
    const { world } = this.node;
    world.isDown = isDown;
    if (!isDown) for (const uid of this.rules.specs.keys()) world.runtime.onChange(uid);
  }

  toggle(): string {
    const { world } = this.node;
    const { kube } = this.cluster;
    switch (this.chance.below(5)) {
      case 0:
        this.turnRuntime(!world.isDown);
        return `runtime down ${world.isDown}`;
      case 1:
        kube.isAway = !kube.isAway;
        if (kube.isAway) kube.breakWatches();
        return `api away ${kube.isAway}`;
      case 2:
        if (this.chance.is(0.5)) kube.store.compact();
        kube.breakWatches();
        return 'watches break';
      case 3:
        this.trouble = this.chance.pick([0, 0.1, 0.3]);
        return `trouble ${this.trouble}`;
      default: {
        const result = this.chance.pick(['failure', 'success'] as const);
        world.answers.set('sick', { result, output: '' });
        return `sick ${result}`;
      }
    }
  }

  private assertSound(): void {
    this.collect();
    this.node.assertReplays();
  }
}

const DISTURBANCES: readonly (readonly [string, (simulation: Simulation) => string | undefined])[] = [
  ['create', (s) => s.create()],
  ['create', (s) => s.create()],
  ['create', (s) => s.create()],
  ['delete', (s) => s.delete()],
  ['delete', (s) => s.delete()],
  ['patch', (s) => s.patch()],
  ['resize', (s) => s.resize()],
  ['files', (s) => s.files()],
  ['restart', (s) => s.restart()],
  ['reboot', (s) => s.reboot()],
  ['crash', (s) => s.crash()],
  ['crash', (s) => s.crash()],
  ['configMap', (s) => s.configMap()],
  ['runtime', (s) => s.disturbRuntime()],
  ['runtime', (s) => s.disturbRuntime()],
  ['toggle', (s) => s.toggle()],
  ['toggle', (s) => s.toggle()],
];
