/**
 * A node in a cluster where everything goes wrong by chance, in virtual time, until the disturbances end. The same
 * script gives the same run, byte for byte.
 *
 * Invariants: what a step does depends on the seed and the number of the step alone, so that a run without some of its
 * steps is a run of the others.
 */

import { jsonCopy } from '../kernel/json.ts';
import type { BuildInfo } from '../kernel/records.ts';
import { replay } from '../kernel/replay.ts';
import type { Manifest } from '../machines/model/operations/host.ts';
import { kubeletMachine } from '../machines/startup/kubelet.ts';
import { Refusal } from './api-server/errors.ts';
import { DISTURBANCES } from './disturbances.ts';
import { activity, differences, isStarted, Rules, uidOf } from './rules.ts';
import { SimulatedNode, type Start } from './simulated-node.ts';
import { Chance, CONFIG_MAPS, program } from './specs.ts';
import { image } from './world/kube-world.ts';
import type { Fault } from './world/pods-world.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- pods as the API server has them
type Any = any;

export const STEPS = 40;
const STEP_MAX_MS = 25_000;
/** The share of calls that fail, hang or lose their answer. */
const FAULT_SHARE = 0.02;
/** The port gives up a call without an answer after this time. */
const HANG_MS = 120_000;
/** The longest back-off is five minutes, and a pod without room is retried after three. */
const CONVERGENCE_MAX_MS = 1_500_000;
const CONVERGENCE_STEP_MS = 30_000;

/** Everything that determines a run. */
export interface Script {
  readonly seed: number;
  /** Numbers below {@link STEPS}, in order; default: all. */
  readonly steps?: readonly number[];
  /** Calls fail, hang and lose their answers; default: true. */
  readonly faults?: boolean;
}

export interface Problem {
  /** `safety`: a forbidden state occurred; `liveness`: a goal was not reached in time. */
  readonly kind: 'safety' | 'liveness';
  /** Since the beginning of the run. */
  readonly atMs: number;
  readonly text: string;
}

export interface SimulationReport {
  readonly script: Script;
  readonly problems: readonly Problem[];
  /** The events of the run, in words. */
  readonly events: readonly string[];
  /** Every start of the agent, with its records. */
  readonly starts: readonly Start[];
  readonly turns: number;
  readonly virtualMs: number;
}

/** Runs the script to its end, or to the first problem. */
export const simulate = (script: Script, build: BuildInfo): SimulationReport => new Simulation(script, build).run();

export class Simulation {
  readonly node: SimulatedNode;
  readonly rules: Rules;
  manifests: readonly Manifest[] = [];
  /** The share of calls that go wrong beyond the usual, for a while. */
  extraFaultShare = 0;
  private readonly script: Script;
  private readonly problems: Problem[] = [];
  private readonly events: string[] = [];
  private readonly beganMs: number;
  private readonly expectedCrashes = new Set<string>();
  private isDisturbed = true;
  private statics = 0;
  private refusals = 0;

  constructor(script: Script, build: BuildInfo) {
    this.script = script;
    const remembersPods = this.chance('node').is(0.7);
    this.node = new SimulatedNode({ seed: script.seed, build, remembersPods });
    this.beganMs = this.node.time.ms;
    this.rules = new Rules(this.node, (text) => this.report('safety', text));
    this.node.onEnd = (why, isFault) => {
      if (isFault) this.report('safety', `the agent failed: ${why}`);
      this.note(`the agent ends: ${why}`);
    };
    this.prepareWorld();
  }

  run(): SimulationReport {
    this.node.start();
    const steps = new Set(this.script.steps ?? Array.from({ length: STEPS }, (_, step) => step));
    for (let step = 0; step < STEPS && this.problems.length === 0; step++) {
      const chance = this.chance('step', step);
      const pauseMs = chance.ms(STEP_MAX_MS);
      if (steps.has(step)) this.disturb(step, chance);
      this.node.run(pauseMs);
    }
    if (this.problems.length === 0) this.converge();
    this.collectCrashes();
    if (this.problems.length === 0) this.checkReplay();
    const { script, problems, events } = this;
    const { starts } = this.node;
    const turns = starts.reduce((sum, { records }) => sum + records.filter(({ k }) => k === 'end').length, 0);
    return { script, problems, events, starts, turns, virtualMs: this.nowMs };
  }

  /** The pods of the API server, without mirror pods. */
  get pods(): Any[] {
    const all: Any[] = this.node.kube.store.list('v1', 'pods');
    return all.filter(({ metadata }) => metadata.annotations?.['kubernetes.io/config.mirror'] === undefined);
  }

  setManifests(manifests: readonly Manifest[]): void {
    this.manifests = manifests;
    this.node.world.setManifests(manifests);
  }

  nextStatic(): number {
    return ++this.statics;
  }

  restart(clockOffsetMs?: number): void {
    this.collectCrashes();
    this.node.start(clockOffsetMs);
  }

  expectCrash(address: string): void {
    this.expectedCrashes.add(address);
  }

