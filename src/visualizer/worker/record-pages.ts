/**
 * The records that the visualizer can show, in pages of memory: each page has a few columns that are searched fast, and
 * the records themselves as compressed text.
 *
 * Invariants: numbers rise; the first {@link START_PAGES} pages are kept for ever, because a start is requested most
 * often; of the later ones the last `pagesMax`; dropped records are counted. At most {@link UNPACKED_MAX} pages are
 * kept unpacked.
 */
import type { ShownRecord } from '../../actors/server/visualizer/protocol.ts';
import { keepNewest } from '../../kernel/keep-newest.ts';
import type { KernelRecord } from '../../kernel/records.ts';
import { whoOf } from '../words.ts';
import { pack, unpack } from './packing.ts';
import { lastIndexWhere } from './past.ts';

/** Records of a start that are read for reports on it: those of a node with hundreds of pods. */
export const START_RECORDS_MAX = 50_000;
/**
 * Records in a page. The causes of one record are far apart, and each costs an unpacked page: some 250 KB of text, in 1
 * ms.
 */
export const PAGE_RECORDS = 256;
/** 20,480 records: the start of a node with more than a hundred pods. */
const START_PAGES = 80;
/** Pages that are dropped together, so that searches are rarely adjusted. */
const DROP_PAGES = 16;
/** Unpacked pages, in all some 16 MB. */
const UNPACKED_MAX = 64;
/** Actors that are listed by their number of records. */
const BUSIEST_MAX = 20;

export const KINDS: readonly KernelRecord['k'][] = [
  'header',
  'in',
  'timer',
  'result',
  'message',
  'effect',
  'cancel',
  'log',
  'state',
  'end',
];

/** The facts about a record that are known without unpacking it. */
export interface Row {
  readonly n: number;
  readonly t: number;
  readonly turn: number;
  /** -1: none. */
  readonly cause: number;
  readonly kind: KernelRecord['k'];
  readonly who: string;
  /** The sender of a message. */
  readonly from: string;
  /** The pod, or another object of the API, that a line is about: `namespace/name`. */
  readonly about: string;
}

/** Records that are not kept any more. */
export interface Dropped {
  /** The numbers of the first and last one. */
  readonly from: number;
  readonly to: number;
  /** The index of the first dropped record, and their number. */
  readonly index: number;
  readonly count: number;
}

interface PageContent {
  /** The first index after it. */
  readonly to: number;
  /** A record as it is stored: JSON. */
  readonly text: (index: number) => string;
  readonly shown: (index: number) => ShownRecord | undefined;
}

class Page {
  readonly n = new Float64Array(PAGE_RECORDS);
  readonly t = new Float64Array(PAGE_RECORDS);
  readonly turn = new Uint32Array(PAGE_RECORDS);
  readonly cause = new Float64Array(PAGE_RECORDS);
  readonly kind = new Uint8Array(PAGE_RECORDS);
  readonly who = new Uint32Array(PAGE_RECORDS);
  readonly from = new Uint32Array(PAGE_RECORDS);
  readonly about = new Uint32Array(PAGE_RECORDS);
  size = 0;
  /** The records themselves, until the page is full; then their compressed text. */
  content: ShownRecord[] | Uint8Array<ArrayBuffer> = [];

  get isFull(): boolean {
    return this.size === PAGE_RECORDS;
  }
}

/** The number of a column at an index, which every index within the page has. */
const numberIn = (column: ArrayLike<number>, at: number): number => column[at] ?? 0;

export class RecordPages {
  /** Records in the holes between those that are kept. */
  missed = 0;
  /** Bytes of packed pages. */
  packedBytes = 0;
  private readonly pages: Page[] = [];
  private readonly pagesMax: number;
  private readonly names: string[] = [''];
  private readonly ids = new Map<string, number>([['', 0]]);
  /** By name, in how many columns of how many records it occurs: names of pods come and go. */
  private readonly uses: number[] = [1];
  private readonly freeIds: number[] = [];
  /** Unpacked pages as lines of text, the one that was used last at the end. */
  private readonly unpacked = new Map<Page, Promise<string[]>>();

  constructor(pagesMax: number) {
    this.pagesMax = pagesMax;
  }

  /** Records that are kept. */
  get size(): number {
    const last = this.pages.at(-1);
    return last ? (this.pages.length - 1) * PAGE_RECORDS + last.size : 0;
  }

  /** Number of the last record; -1: there is none. */
  get last(): number {
    const page = this.pages.at(-1);
    return page ? numberIn(page.n, page.size - 1) : -1;
  }

