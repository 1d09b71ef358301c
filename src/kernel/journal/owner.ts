/**
 * Ensures that a directory has one writer.
 *
 * The lock is SQLite's exclusive lock on an empty database: a lock of the operating system, which is released however
 * the holding process ends, and which works across containers that share the directory. A PID file would do neither.
 * `owner.json` only shows users which process holds it.
 */
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { memberOf } from '../json.ts';
import { messageOf } from '../thrown.ts';
import { JournalError } from './errors.ts';

/** SQLITE_BUSY: another process has the lock. */
const BUSY = 5;

export interface Owner {
  /** False if the directory was removed or replaced: another agent may own the new one. */
  isThere(): boolean;
  release(): void;
}

export function takeOwnership(directory: string): Owner {
  const path = join(directory, 'owner.lock');
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec('PRAGMA journal_mode=MEMORY; PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    if (memberOf(error, 'errcode') !== BUSY) throw error;
    const sentence = `${holder(directory)} is writing this journal; stop it or choose another directory`;
    throw new JournalError('owned', { file: directory }, sentence);
  }
  introduce(directory);
  const ownFile = statSync(path);
  const isThere = (): boolean => {
    const there = statSync(path, { throwIfNoEntry: false });
    return there?.ino === ownFile.ino && there.dev === ownFile.dev;
  };
  return { isThere, release: () => database.close() };
}

/**
 * Whether a process writes this journal now. The lock is tried only if the recorded holder seems to be alive, so that
 * the attempt does not block an agent that starts.
 */
export function isBeingWritten(directory: string): boolean {
  let database: DatabaseSync | undefined;
  try {
    process.kill(Number(JSON.parse(readFileSync(join(directory, 'owner.json'), 'utf8')).pid), 0);
    database = new DatabaseSync(join(directory, 'owner.lock'), { readOnly: true, timeout: 0 });
    database.prepare('SELECT * FROM sqlite_master').all();
    return false;
  } catch (error) {
    return memberOf(error, 'errcode') === BUSY;
  } finally {
    database?.close();
  }
}

/** Whether an agent wrote here and no agent does now: turns without an end were interrupted. Unknown for a copy. */
export const wasAbandoned = (directory: string): boolean =>
  existsSync(join(directory, 'owner.json')) && !isBeingWritten(directory);

function introduce(directory: string): void {
  try {
    writeFileSync(join(directory, 'owner.json'), `${JSON.stringify({ pid: process.pid, title: process.title })}\n`);
  } catch (error) {
    process.emitWarning(`the journal's owner.json could not be written: ${messageOf(error)}`);
  }
}

function holder(directory: string): string {
  try {
    const { pid, title } = JSON.parse(readFileSync(join(directory, 'owner.json'), 'utf8'));
    return `process ${Number(pid)} (${String(title)})`;
  } catch {
    return 'another process';
  }
}
