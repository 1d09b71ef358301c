/**
 * The records that a search finds, as indexes into those that are kept: found in slices, and more as more records come.
 *
 * Invariants: indexes rise; a slice of work is at most {@link SLICE_MS} long, so that other questions are answered.
 */

import type { Query } from './query.ts';
import type { RecordPages } from './record-pages.ts';

/** A frame has 16 ms. */
const SLICE_MS = 10;

export class Search {
  /** Indexes of the found records. */
  found: number[] = [];
  /** Records that were searched. */
  scanned = 0;
  readonly query: Query;
  private readonly pages: RecordPages;
  private running = false;
  private ended = false;

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
      await pause();
    }
    this.running = false;
  }

  end(): void {
    this.ended = true;
  }

  /** Starts the search again, because pages in the middle were dropped. */
  restart(): void {
    this.found = [];
    this.scanned = 0;
  }

  private async slice(): Promise<void> {
    const end = performance.now() + SLICE_MS;
    const { mayMatch, matches } = this.query;
    while (this.scanned < this.pages.size && performance.now() < end) {
      const index = this.scanned;
      const row = this.pages.row(index);
      let isFound = row !== undefined && mayMatch(row);
      if (isFound && matches) {
        const shown = await this.pages.get(index);
        isFound = shown !== undefined && matches(shown);
      }
      if (isFound && this.scanned === index) this.found.push(index);
      if (this.scanned === index) this.scanned++;
    }
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
