/** The journal's storage, as the rest of Statelet sees it. The format is described in `docs/journal.md`. */
export { JournalError, type JournalErrorKind, type JournalPlace } from './errors.ts';
export { type JournalOptions, openJournal } from './open.ts';
export { type Journal, type ReadOptions, readJournal, type StoredCheckpoint } from './reader.ts';
export { isSecretHandle, openVault, type SecretHandle, Vault } from './secrets.ts';
export type { TornTail } from './sequence.ts';
export { type IncarnationReport, type JournalReport, verifyJournal } from './verify.ts';
export type { JournalSink, JournalWriter, PreviousIncarnation, Report } from './writer.ts';
