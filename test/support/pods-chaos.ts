/**
 * Seeded chaos on a node: pods are added, changed and removed; calls fail, hang and lose replies; sandboxes and
 * containers die; probes fail; the agent restarts; actors crash; then the faults stop. The same seed gives the same
 * run.
 */
import { SeededRandom } from '../../src/kernel/purity.ts';
import type { Manifest } from '../../src/machines/model/operations/host.ts';
import type { Fault } from '../../src/simulation/world/pods-world.ts';
import { image, manifest, PodsNode } from './pods-node.ts';

export interface ChaosReport {
  readonly node: PodsNode;
  /** The broken promises, in words. */
  readonly broken: string[];
  readonly turns: number;
}

const CALL_FAILURE = 0.08;
const LOST_SHARE = 0.5;
const HANG_SHARE = 0.1;
const STEPS = 60;
/** The share of steps after which the journal must replay, too. */
const MARKED_SHARE = 0.05;
/** The time after the last fault in which everything must reach its wanted state. */
const PEACE_MS = 900_000;

const PROBE = { exec: { command: ['well'] }, periodSeconds: 5, failureThreshold: 2 };

const SPECS: readonly Record<string, unknown>[] = [
  {},
  { restartPolicy: 'Never' },
  { terminationGracePeriodSeconds: 3 },
  { initContainers: [{ name: 'init', image: 'app:1' }] },
  { initContainers: [{ name: 'side', image: 'app:1', restartPolicy: 'Always' }] },
  {
    containers: [
      { name: 'app', image: 'app:1' },
      { name: 'two', image: 'late:1' },
    ],
  },
  {
    containers: [{ name: 'app', image: 'app:1', livenessProbe: PROBE, readinessProbe: { ...PROBE, periodSeconds: 2 } }],
  },
  {
    volumes: [{ name: 'data', emptyDir: {} }],
    containers: [
      { name: 'app', image: 'app:1', volumeMounts: [{ name: 'data', mountPath: '/data', subPath: 'of/app' }] },
    ],
  },
];

class Chaos {
  node: PodsNode;
  readonly broken: string[] = [];
  turns = 0;
  private readonly random: SeededRandom;
  private manifests: Manifest[] = [];
  private uids = 0;
  /** Faults happen while this is true. */
  private isWild = true;

  constructor(seed: number) {
    this.random = new SeededRandom(seed);
    this.node = new PodsNode({ seed });
    const { runtime, registry } = this.node.world;
    runtime.images.set('app:1', image('app:1'));
    registry.set('app:1', image('app:1')).set('late:1', image('late:1'));
    runtime.programs.set('init', [{ runsMs: 300 }]).set('two', [{ stopsMs: 2_000 }]);
    this.node.world.fault = (name) => this.fault(name);
    this.node.boot();
  }

  private chance(share: number): boolean {
    return this.random.next() < share;
  }

  private pick<T>(items: readonly T[]): T | undefined {
    return items[Math.floor(this.random.next() * items.length)];
  }

  private fault(name: string): Fault | undefined {
    if (!this.isWild || name.includes('watch') || !this.chance(CALL_FAILURE)) return undefined;
    if (this.chance(HANG_SHARE)) return { hangs: true };
    const lost = this.chance(LOST_SHARE);
    return { error: `${name} went wrong`, code: 'UNAVAILABLE', lost, extraMs: Math.floor(this.random.next() * 2_000) };
  }

  run(): this {
    for (let i = 0; i < STEPS; i++) {
      this.disturb();
      this.node.run(Math.floor(this.random.next() ** 3 * 20_000));
      this.check();
      if (this.chance(MARKED_SHARE)) this.node.mark();
    }
    this.isWild = false;
    this.node.world.answers.clear();
    this.node.world.isDown = false;
    this.restart();
    this.node.run(PEACE_MS);
    this.checkPeace();
    this.turns += this.node.kernel.turn;
    this.node.assertReplays();
    return this;
  }

  private disturb(): void {
    const { runtime } = this.node.world;
    const what = Math.floor(this.random.next() * 11);
    if (what < 3) this.add();
    else if (what < 5) this.remove();
    else if (what === 5) this.rewrite();
    else if (what === 6) this.restart();
    else if (what === 7) this.kill();
    else if (what === 8) {
      const sandbox = this.pick([...runtime.sandboxes.keys()]);
      if (sandbox) runtime.stopSandbox(sandbox);
    } else if (what === 9) this.sicken();
    else this.crash();
  }

  private add(): void {
    if (this.manifests.length >= 8) return;
    const uid = `u${++this.uids}`;
    this.set([...this.manifests, manifest({ uid, name: `p${this.uids}`, spec: this.pick(SPECS)! })]);
  }

