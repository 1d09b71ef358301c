/**
 * The files of a journal for a page: one start, and the first segments of earlier starts for comparison. Read-only; a
 * growing segment has its length at the time of the request.
 */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { BLOB_DIRECTORY, checkpointName, type SegmentFile, segmentsIn } from '../../../kernel/journal/layout.ts';

/** Starts before the shown one. */
const EARLIER_MAX = 10;

export class JournalFiles {
  readonly #path: string;
  readonly #incarnation: string | undefined;

  /** `path` is a journal's directory, or one segment; the default incarnation is the newest. */
  constructor(path: string, incarnation?: string) {
    this.#path = path;
    this.#incarnation = incarnation;
  }

  /** Names below the journal's folder. */
  names(): string[] {
    const segments = this.#segments();
    const checkpoints = segments.map(({ incarnation, first }) => checkpointName(incarnation, first));
    const blobs = join(this.#folder, BLOB_DIRECTORY);
    const values = existsSync(blobs) ? readdirSync(blobs).filter((name) => /^[0-9a-f]{64}$/.test(name)) : [];
    return [
      ...segments.map(({ path }) => basename(path)),
      ...checkpoints.filter((name) => existsSync(join(this.#folder, name))),
      ...values.map((name) => `${BLOB_DIRECTORY}/${name}`),
    ];
  }

  /** The path of a file by its name in the journal; undefined if the journal has no such file. */
  pathOf(name: string): string | undefined {
    return this.names().includes(name) ? join(this.#folder, name) : undefined;
  }

  get #isOneFile(): boolean {
    return !statSync(this.#path).isDirectory();
  }

  get #folder(): string {
    return this.#isOneFile ? dirname(this.#path) : this.#path;
  }

  #segments(): readonly SegmentFile[] {
    const all = segmentsIn(this.#folder);
    if (this.#isOneFile) return all.filter(({ path }) => basename(path) === basename(this.#path));
    const shown = this.#incarnation ?? all.at(-1)?.incarnation;
    const names = [...new Set(all.map(({ incarnation }) => incarnation))];
    const earlier = names.slice(0, Math.max(0, names.indexOf(shown ?? ''))).slice(-EARLIER_MAX);
    return all.filter(
      ({ incarnation, first }) => incarnation === shown || (earlier.includes(incarnation) && isStart(first)),
    );
  }
}

/** The first segment of a start begins with its header, record 0. */
const isStart = (first: number): boolean => first <= 1;
