/**
 * The kernel: one loop that takes an input, runs every actor to completion, records what happened, and only then acts
 * on the world.
 *
 * Owns: the queue of inputs, the numbers of records and turns, the time of a turn, the seeded generator.
 * Hears: `dispatch` (events from outside), results of operations, timers. Nothing else reaches an actor.
 * Asks: the sink to keep records, the performer to perform operations.
 * Invariants:
 *   K1 one input is one turn; a turn is synchronous and nothing interleaves with it.
 *   K2 every message between actors, request, log line and state change of a turn is a derived record.
 *   K3 the same inputs give the same records, bit for bit. There is no other input.
 *   K4 records of a turn reach the sink together, closed by an `end` with the digest of all that changed.
 *   K5 the root never stops silently: its end and its failure are reported to `onStopped`.
 *   K6 a turn that throws is recorded as its input and the error, which a replay reproduces, and ends the kernel.
 */
import { type AnyActorRef, type AnyStateMachine, createActor, type InspectionEvent } from 'xstate';
import { type Address, addressOf, parentActor } from './address.ts';
import { makeAtomic } from './atomic.ts';
import { Timers, type TimeSource } from './clock.ts';
import { type EffectResult, Outbox, type Performer } from './effects.ts';
import type { JournalSink } from './journal/writer.ts';
import { type JsonEvent, jsonCopy, memberOf, type PlainError, toPlainError } from './json.ts';
import { type ActorHost, createHosted, type OperationClass } from './operation.ts';
import { lift, purely, SeededRandom } from './purity.ts';
import {
  type Checkpoint,
  type HeaderRecord,
  type InputRecord,
  type KernelRecord,
  type LogLevel,
  restoreActors,
  TURN_FAILED,
} from './records.ts';
import { type Step, stepIn } from './steps.ts';
import { type ChangedActor, TurnRecorder, type Unnumbered } from './turn-recorder.ts';

/** Events in the queue. Beyond it, stream items are refused and the root receives `kernel.overrun`. */
const INPUT_QUEUE_MAX = 65_536;
/** Turns run back to back for this long before the event loop continues. */
const SLICE_MS = 5;

export interface KernelOptions {
  readonly machine: AnyStateMachine;
  /** The first record, without its number. `input` goes to the root machine. */
  readonly header: Omit<HeaderRecord, 'n' | 'k' | 't'>;
  readonly sink: JournalSink;
  /** Absent in replay: nothing is performed, no timer is armed, time comes with the records. */
  readonly performer?: Performer;
  readonly time?: TimeSource;
  /**
   * Receives the records of each turn after they are committed. `tookMs` is the time that the machines took for the
   * turn, without writing; no record contains it.
   */
  readonly onTurn?: (records: readonly KernelRecord[], kernel: Kernel, tookMs: number) => void;
  /** Receives each actor that starts, with the id of its machine. */
  readonly onActor?: (address: Address, machine: string) => void;
  /** Receives each step of each actor; for replays that report which states and transitions a journal covers. */
  readonly onStep?: (step: Step) => void;
  /** Called when the root has ended: with its output, or with the error that stopped it. */
  readonly onStopped?: (end: { output: unknown } | { error: PlainError }) => void;
}

export class Kernel implements ActorHost {
  /** Number of finished turns. */
  turn = 0;
  readonly timers: Timers;
  readonly outbox = new Outbox();
  readonly rng: SeededRandom;
  private readonly recorder: TurnRecorder;
  private readonly options: KernelOptions;
  private queue: (() => void)[] = [];
  private refused = 0;
  private inTurn = false;
  private scheduled = false;
  private stopped = false;
  /** How the root has ended, until the end of its last turn. */
  private end: { output: unknown } | { error: PlainError } | undefined;
  private restoring: Map<Address, number> | undefined;
  private root!: AnyActorRef;

  constructor(options: KernelOptions) {
    this.options = options;
    this.recorder = new TurnRecorder(options.onActor);
    this.rng = new SeededRandom(options.header.seed);
    this.timers = new Timers(options.time, (id) => this.enqueue(() => this.timerDue(id)));
  }

  get n(): number {
    return this.recorder.n;
  }

  get now(): number {
    return this.timers.now;
  }

  /** Inputs in the queue, at most {@link INPUT_QUEUE_MAX} plus those of operations and timers. */
  get queueLength(): number {
    return this.queue.length;
  }

  random(): number {
    return this.rng.next();
  }

  /** Starts the root actor as turn 0. `at` is the time of the header (default: the time source). */
  boot(at = this.options.time?.now() ?? 0): this {
    this.timers.now = at;
    purely(() => this.createRoot(undefined));
    this.takeTurn(at, () => {
      this.recorder.record({ k: 'header', t: this.now, ...this.options.header });
      this.root.start();
    });
    return this;
  }

