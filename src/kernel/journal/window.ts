/**
 * The records of a segment that a later one may refer to: the last ones, without a hole.
 *
 * Writer and reader count alike, so a reader holds what a reference can reach, and no more.
 */

/** Some dozens of pods that start at once. */
export const REACH = 4_096;
/** Of their lines without checksum and line feed. A record of a node has some 200. */
const BYTES_MAX = 8 * 1024 * 1024;

interface Entry<Kept> {
  readonly bytes: number;
  readonly kept: Kept;
}

export class Window<Kept> {
  #entries: (Entry<Kept> | undefined)[] = [];
  #oldest = 0;
  #next = 0;
  #bytes = 0;

  /** Takes the record of this number. A number that does not follow begins anew. */
  add(n: number, bytes: number, kept: Kept): void {
    if (n !== this.#next) this.clear(n);
    if (n - this.#oldest >= REACH) this.#drop();
    this.#entries[n % REACH] = { bytes, kept };
    this.#next = n + 1;
    this.#bytes += bytes;
    while (this.#bytes > BYTES_MAX) this.#drop();
  }

  has(n: number): boolean {
    return n >= this.#oldest && n < this.#next;
  }

  get(n: number): Kept | undefined {
    return this.has(n) ? this.#entries[n % REACH]!.kept : undefined;
  }

  clear(next = 0): void {
    this.#entries = [];
    this.#oldest = this.#next = next;
    this.#bytes = 0;
  }

  #drop(): void {
    const at = this.#oldest % REACH;
    this.#bytes -= this.#entries[at]!.bytes;
    this.#entries[at] = undefined;
    this.#oldest++;
  }
}
