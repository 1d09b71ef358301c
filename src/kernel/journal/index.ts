/** The journal's storage, as the rest of Statelet sees it. The format is told in `docs/journal.md`. */
export { JournalError, type JournalErrorKind, type JournalPlace } from './errors.ts';
export { type JournalOptions, openJournal } from './open.ts';
export type { JournalSink } from './sink.ts';
export type { JournalWriter, PreviousIncarnation, Report } from './writer.ts';
