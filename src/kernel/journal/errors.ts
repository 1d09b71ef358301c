/** The faults that a journal can have, for a program (`kind`, `place`) and for a person (`message`). */

export type JournalErrorKind =
  /** There are no files that look like a journal. */
  | 'no-journal'
  /** Bytes are not what was written. */
  | 'damaged'
  /** A part that the journal refers to is missing: records, a segment, a checkpoint, a blob. */
  | 'missing'
  /** Written by a newer Statelet. */
  | 'unsupported-version'
  /** Another process writes this directory. */
  | 'owned'
  /** The directory, the key or the caller's request cannot be used. */
  | 'unusable';

/** Where in a journal. */
export interface JournalPlace {
  readonly file: string;
  /** From 1. */
  readonly line?: number;
  /** Byte offset of the line in the (decompressed) file. */
  readonly offset?: number;
  /** Number of the record. */
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
