/**
 * The random choices of a simulation: the same seed and the same key give the same choices, independent of other
 * choices.
 */
import { createHash } from 'node:crypto';
import { SeededRandom } from '../kernel/random.ts';

export class Chance {
  private readonly random: SeededRandom;

  constructor(...words: readonly (string | number)[]) {
    this.random = new SeededRandom(createHash('md5').update(words.join(' ')).digest().readUInt32LE());
  }

  is(share: number): boolean {
    return this.random.next() < share;
  }

  /** A whole number below this one. */
  below(limit: number): number {
    return Math.floor(this.random.next() * limit);
  }

  /** Small values are more likely. */
  ms(max: number): number {
    return Math.floor(this.random.next() ** 3 * max);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }
}