  /** Continues from a checkpoint: same actors, same timers with their deadlines; open requests start with `resume`. */
  restore(checkpoint: Checkpoint): this {
    const fresh = structuredClone(checkpoint);
    this.recorder.n = fresh.n;
    this.recorder.restoring = true;
    this.turn = fresh.turn;
    this.timers.now = fresh.t;
    this.timers.nextId = fresh.nextTimer;
    this.outbox.nextId = fresh.nextEffect;
    this.rng.state = fresh.random;
    this.restoring = new Map(fresh.effects.map((effect) => [effect.at, effect.id]));
    purely(() => this.createRoot(fresh.root));
    restoreActors(this.root, fresh, this.timers, (address) => this.recorder.actors.get(address));
    this.restoring = undefined;
    this.recorder.settleRestored();
    this.beginEffects();
    return this;
  }

  private createRoot(snapshot: unknown): void {
    makeAtomic(this.options.machine);
    const options = {
      id: this.options.machine.id,
      clock: this.timers.xstateClock,
      inspect: (event: InspectionEvent) => this.inspected(event),
      logger: (level: LogLevel, line: unknown) => this.recorder.logged(level, line as never, this.root),
      input: this.options.header.input,
      ...(snapshot === undefined ? {} : { snapshot: snapshot as never }),
    };
    this.root = createHosted(this, () => createActor(this.options.machine, options as never));
    this.describeTimers();
    this.inspectDirectly();
    this.root.subscribe({
      complete: () => this.ended({ output: memberOf(this.root.getSnapshot(), 'output') }),
      error: (error) => this.ended({ error: error as PlainError }),
    });
  }

  private inspected(event: InspectionEvent): void {
    this.recorder.inspected(event);
    const step = this.options.onStep && stepIn(event);
    if (step) this.options.onStep?.(step);
  }

  /**
   * Bypasses XState's list of inspectors, which copies each event: there is only one inspector, and it keeps no event.
   */
  private inspectDirectly(): void {
    const system = this.root.system as unknown as { _sendInspectionEvent: (event: InspectionEvent) => void };
    system._sendInspectionEvent = (event) => this.inspected(event);
  }

  /** Only XState's scheduler knows the target and the event of a timer. */
  private describeTimers(): void {
    const scheduler = this.root.system.scheduler;
    const schedule = scheduler.schedule.bind(scheduler);
    scheduler.schedule = (source, target, event, delay, sendId = `timer-${this.timers.nextId}`) => {
      const description = { source: addressOf(source), target: addressOf(target), event, sendId };
      this.timers.describing = description;
      lift(() => schedule(source, target, event, delay, sendId));
      this.timers.describing = undefined;
    };
    // XState's own implementation scans the timers of all actors whenever one ends.
    scheduler.cancelAll = (source) => {
      for (const sendId of this.timers.sendIdsOf(addressOf(source))) scheduler.cancel(source, sendId);
    };
  }

  private ended(end: { output: unknown } | { error: PlainError }): void {
    if (this.stopped) return;
    this.stopped = true;
    this.queue = [];
    this.end = end;
  }

  /** Queues an event from outside. False if the queue is full; the root is informed once there is room. */
  dispatch(to: Address, event: JsonEvent, via: string): boolean {
    if (this.queue.length >= INPUT_QUEUE_MAX) {
      this.refused++;
      return false;
    }
    this.enqueue(() => {
      if (this.recorder.actors.has(to)) this.input({ k: 'in', t: this.time(), to, event, via });
    });
    return true;
  }

  /** Takes one input as a turn, synchronously. Used by replay and simulation; live inputs come through the queue. */
  input(draft: Unnumbered<InputRecord>): void {
    this.takeTurn(draft.t, () => {
      this.recorder.record(draft);
      if (draft.k === 'in') this.recorder.deliver(this.recorder.actors.get(draft.to), draft.event);
      else if (draft.k === 'timer') this.timers.run(draft.id);
      else this.recorder.deliver(this.outbox.actorOf(draft.id), resultEvent(draft));
    });
  }

  private timerDue(id: number): void {
    const timer = this.timers.take(id);
    if (!timer) return;
    const t = Math.max(this.time(), timer.due);
    this.input({ k: 'timer', t, id, at: timer.target, event: timer.event.type });
  }

  private settle(id: number, result: EffectResult): void {
    this.enqueue(() => {
      const request = this.outbox.requestOf(id);
      if (request) this.input({ k: 'result', t: this.time(), id, at: request.at, name: request.name, ...result });
    });
  }

  private time(): number {
    return Math.max(this.timers.now, this.options.time?.now() ?? 0);
  }

  private enqueue(work: () => void): void {
    if (this.stopped) return;
    this.queue.push(work);
    if (!this.inTurn && !this.scheduled) this.drain();
  }

