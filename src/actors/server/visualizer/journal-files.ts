/**
 * The files of a journal for a page: one start, and the first segments of earlier starts for comparison. Read-only; a
 * growing segment has its length at the time of the request.
 *
 * Invariant: only files in the journal's folder are given out. A link to any other place is not followed: a prepared
 * journal could otherwise bring a private file of its reader into a report.
 */
import { existsSync, lstatSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { BLOB_DIRECTORY, checkpointName, type SegmentFile, segmentsIn } from '../../../kernel/journal/layout.ts';

/** Starts before the shown one. */
const EARLIER_MAX = 10;
const BLOB = new RegExp(`^${BLOB_DIRECTORY}/[0-9a-f]{64}$`);

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
    const values = existsSync(blobs) ? readdirSync(blobs).map((name) => `${BLOB_DIRECTORY}/${name}`) : [];
    return [
      ...segments.map(({ path }) => basename(path)),
      ...checkpoints.filter((name) => this.#isHere(name)),
      ...values.filter((name) => BLOB.test(name) && this.#isHere(name)),
    ];
  }

  pathOf(name: string): string | undefined {
    // A journal may have thousands of blobs: the request for one must not list them all.
    const isOne = BLOB.test(name) ? this.#isHere(name) : this.names().includes(name);
    return isOne ? join(this.#folder, name) : undefined;
  }

  /** Whether a name is that of a file in the folder itself, or of a link to one. */
  #isHere(name: string): boolean {
    const path = join(this.#folder, name);
    try {
      const [real, folder] = [realpathSync(path), realpathSync(this.#folder)];
      return real.startsWith(join(folder, '/')) && lstatSync(real).isFile();
    } catch {
      return false;
    }
  }

  get #isOneFile(): boolean {
    return !statSync(this.#path).isDirectory();
  }

  get #folder(): string {
    return this.#isOneFile ? dirname(this.#path) : this.#path;
  }

  #segments(): readonly SegmentFile[] {
    const every = segmentsIn(this.#folder);
    // The user named this one.
    if (this.#isOneFile) return every.filter(({ path }) => basename(path) === basename(this.#path));
    const all = every.filter(({ path }) => this.#isHere(basename(path)));
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
