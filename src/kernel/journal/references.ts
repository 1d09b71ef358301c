/**
 * How a line refers to earlier values of its segment, and how far back. `docs/journal.md` specifies the syntax.
 *
 *   "$3/event/pod"                  the value at that JSON pointer, three records before
 *   {"$":"3/event/pod","phase":…}   the object there, except for the members that follow
 *   {"$":"3/event/pod","$-":["a"],"b":1}  the object there without the member `a`, and with `b`, behind if it is new
 *   {"$":"3/event/uids","$+":[4,1,"x"]}  the list there; from item 4 on, one item is replaced by those that follow
 *   "$$…"                           a text that begins with one dollar less
 *   {"$blob":…}                     a value in a file of its own
 *   "7=2/pod-web"                   the address 7 is `pod-web` below the address 2; from then on it is 7
 */
import type { JournalLine } from '../records.ts';

export const SIGN = '$';
/** The member that marks a reference to an object. */
export const BASE = '$';
/** The member with the names of the members that the object there has in addition. */
export const WITHOUT = '$-';
/** The member with the change of the list there: an index, the number of removed items, and the new items. */
export const SPLICED = '$+';
export const BLOB = '$blob';
/** Members that have a meaning in a line: an object of the world that has one is a blob. */
export const RESERVED = [BASE, BLOB, WITHOUT, SPLICED];

/** The fields that may hold references, in any record but a header. */
export const VALUE_FIELDS = ['event', 'input', 'output', 'value', 'fields', 'error'] as const;
export const ADDRESS_FIELDS = ['at', 'from', 'to'] as const;
/** Records whose `cause` is written as a distance, or left out if it is the previous record. */
export const CAUSED: ReadonlySet<string> = new Set<JournalLine['k']>(['message', 'effect']);

/** The most members of an object, or items of a list, to which others are written as a difference. */
export const BASE_MAX_MEMBERS = 1_024;
/** Addresses numbered in one segment; after that, numbering starts over. */
export const ADDRESSES_MAX = 65_536;
/** Characters of an address that gets a number; container addresses have a hundred or two. */
export const ADDRESS_MAX_CHARS = 512;
/** Marks an address without a number. */
export const NO_NUMBER = 0;

export const escaped = (name: string): string =>
  name.includes('/') || name.includes('~') ? name.replaceAll('~', '~0').replaceAll('/', '~1') : name;
export const unescaped = (token: string): string => token.replaceAll('~1', '/').replaceAll('~0', '~');

/** Records that a reference can reach; a few dozen pods that start at once have this many. */
export const REACH = 4_096;
/** Limit of the lines that are kept, without checksum and line feed. A typical record has about 200 bytes. */
const BYTES_MAX = 8 * 1024 * 1024;

interface Entry<Kept> {
  readonly bytes: number;
  readonly kept: Kept;
}

/**
 * The records of a segment that a later record may refer to: the last records, without a gap.
 *
 * Writer and reader count in the same way, so a reader keeps exactly the records that a reference can reach.
 */
export class Window<Kept> {
  #entries: (Entry<Kept> | undefined)[] = [];
  #oldest = 0;
  #next = 0;
  #bytes = 0;

  /** Adds the record of this number. A number that is not consecutive clears the window. */
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
    return this.has(n) ? this.#entries[n % REACH]?.kept : undefined;
  }

  clear(next = 0): void {
    this.#entries = [];
    this.#oldest = this.#next = next;
    this.#bytes = 0;
  }

  #drop(): void {
    const at = this.#oldest % REACH;
    this.#bytes -= this.#entries[at]?.bytes ?? 0;
    this.#entries[at] = undefined;
    this.#oldest++;
  }
}
