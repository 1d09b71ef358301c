/** Chance of a simulation: the same seed gives the same choices. */
import { SeededRandom } from '../../../src/kernel/random.ts';

export class Chance {
  private readonly random: SeededRandom;

  constructor(seed: number) {
    // Neighbouring seeds begin alike.
    this.random = new SeededRandom(Math.imul(seed, 0x9e3779b1));
    for (let i = 0; i < 8; i++) this.random.next();
  }

  is(share: number): boolean {
    return this.random.next() < share;
  }

  /** A whole number below this one. */
  below(limit: number): number {
    return Math.floor(this.random.next() * limit);
  }

  /** Mostly short. */
  ms(max: number): number {
    return Math.floor(this.random.next() ** 3 * max);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }
}