  /** Appends records, skipping known ones. Returns which records were dropped for them, if any. */
  append(records: readonly ShownRecord[]): Dropped | undefined {
    let dropped: Dropped | undefined;
    for (const shown of records) {
      const { last } = this;
      if (shown.n <= last) continue;
      if (last !== -1) this.missed += shown.n - last - 1;
      let page = this.pages.at(-1);
      if (!page || page.isFull) {
        page = new Page();
        this.pages.push(page);
      }
      this.write(page, shown);
      if (!page.isFull) continue;
      void this.pack(page);
      const drop = this.drop();
      if (drop) dropped = { ...drop, from: dropped?.from ?? drop.from, count: drop.count + (dropped?.count ?? 0) };
    }
    return dropped;
  }

  private write(page: Page, shown: ShownRecord): void {
    const { n, t, turn, cause = -1, record } = shown;
    const at = page.size++;
    page.n[at] = n;
    page.t[at] = t;
    page.turn[at] = turn;
    page.cause[at] = cause;
    page.kind[at] = KINDS.indexOf(record.k);
    page.who[at] = this.idOf(whoOf(shown));
    page.from[at] = this.idOf(record.k === 'message' ? record.from : '');
    page.about[at] = this.idOf(subjectOf(record));
    if (Array.isArray(page.content)) page.content.push(shown);
  }

  private idOf(name: string): number {
    const id = this.ids.get(name) ?? this.freeIds.pop() ?? this.names.length;
    this.ids.set(name, id);
    this.names[id] = name;
    this.uses[id] = numberIn(this.uses, id) + 1;
    return id;
  }

  /** The names of a page that is dropped; those that no other page has are forgotten. */
  private forgetNames({ who, from, about, size }: Page): void {
    for (const column of [who, from, about]) {
      for (const id of column.subarray(0, size)) {
        const left = numberIn(this.uses, id) - 1;
        this.uses[id] = left;
        if (left > 0) continue;
        this.ids.delete(this.names[id] ?? '');
        this.names[id] = '';
        this.freeIds.push(id);
      }
    }
  }

  private async pack(page: Page): Promise<void> {
    if (!Array.isArray(page.content)) return;
    const text = page.content.map((shown) => JSON.stringify(shown)).join('\n');
    const packed = await pack(text);
    this.packedBytes += packed.length;
    page.content = packed;
  }

  private drop(): Dropped | undefined {
    if (this.pages.length < START_PAGES + this.pagesMax + DROP_PAGES) return undefined;
    const dropped = this.pages.splice(START_PAGES, DROP_PAGES);
    const [first, last] = [dropped[0], dropped.at(-1)];
    if (!first || !last) return undefined;
    for (const page of dropped) {
      this.packedBytes -= Array.isArray(page.content) ? 0 : page.content.length;
      this.unpacked.delete(page);
      this.forgetNames(page);
    }
    const count = dropped.length * PAGE_RECORDS;
    this.missed += count;
    const index = START_PAGES * PAGE_RECORDS;
    return { from: numberIn(first.n, 0), to: numberIn(last.n, last.size - 1), index, count };
  }

  /** The facts about the record at an index, without unpacking. */
  row(index: number): Row | undefined {
    const page = this.pages[Math.floor(index / PAGE_RECORDS)];
    const at = index % PAGE_RECORDS;
    if (!page || at >= page.size) return undefined;
    return {
      n: numberIn(page.n, at),
      t: numberIn(page.t, at),
      turn: numberIn(page.turn, at),
      cause: numberIn(page.cause, at),
      kind: KINDS[numberIn(page.kind, at)] ?? 'end',
      who: this.names[numberIn(page.who, at)] ?? '',
      from: this.names[numberIn(page.from, at)] ?? '',
      about: this.names[numberIn(page.about, at)] ?? '',
    };
  }

  /** The indexes of the wanted records whose actor, sender or subject has one of these names. */
  indexesNaming(isNamed: (name: string) => boolean, isWanted: (row: Row) => boolean): number[] {
    const named = Uint8Array.from(this.names, (name) => Number(isNamed(name)));
    const isIn = (column: Uint32Array, at: number): boolean => named[numberIn(column, at)] === 1;
    const found: number[] = [];
    for (const [number, page] of this.pages.entries()) {
      for (let at = 0; at < page.size; at++) {
        if (!isIn(page.who, at) && !isIn(page.from, at) && !isIn(page.about, at)) continue;
        const index = number * PAGE_RECORDS + at;
        const row = this.row(index);
        if (row && isWanted(row)) found.push(index);
      }
    }
    return found;
  }

