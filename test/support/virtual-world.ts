/**
 * Simulation: the real kernel in a world that follows from a seed. Time is virtual; results come late, twice, wrong or
 * never; and the same seed gives the same journal, byte for byte.
 *
 * Owns: virtual time and the faults. The caller has the model that answers. Invariants: S1 nothing here reads a clock
 * or has random choices of its own. S2 events at the same time happen in the order in which they were armed.
 */
import type { TimeSource } from '../../src/kernel/clock.ts';
import type { EffectRequest, EffectResult, Performer } from '../../src/kernel/effects.ts';
import type { JsonEvent } from '../../src/kernel/json.ts';
import { SeededRandom } from '../../src/kernel/purity.ts';

interface Armed {
  readonly due: number;
  readonly order: number;
  readonly fire: () => void;
}

/** Time that advances only on request, from one armed timer to the next. */
export class VirtualTime implements TimeSource {
  private ms: number;
  private order = 0;
  private armed: Armed[] = [];

  constructor(startMs: number) {
    this.ms = startMs;
  }

  now(): number {
    return this.ms;
  }

  arm(dueMs: number, fire: () => void): () => void {
    const entry = { due: Math.max(dueMs, this.ms), order: this.order++, fire };
    this.armed.push(entry);
    return () => void (this.armed = this.armed.filter((other) => other !== entry));
  }

  /**
   * Fires everything due until `untilMs`, in the order of time, then of arming; ends early when `stop` returns true.
   */
  advanceTo(untilMs: number, stop: () => boolean = () => false): void {
    while (!stop()) {
      const next = this.armed.reduce<Armed | undefined>(
        (best, entry) =>
          entry.due <= untilMs &&
          (!best || entry.due < best.due || (entry.due === best.due && entry.order < best.order))
            ? entry
            : best,
        undefined,
      );
      if (!next) break;
      this.armed = this.armed.filter((entry) => entry !== next);
      this.ms = Math.max(this.ms, next.due);
      next.fire();
    }
    if (!stop()) this.ms = Math.max(this.ms, untilMs);
  }
}

/** The probability of each fault, and the longest delay of an answer. */
export interface Faults {
  /** The operation fails and has no effect. */
  readonly fail: number;
  /** The operation is done, but its answer is lost: the caller sees a failure. */
  readonly loseAnswer: number;
  /** The answer arrives twice. */
  readonly duplicate: number;
  /** There is no answer. */
  readonly hang: number;
  readonly delayMaxMs: number;
}

/** The caller's model: performs the operation and returns its result. A stream keeps `emit` for later. */
export type WorldModel = (
  request: EffectRequest & { readonly resume: boolean },
  emit: (event: JsonEvent) => void,
) => EffectResult | 'stream';

const LOST = { name: 'Error', message: 'the answer was lost', code: 'DEADLINE_EXCEEDED', retriable: true };
const FAILED = { name: 'Error', message: 'the world refused', code: 'UNAVAILABLE', retriable: true };

/** Performs operations by the model, with the faults of the seed. */
export class FaultyWorld implements Performer {
  readonly random: SeededRandom;
  private readonly time: VirtualTime;
  private readonly faults: Faults;
  private readonly model: WorldModel;

  constructor(seed: number, time: VirtualTime, faults: Faults, model: WorldModel) {
    this.random = new SeededRandom(seed);
    this.time = time;
    this.faults = faults;
    this.model = model;
  }

  perform(
    request: EffectRequest & { readonly resume: boolean },
    settle: (result: EffectResult) => void,
    emit: (event: JsonEvent) => void,
  ): () => void {
    let open = true;
    const timers: (() => void)[] = [];
    const later = (delayMs: number, run: () => void) =>
      void timers.push(this.time.arm(this.time.now() + delayMs, () => open && run()));
    if (this.chance(this.faults.hang)) return () => void (open = false);
    later(this.delay(), () => {
      const answer = this.outcome(request, (event) => open && emit(event));
      if (answer === 'stream') return;
      later(this.delay(), () => {
        settle(answer);
        if (this.chance(this.faults.duplicate)) settle(answer);
      });
    });
    return () => {
      open = false;
      for (const disarm of timers) disarm();
    };
  }

  private outcome(request: EffectRequest & { readonly resume: boolean }, emit: (event: JsonEvent) => void) {
    if (this.chance(this.faults.fail)) return { error: FAILED };
    const answer = this.model(request, emit);
    return answer !== 'stream' && this.chance(this.faults.loseAnswer) ? { error: LOST } : answer;
  }

  private chance(probability: number): boolean {
    return probability > 0 && this.random.next() < probability;
  }

  private delay(): number {
    return Math.floor(this.random.next() * (this.faults.delayMaxMs + 1));
  }
}
