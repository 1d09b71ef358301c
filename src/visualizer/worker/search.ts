/**
 * The results of a search as indexes into the kept records: found in slices, and extended with new records. Also groups
 * the results.
 *
 * Invariants: indexes rise; a slice of work is at most {@link SLICE_MS} long, so that other questions are answered.
 */
import type { ShownRecord } from '../../actors/server/visualizer/protocol.ts';
import { eventText, kindText } from '../words.ts';
import { lastIndexWhere } from './past.ts';
import type { Query } from './query.ts';
import type { Dropped, RecordPages, Row } from './record-pages.ts';
import type { Group, GroupBy } from './requests.ts';

const GROUPS_MAX = 500;

/** The largest groups of the records at these indexes. */
export async function groupsOf(pages: RecordPages, indexes: readonly number[], by: GroupBy): Promise<Group[]> {
  const groups = new Map<string, { key: string; count: number; first: number }>();
  for (const index of indexes) {
    const row = pages.row(index);
    if (!row) continue;
    const key = by === 'what' ? whatOf(await pages.get(index)) : keyOf(row, by);
    const group = groups.get(key);
    if (group) group.count++;
    else groups.set(key, { key, count: 1, first: row.n });
  }
  return [...groups.values()].toSorted((one, other) => other.count - one.count).slice(0, GROUPS_MAX);
}

const keyOf = (row: Row, by: Exclude<GroupBy, 'what'>): string =>
  by === 'actor' ? row.who : by === 'turn' ? String(row.turn) : row.kind;

/** The kind of a record with its subject: the type of the event, the name of the request, the text of a line. */
function whatOf(shown: ShownRecord | undefined): string {
  if (!shown) return '';
  const { record } = shown;
  const kind = kindText(record);
  if (record.k === 'in' || record.k === 'message') return `${kind} ${eventText(record.event.type)}`;
  if (record.k === 'timer') return `${kind} ${eventText(record.event)}`;
  if (record.k === 'effect' || record.k === 'result') return `${kind} ${record.name}`;
  return record.k === 'log' ? `${kind} ${record.text}` : kind;
}

/** A frame has 16 ms. */
const SLICE_MS = 10;
/** The rows of a tall screen: this many results are shown before the search continues. */
export const FIRST_ROWS = 64;
/** Records between two looks at the clock. */
const CLOCK_EVERY = 32;

type PageContent = Awaited<ReturnType<RecordPages['contentAt']>>;

export class Search {
  readonly found: number[] = [];
  /** The first of these records themselves, if the search had to read them. */
  readonly first: ShownRecord[] = [];
  /** Records that were searched. */
  scanned = 0;
  readonly query: Query;
  private readonly pages: RecordPages;
  private running = false;
  private ended = false;
  /** Something was found, and that was reported. */
  private isBegun = false;
  /** How often records were dropped. */
  private drops = 0;

  constructor(pages: RecordPages, query: Query) {
    this.pages = pages;
    this.query = query;
  }

  get isDone(): boolean {
    return this.query.error !== undefined || this.scanned >= this.pages.size;
  }

  /** Continues the search; `onProgress` after each slice. */
  async go(onProgress: () => void): Promise<void> {
    if (this.running) return;
    this.running = true;
    while (!this.isDone && !this.ended) {
      await this.slice();
      onProgress();
      this.isBegun ||= this.found.length > 0;
      await pause();
    }
    this.running = false;
  }

  end(): void {
    this.ended = true;
  }

  /** Adjusts the indexes after records in the middle were dropped. */
  drop({ index, count }: Dropped): void {
    const moved = (at: number): number => (at < index ? at : Math.max(index, at - count));
    this.scanned = moved(this.scanned);
    const first = lastIndexWhere(this.found, (at) => at < index) + 1;
    const last = lastIndexWhere(this.found, (at) => at < index + count) + 1;
    this.found.splice(first, last - first);
    this.first.splice(first);
    for (let at = first; at < this.found.length; at++) this.found[at] = (this.found[at] ?? 0) - count;
    this.drops++;
  }

  private async slice(): Promise<void> {
    const end = performance.now() + SLICE_MS;
    const isScreenFull = (): boolean => !this.isBegun && this.found.length >= FIRST_ROWS;
    while (this.scanned < this.pages.size && performance.now() < end && !isScreenFull()) {
      const { drops } = this;
      const content = this.query.matches ? await this.pages.contentAt(this.scanned) : undefined;
      // Indexes may have changed meanwhile.
      if (this.drops !== drops || this.ended) return;
      const last = Math.min(content?.to ?? this.pages.size, this.pages.size);
      while (this.scanned < last) {
        if (this.isFound(this.scanned, content)) this.found.push(this.scanned);
        this.scanned++;
        if (isScreenFull()) return;
        if (this.scanned % CLOCK_EVERY === 0 && performance.now() >= end) break;
      }
    }
  }

  private isFound(index: number, content: PageContent | undefined): boolean {
    const { mayMatch, mayMatchText, matches } = this.query;
    const row = this.pages.row(index);
    if (row === undefined || !mayMatch(row)) return false;
    if (!content || !matches) return true;
    if (mayMatchText && !mayMatchText(content.text(index), row.kind)) return false;
    const shown = content.shown(index);
    if (shown === undefined || !matches(shown)) return false;
    if (this.first.length === this.found.length && this.first.length < FIRST_ROWS) this.first.push(shown);
    return true;
  }
}

/** Lets messages in that wait. */
export function pause(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener('message', () => {
      port1.close();
      resolve();
    });
    port1.start();
    port2.postMessage(null, []);
  });
}