  /** The index of the record, or of the first one after it. */
  indexOf(n: number): number {
    const number = Math.max(
      0,
      lastIndexWhere(this.pages, (page) => numberIn(page.n, 0) <= n),
    );
    const page = this.pages[number];
    if (!page) return 0;
    let [low, high] = [0, page.size];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (numberIn(page.n, middle) < n) low = middle + 1;
      else high = middle;
    }
    return number * PAGE_RECORDS + low;
  }

  /** The record's cause; -1 for none. Undefined if the record is not kept. */
  causeOf(n: number): number | undefined {
    const index = this.indexOf(n);
    const page = this.pages[Math.floor(index / PAGE_RECORDS)];
    const at = index % PAGE_RECORDS;
    return page && at < page.size && page.n[at] === n ? numberIn(page.cause, at) : undefined;
  }

  /** The first index from which on `isAfter` is true. */
  firstWhere(isAfter: (row: Row) => boolean): number {
    let [low, high] = [0, this.size];
    while (low < high) {
      const middle = (low + high) >> 1;
      const row = this.row(middle);
      if (!row || isAfter(row)) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Numbers of a record's consequences, direct or not: a cause is always smaller. At most `max`. */
  followers(n: number, max: number): number[] {
    const found = new Set<number>();
    for (const page of this.pages.slice(Math.floor(this.indexOf(n) / PAGE_RECORDS))) {
      for (let i = 0; i < page.size; i++) {
        const cause = numberIn(page.cause, i);
        if (cause < n || (cause !== n && !found.has(cause))) continue;
        found.add(numberIn(page.n, i));
        if (found.size === max) return [...found];
      }
    }
    return [...found];
  }

  /** The actors with the most records. */
  busiest(): { readonly name: string; readonly records: number }[] {
    const counts = new Uint32Array(this.names.length);
    for (const page of this.pages) {
      for (const id of page.who.subarray(0, page.size)) counts[id] = numberIn(counts, id) + 1;
    }
    const named = this.names
      .map((name, id) => ({ name, records: numberIn(counts, id) }))
      .filter(({ name }) => name !== '');
    return named.toSorted((one, other) => other.records - one.records).slice(0, BUSIEST_MAX);
  }

  /** The longest time between two records, in milliseconds, in each of `bins` equal stretches of them. */
  pauses(bins: number): number[] {
    const longest = Array.from({ length: bins }, () => 0);
    const scale = bins / Math.max(1, this.size);
    let [index, before] = [0, this.row(0)?.t ?? 0];
    for (const page of this.pages) {
      for (const t of page.t.subarray(0, page.size)) {
        const bin = Math.floor(index++ * scale);
        longest[bin] = Math.max(longest[bin] ?? 0, t - before);
        before = t;
      }
    }
    return longest;
  }

  has(n: number): boolean {
    return this.row(this.indexOf(n))?.n === n;
  }

  async get(index: number): Promise<ShownRecord | undefined> {
    const page = this.pages[Math.floor(index / PAGE_RECORDS)];
    const at = index % PAGE_RECORDS;
    if (!page || Array.isArray(page.content)) return page?.content[at] as ShownRecord | undefined;
    const line = (await this.linesOf(page, page.content))[at];
    return line === undefined ? undefined : JSON.parse(line);
  }

  /**
   * The records of the page with this index that exist now, each parsed on demand. A page that had to be unpacked for
   * this is not cached: a search reads all pages and would evict the viewed ones.
   */
  async contentAt(index: number): Promise<PageContent> {
    const number = Math.floor(index / PAGE_RECORDS);
    const page = this.pages[number];
    const from = number * PAGE_RECORDS;
    if (!page) return { to: from, text: () => '', shown: () => undefined };
    const to = from + page.size;
    const { content } = page;
    if (Array.isArray(content)) {
      return { to, text: (at) => JSON.stringify(content[at - from]) ?? '', shown: (at) => content[at - from] };
    }
    const lines = await (this.unpacked.get(page) ?? linesIn(content));
    const text = (at: number): string => lines[at - from] ?? '';
    return { to, text, shown: (at) => JSON.parse(text(at)) };
  }

  /** The records at these indexes, which rise. */
  async at(indexes: Iterable<number>): Promise<ShownRecord[]> {
    const found: ShownRecord[] = [];
    for (const index of indexes) {
      const shown = await this.get(index);
      if (shown) found.push(shown);
    }
    return found;
  }

  /** The first index of a turn, and the first after it. */
  boundsOf(turn: number): readonly [from: number, to: number] {
    return [this.firstWhere((row) => row.turn >= turn), this.firstWhere((row) => row.turn > turn)];
  }

  turn(turn: number): Promise<ShownRecord[]> {
    return this.at(range(...this.boundsOf(turn)));
  }

  private linesOf(page: Page, packed: Uint8Array<ArrayBuffer>): Promise<string[]> {
    const known = this.unpacked.get(page) ?? linesIn(packed);
    this.unpacked.delete(page);
    this.unpacked.set(page, known);
    keepNewest(this.unpacked, UNPACKED_MAX);
    return known;
  }
}

/** The object of the API that a line is about. */
function subjectOf(record: KernelRecord): string {
  if (record.k !== 'log') return '';
  const { object, pod } = record.fields ?? {};
  return [object, pod].find((name) => typeof name === 'string') ?? '';
}

const linesIn = async (packed: Uint8Array<ArrayBuffer>): Promise<string[]> => (await unpack(packed)).split('\n');

export function* range(from: number, to: number): Generator<number> {
  for (let at = from; at < to; at++) yield at;
}