  private remove(): void {
    const gone = this.pick(this.manifests);
    this.set(this.manifests.filter((each) => each !== gone));
  }

  private rewrite(): void {
    const old = this.pick(this.manifests);
    if (!old) return;
    const uid = `u${++this.uids}`;
    this.set(this.manifests.map((each) => (each === old ? { ...old, uid } : each)));
  }

  private set(manifests: Manifest[]): void {
    this.manifests = manifests;
    this.node.world.setManifests(manifests);
  }

  private restart(): void {
    this.turns += this.node.kernel.turn;
    this.node = this.node.restart();
  }

  private kill(): void {
    const { runtime } = this.node.world;
    const running = [...runtime.containers.values()].filter(({ state }) => state === 'CONTAINER_RUNNING');
    const victim = this.pick(running);
    if (victim) runtime.exit(victim, this.chance(0.5) ? 0 : 137);
  }

  /** All probes fail, or succeed again. */
  private sicken(): void {
    const result = this.chance(0.5) ? 'failure' : 'success';
    this.node.world.answers.set('well', { result, output: '' });
  }

  private crash(): void {
    const address = this.pick(this.node.kernel.addresses.filter((each) => /\/pod-[^/]+(\/container-\w+)?$/.test(each)));
    if (!address) return;
    // An event that no actor expects.
    const event = address.includes('/container-')
      ? { type: 'container.configured', wanted: null }
      : { type: 'container.changed', name: 'app', view: null };
    this.node.kernel.dispatch(address, event, 'chaos');
  }

  /** What must hold at every moment. */
  private check(): void {
    const alive = new Map<string, number>();
    for (const { state, config, sandbox } of this.node.world.runtime.containers.values()) {
      if (state !== 'CONTAINER_RUNNING') continue;
      const key = `${sandbox.config.metadata?.uid}/${config.metadata?.name}`;
      alive.set(key, (alive.get(key) ?? 0) + 1);
    }
    for (const [key, count] of alive) if (count > 1) this.broken.push(`${count} instances of ${key} run at once`);
    const twins = new Map<string, Set<string>>();
    for (const key of alive.keys()) {
      const uid = key.split('/')[0]!;
      const name = [...this.node.world.runtime.sandboxes.values()].find(({ config }) => config.metadata?.uid === uid)
        ?.config.metadata?.name;
      if (name) twins.set(name, (twins.get(name) ?? new Set()).add(uid));
    }
    for (const [name, uids] of twins) if (uids.size > 1) this.broken.push(`${[...uids].join()} run as ${name} at once`);
  }

  /** What must hold when nothing has failed for a while. */
  private checkPeace(): void {
    const { runtime } = this.node.world;
    const wanted = new Set(this.manifests.map(({ uid }) => uid));
    for (const uid of runtime.uids) if (!wanted.has(uid)) this.broken.push(`${uid} is still in the runtime`);
    for (const { uid, value } of this.manifests) {
      const spec = (value as { spec: { restartPolicy?: string; containers: unknown[] } }).spec;
      const phase = this.node.phase(uid);
      const over = spec.restartPolicy === 'Never' && (phase === 'Succeeded' || phase === 'Failed');
      if (phase !== 'Running' && !over)
        this.broken.push(`${uid} is ${phase}, ${JSON.stringify(this.node.podState(uid))}`);
      const ready = this.node.status(uid)?.containerStatuses?.every((each) => each.ready) === true;
      if (phase === 'Running' && !ready) this.broken.push(`${uid} runs, but is not ready`);
    }
    this.checkLeftovers(wanted);
  }

  /** Nothing unwanted exists, and nothing is in progress. */
  private checkLeftovers(wanted: ReadonlySet<string>): void {
    for (const folder of this.node.world.folders) {
      const uid = /\/kubelet\/pods\/([^/]+)/.exec(folder)?.[1];
      if (uid !== undefined && !wanted.has(uid)) this.broken.push(`${folder} is left`);
    }
    const open = this.node.kernel.checkpoint().effects.filter((effect) => effect.class !== 'stream');
    for (const { name, at } of open) this.broken.push(`${at} still waits for ${name}`);
    const known = this.node.kernel.addresses.filter((each) => /^kubelet\/pods\/pod-[^/]+$/.test(each)).length;
    if (known !== wanted.size) this.broken.push(`${known} actors for ${wanted.size} pods`);
  }
}

export function chaos(seed: number): ChaosReport {
  const { node, broken, turns } = new Chaos(seed).run();
  return { node, broken, turns };
}