  configMap(name: string): string {
    const { kube, time } = this.node;
    const data = { at: String(time.ms) };
    if (kube.store.get('v1', 'configmaps', name, 'default')) kube.patch('configmaps', name, { data });
    else kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data });
    return name;
  }

  /** When the runtime answers again, all changes of the meantime are observed, as by the real watch. */
  setRuntimeDown(isDown: boolean): void {
    const { world } = this.node;
    world.isDown = isDown;
    if (!isDown) for (const uid of this.rules.specs.keys()) world.runtime.onChange(uid);
  }

  private get nowMs(): number {
    return this.node.time.ms - this.beganMs;
  }

  private chance(...words: readonly (string | number)[]): Chance {
    return new Chance(this.script.seed, ...words);
  }

  private report(kind: Problem['kind'], text: string): void {
    this.problems.push({ kind, atMs: this.nowMs, text });
  }

  private note(text: string): void {
    this.events.push(`+${this.nowMs} ms ${text}`);
  }

  private disturb(step: number, chance: Chance): void {
    const [name, act] = chance.pick(DISTURBANCES);
    const description = act(this, chance);
    if (description !== undefined) this.note(`step ${step}: ${name} ${description}`);
  }

  private prepareWorld(): void {
    const { world, kube } = this.node;
    for (const name of ['app:1', 'app:2', 'late:1']) world.registry.set(name, image(name));
    for (const name of ['app:1', 'app:2']) world.runtime.images.set(name, image(name));
    world.commands.set('hook', { takesMs: 1_500, exitCode: 0 });
    let runs = 0;
    world.runtime.programOf = (container) => {
      const spec = this.rules.specs.get(uidOf(container));
      const name = container.config.metadata?.name ?? '';
      return program(this.chance('program', runs++), name, this.isDisturbed, spec?.restartPolicy === 'Always');
    };
    if (this.script.faults === false) return;
    world.fault = (name, _input, nth) => this.fault(name, nth);
    kube.refuse = () => this.refusal();
  }

  private fault(name: string, nth: number): Fault | undefined {
    if (!this.isDisturbed || name.includes('atch')) return undefined;
    const chance = this.chance(name, nth);
    if (!chance.is(FAULT_SHARE + this.currentExtraFaultShare)) return undefined;
    if (chance.is(0.3)) return { extraMs: chance.ms(30_000) };
    const lost = chance.is(0.5) && !name.startsWith('kube.');
    const extraMs = chance.is(0.1) ? HANG_MS : chance.ms(3_000);
    return { error: `${name} went wrong`, code: 'UNAVAILABLE', lost, extraMs };
  }

  /** Extra faults begin after the start: a start that mostly fails reaches little of the other code. */
  private get currentExtraFaultShare(): number {
    return this.extraFaultShare > 0 && isStarted(this.node) ? this.extraFaultShare : 0;
  }

  private refusal(): Refusal | undefined {
    if (!this.isDisturbed) return undefined;
    const chance = this.chance('refusal', this.refusals++);
    if (!chance.is(FAULT_SHARE + this.currentExtraFaultShare)) return undefined;
    const [code, reason, retryAfterSeconds] = chance.pick([
      [409, 'Conflict', undefined],
      [429, 'TooManyRequests', 1],
      [500, 'InternalError', undefined],
      [503, 'ServiceUnavailable', 3],
    ] as const);
    return new Refusal(`${reason} by chance`, { code, reason, ...(retryAfterSeconds ? { retryAfterSeconds } : {}) });
  }

  /** Reports the crashes that no disturbance caused. */
  private collectCrashes(): void {
    for (const each of this.node.crashes()) {
      if (!this.expectedCrashes.has(each.slice(0, each.indexOf(': ')))) this.report('safety', `crashed: ${each}`);
    }
    this.expectedCrashes.clear();
  }

  private endDisturbances(): void {
    this.isDisturbed = false;
    const { world, kube } = this.node;
    world.answers.clear();
    this.setRuntimeDown(false);
    kube.isAway = false;
    for (const name of CONFIG_MAPS) this.configMap(name);
    for (const { metadata } of this.pods) {
      if (metadata.finalizers) kube.patch('pods', metadata.name, { metadata: { finalizers: null } });
    }
    if (this.chance('peace').is(0.5)) this.restart();
    this.note('the disturbances end');
  }

  private converge(): void {
    this.endDisturbances();
    const { node, manifests } = this;
    const endMs = this.nowMs + CONVERGENCE_MAX_MS;
    let wrong: string[];
    do {
      node.run(CONVERGENCE_STEP_MS);
      wrong = differences({ node, pods: this.pods, manifests });
      if (wrong.length === 0) wrong = activity(node);
    } while (wrong.length > 0 && this.nowMs < endMs && this.problems.length === 0);
    for (const text of wrong) this.report('liveness', text);
  }

  /** Replays one of the starts from its journal; replaying all would take as long as the run itself. */
  private checkReplay(): void {
    const { incarnation, records } = this.chance('replay').pick(this.node.starts);
    const read = jsonCopy(records);
    const { divergence } = replay({ machine: kubeletMachine, records: read });
    if (!divergence) return;
    const { n, kind, actors } = divergence;
    this.report('safety', `start ${incarnation} does not replay: ${kind} at record ${n} by ${actors.join()}`);
  }
}
