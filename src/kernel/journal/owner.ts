/**
 * One writer for one directory.
 *
 * The lock is SQLite's exclusive lock on an empty database: a lock of the operating system, which ends with the process
 * that holds it however that process ends, and which holds across containers that share the directory. A file with a
 * process id would do neither. `owner.json` only shows users which process holds it.
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
  /** False when the directory was removed, or another is in its place: another agent may take that one. */
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
  const own = statSync(path);
  const isThere = (): boolean => {
    const there = statSync(path, { throwIfNoEntry: false });
    return there?.ino === own.ino && there.dev === own.dev;
  };
  return { isThere, release: () => database.close() };
}

/**
 * Whether a process writes this journal now. Tries the lock only while its holder seems to live, so as not to be in the
 * way.
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

/** Whether an agent began to write here and none does now: what has no end was not ended by it. A copy may not say. */
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