  private drain(): void {
    this.scheduled = false;
    const beganMs = performance.now();
    for (let work = this.queue.shift(); work; work = this.queue.shift()) {
      work();
      if (performance.now() - beganMs >= SLICE_MS) break;
    }
    if (this.queue.length > 0) {
      this.scheduled = true;
      setImmediate(() => this.drain());
    } else if (this.refused > 0) {
      const event = { type: 'kernel.overrun', refused: this.refused };
      this.refused = 0;
      this.dispatch(this.root.id, event, 'kernel');
    }
  }

  private takeTurn(t: number, body: () => void): void {
    this.timers.now = Math.max(this.timers.now, t);
    this.inTurn = true;
    const beganMs = performance.now();
    let records: readonly KernelRecord[];
    try {
      purely(body);
      records = this.recorder.endTurn(this.turn, this.timers.takeArmed());
    } catch (thrown) {
      records = this.failedTurn(thrown);
    } finally {
      this.inTurn = false;
    }
    this.turn++;
    this.commit(records, performance.now() - beganMs);
    if (this.end) this.finish(this.end);
  }

  /** The records of a turn that threw; its requests are not performed. */
  private failedTurn(thrown: unknown): readonly KernelRecord[] {
    if (!this.options.onStopped) throw thrown;
    const error = toPlainError(thrown);
    this.outbox.takeWaiting();
    this.recorder.keepInput();
    this.recorder.logged('fatal', { text: TURN_FAILED, fields: { err: error.message } }, this.root);
    this.ended({ error });
    return this.recorder.endTurn(this.turn, this.timers.takeArmed());
  }

  private commit(records: readonly KernelRecord[], tookMs: number): void {
    const { sink, onTurn } = this.options;
    for (const record of records) sink.append(record);
    sink.commit();
    this.outbox.abort();
    this.beginEffects();
    onTurn?.(records, this, tookMs);
    if (sink.wantsCheckpoint && !this.stopped) sink.writeCheckpoint(this.checkpoint());
  }

  private beginEffects(): void {
    const requests = this.outbox.takeWaiting();
    const { performer, sink } = this.options;
    if (!performer) return;
    for (const { id, class: cls, at } of requests) {
      const asker = at.slice(0, at.lastIndexOf('/'));
      const begin = () =>
        this.outbox.begin(
          id,
          performer,
          (result) => this.settle(id, result),
          (event) => void this.dispatch(asker, event, `effect:${id}`),
        );
      if (cls === 'once' || cls === 'idempotent') sink.whenDurable(begin);
      else begin();
    }
  }

  private finish(end: { output: unknown } | { error: PlainError }): void {
    this.end = undefined;
    this.timers.disarmAll();
    this.outbox.cancelAll();
    this.options.onStopped?.(end);
  }

  effectStarted(self: AnyActorRef, name: string, cls: OperationClass, input: unknown): void {
    if (this.restoring) {
      const id = this.restoring.get(addressOf(self));
      if (id === undefined) throw new Error(`the checkpoint has no request at ${addressOf(self)}`);
      this.outbox.reattach(self, name, cls, input, id);
      return;
    }
    const request = this.outbox.request(self, name, cls, input);
    this.recorder.record({ k: 'effect', ...request, ...this.recorder.causeOf(parentActor(self)) });
  }

  effectSettled(self: AnyActorRef): void {
    this.outbox.settled(self);
  }

  effectCancelled(self: AnyActorRef): void {
    const id = this.outbox.cancelled(self);
    if (id !== undefined) this.recorder.record({ k: 'cancel', id });
  }

  /** The whole state at the end of a turn; restoring it and repeating the later inputs gives the same records. */
  checkpoint(): Checkpoint {
    if (this.inTurn) throw new Error('a checkpoint exists only between turns');
    return {
      n: this.n,
      turn: this.turn,
      t: this.now,
      nextEffect: this.outbox.nextId,
      nextTimer: this.timers.nextId,
      random: this.rng.state,
      timers: this.timers.list(),
      effects: this.outbox.list(),
      root: jsonCopy(this.root.getPersistedSnapshot()),
    };
  }

  /** The actors changed by the last turn, in the order of its digests. */
  get changedActors(): readonly ChangedActor[] {
    return this.recorder.changedActors;
  }

  /** Last snapshot of an actor, for read models (status pages, health checks) only, never for another actor. */
  snapshotOf(address: Address): unknown {
    return this.recorder.actors.get(address)?.getSnapshot();
  }

  get addresses(): Address[] {
    return [...this.recorder.actors.keys()];
  }
}

function resultEvent(result: { output?: unknown; error?: PlainError }): JsonEvent {
  return result.error ? { type: 'effect.failed', error: result.error } : { type: 'effect.done', output: result.output };
}
