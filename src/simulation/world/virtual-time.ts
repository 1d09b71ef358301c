/** Virtual time: timers fire in the order of their deadlines, then in the order in which they were armed. */
import type { TimeSource } from '../../kernel/clock.ts';

interface Armed {
  readonly due: number;
  readonly order: number;
  readonly fire: () => void;
}

export class VirtualTime implements TimeSource {
  ms: number;
  private order = 0;
  /** Sorted; the next one is the last. */
  private readonly armed: Armed[] = [];
  constructor(startMs = 1_700_000_000_000) {
    this.ms = startMs;
  }

  now(): number {
    return this.ms;
  }

  arm(due: number, fire: () => void): () => void {
    const timer = { due: Math.max(due, this.ms), order: this.order++, fire };
    const at = this.armed.findLastIndex((other) => other.due > timer.due) + 1;
    this.armed.splice(at, 0, timer);
    return () => {
      const index = this.armed.indexOf(timer);
      if (index >= 0) this.armed.splice(index, 1);
    };
  }

  /** The next deadline; `undefined` if no timer is armed. */
  get nextDue(): number | undefined {
    return this.armed.at(-1)?.due;
  }

  /** Fires the next timer; false if none is armed. */
  step(): boolean {
    const next = this.armed.pop();
    if (!next) return false;
    this.ms = Math.max(this.ms, next.due);
    next.fire();
    return true;
  }

  advance(ms: number): void {
    const end = this.ms + ms;
    while (this.nextDue !== undefined && this.nextDue <= end) this.step();
    this.ms = end;
  }
}
