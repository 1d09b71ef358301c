/** The errors that a journal can have, for programs (`kind`, `place`) and for people (`message`). */

export type JournalErrorKind =
  /** No file looks like a journal. */
  | 'no-journal'
  /** The bytes differ from those that were written. */
  | 'damaged'
  /** A part that the journal refers to is missing: records, a segment, a checkpoint, a blob. */
  | 'missing'
  /** A newer version of Statelet wrote the journal. */
  | 'unsupported-version'
  /** Another process writes into this directory. */
  | 'owned'
  /** The directory, the key or the caller's request cannot be used. */
  | 'unusable';

export interface JournalPlace {
  readonly file: string;
  /** Line number, from 1. */
  readonly line?: number;
  /** Byte offset of the line in the (decompressed) file. */
  readonly offset?: number;
  readonly n?: number;
}

export class JournalError extends Error {
  readonly kind: JournalErrorKind;
  readonly place: JournalPlace;
  constructor(kind: JournalErrorKind, place: JournalPlace, sentence: string, cause?: unknown) {
    super(`${describe(place)}: ${sentence}`, cause === undefined ? {} : { cause });
    this.name = 'JournalError';
    this.kind = kind;
    this.place = place;
  }
}

function describe(place: JournalPlace): string {
  const parts = [place.file];
  if (place.line !== undefined) parts.push(`line ${place.line}`);
  if (place.offset !== undefined) parts.push(`byte ${place.offset}`);
  if (place.n !== undefined) parts.push(`record ${place.n}`);
  return parts.join(', ');
}
