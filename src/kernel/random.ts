/** A seeded generator (xorshift32), the only source of randomness in machines. Its state is part of a checkpoint. */
export class SeededRandom {
  state: number;
  constructor(seed: number) {
    this.state = seed >>> 0 || 1;
  }

  /** A number in [0, 1). */
  next(): number {
    let x = this.state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.state = x >>> 0;
    return this.state / 2 ** 32;
  }
}
