/**
 * `host.preparePod` and `host.removePod`: the folders and managed files of pods. `host.terminationMessage`: the final
 * message of a container.
 *
 * Decides: files outside the root are not touched (see `root-folder.ts`). Files are written in place, because
 * containers have them mounted. A folder with mounts below it is not removed: the mounted data does not belong to the
 * agent. As in the Go kubelet, a final message is the end of the message file, at most `maxBytes`; if that is empty and
 * a log is named, the end of the log, at most 80 lines and 2048 bytes. A missing file counts as empty; for an
 * unreadable file the message says so.
 *
 * The container wrote both files, so neither is trusted: only regular files are read, never through a link, and never
 * more than a fixed number of bytes.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  opendirSync,
  openSync,
  readFileSync,
  readSync,
  writeSync,
} from 'node:fs';
import { open, readFile, rm } from 'node:fs/promises';
import { normalize } from 'node:path';
import { setImmediate as nextRound } from 'node:timers/promises';
import { OperationError } from '../../kernel/json.ts';
import type { Port } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { hostOperations, NodeText } from '../../machines/model/operations/host.ts';
import { quote } from '../../machines/model/values/go-text.ts';
import { goError, missingText } from '../go-errors.ts';
import { parseMounts } from './kernel/mounts.ts';
import { makeFolder, openParent, RootFolder } from './root-folder.ts';

type Operations = typeof hostOperations;

const PARENT_MODE = 0o750;
const WRITE_FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const READ_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;
/** The agent writes no larger file: a larger file is replaced without comparison. */
const MAX_COMPARED_BYTES = 1_048_576;
/** Bytes read of the node's own hosts file. */
const NODE_FILE_BYTES_MAX = 10 * 1024 * 1024;

/**
 * Folders first, then files, all synchronously like the path resolution (`root-folder.ts`), because a pod waits for
 * them. They wait for the next round of the event loop, so that the other requests of the same turn, which threads and
 * the runtime work on, are on their way before.
 */
export const preparePod: Port<Operations['host.preparePod']> = async ({ input: { root, directories, files } }) => {
  await nextRound();
  const roots = new Map<string, RootFolder>();
  const below = (rootPath: string): RootFolder => {
    const known = roots.get(rootPath) ?? new RootFolder(rootPath, PARENT_MODE);
    roots.set(rootPath, known);
    return known;
  };
  const nextLogs: Record<string, number> = {};
  try {
    for (const directory of directories) {
      const folder = below(directory.root ?? root);
      makeManagedFolder(folder, directory);
      const next = directory.numbered === true ? nextLog(folder.to(directory.path)) : 0;
      if (next > 0) nextLogs[directory.path] = next;
    }
    for (const file of files) writeManagedFile(below(root), file);
  } finally {
    for (const each of roots.values()) each.close();
  }
  return Object.keys(nextLogs).length === 0 ? null : { nextLogs };
};

/** The name of a container's log, or of a part of it: its number is that of the restart. */
const LOG_NAME = /^(\d+)\.log(?:\..*)?$/s;
/** The limit of entries that are read: a container has a few logs, but a pod may have mounted the folder. */
const LOGS_READ_MAX = 10_000;
/** The limit of numbers that count as restarts, for which the API has 32 bits. */
const RESTARTS_MAX = 1_000_000_000;

/** The number after those of the logs in this folder; 0 without logs. */
function nextLog(place: string): number {
  const folder = opendirSync(place);
  let next = 0;
  try {
    for (let read = 0; read < LOGS_READ_MAX; read++) {
      const entry = folder.readSync();
      if (entry === null) break;
      const number = Number(LOG_NAME.exec(entry.name)?.[1] ?? -1);
      if (!entry.isDirectory() && number < RESTARTS_MAX) next = Math.max(next, number + 1);
    }
  } finally {
    folder.closeSync();
  }
  return next;
}

function makeManagedFolder(folder: RootFolder, { path, mode }: { path: string; mode: number }): void {
  const place = folder.to(path);
  try {
    makeFolder(place, mode);
  } catch (error) {
    throw named(error, path, 'a folder');
  }
}

interface ManagedFile {
  readonly path: string;
  readonly mode: number;
  readonly content: string | NodeText | null;
}

function bytesOf(content: string | NodeText): Buffer {
  if (typeof content === 'string') return Buffer.from(content);
  const { before, file, known, after } = content;
  return Buffer.concat([Buffer.from(before), bytesNow(file) ?? Buffer.from(known), Buffer.from(after)]);
}

/** `null`: the file cannot be read, is not regular, or is too large. */
function bytesNow(file: string): Buffer | null {
  try {
    const fd = openSync(file, READ_FLAGS);
    try {
      const found = fstatSync(fd);
      return found.isFile() && found.size <= NODE_FILE_BYTES_MAX ? readFileSync(fd) : null;
    } finally {
      closeSync(fd);
    }
  } catch {
    return null;
  }
}

function writeManagedFile(folder: RootFolder, { path, mode, content }: ManagedFile): void {
  const place = folder.to(path);
  try {
    const fd = openSync(place, WRITE_FLAGS, mode);
    try {
      const found = fstatSync(fd);
      if (!found.isFile()) throw new OperationError('it is not a regular file', { code: 'EEXIST' });
      if ((found.mode & 0o777) !== mode) fchmodSync(fd, mode);
      if (content !== null) replaceContent(fd, bytesOf(content), found.size);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    throw named(error, path, 'a regular file');
  }
}

function replaceContent(fd: number, content: Buffer, size: number): void {
  if (size === content.length && size <= MAX_COMPARED_BYTES) {
    const before = Buffer.alloc(size);
    if (readSync(fd, before, 0, size, 0) === size && before.equals(content)) return;
  }
  ftruncateSync(fd, 0);
  writeSync(fd, content, 0, content.length, 0);
}

function named(error: unknown, path: string, what: string): Error {
  const code = codeOf(error) ?? '';
  const why = messageOf(error);
  const isForeign = code === 'ELOOP' || code === 'ENOTDIR' || code === 'EISDIR' || code === 'ENXIO';
  return new OperationError(`cannot prepare ${path}: ${isForeign ? `it exists and is not ${what}` : why}`, { code });
}

export const removePod: Port<Operations['host.removePod']> = async ({ input: { root, paths } }) => {
  for (const path of paths) {
    const place = openParent(root, path);
    if (!place) continue;
    try {
      await refuseMounts(path);
      await rm(place.path, { recursive: true, force: true });
    } finally {
      place.folder.close();
    }
  }
  return null;
};

async function refuseMounts(path: string): Promise<void> {
  const folder = normalize(path).replace(/\/$/, '');
  const mounts = parseMounts(await readFile('/proc/self/mountinfo', 'utf8'));
  const mounted = mounts.find(({ point }) => point === folder || point.startsWith(`${folder}/`));
  if (!mounted) return;
  const message = `not removing ${path}: ${mounted.point} is still mounted, and what is there is not ours to delete`;
  throw new OperationError(message, { code: 'EBUSY', retriable: true });
}

const LOG_LINES = 80;
const LOG_BYTES = 2_048;
/**
 * How much of a log is read: enough for {@link LOG_LINES} short lines with timestamps, or for the last long lines,
 * because runtimes split lines at 16 KiB.
 */
const LOG_WINDOW_BYTES = 65_536;
/** Time, stream, tag, text: the line format of CRI logs. */
const LOG_LINE = /^\S+ (?:stdout|stderr) ([FP])(?::\S*)? (.*)$/s;

type Operation = (typeof hostOperations)['host.terminationMessage'];

export const terminationMessage: Port<Operation> = async ({ input: { file, logFile, maxBytes } }) => {
  try {
    const message = text(await readEnd(file, maxBytes));
    if (message !== '' || logFile === null) return { message };
  } catch (error) {
    if (!isMissing(error)) return { message: `Error on reading termination log ${file}: ${messageOf(error)}` };
  }
  if (logFile === null) return { message: '' };
  try {
    return { message: text(logTail(await readEnd(logFile, LOG_WINDOW_BYTES))) };
  } catch (error) {
    return { message: `Error on reading termination message from logs: ${await logReason(logFile, error)}` };
  }
};

/** As upstream: a missing log is noticed when links are resolved. */
const logReason = async (file: string, error: unknown): Promise<string> =>
  isMissing(error)
    ? `failed to try resolving symlinks in path ${quote(file)}: ${await missingText(file)}`
    : `failed to open log file ${quote(file)}: ${goError('open', file, error).message}`;

/** Whether the file is missing: a container may have removed it. */
const isMissing = (error: unknown): boolean => codeOf(error) === 'ENOENT';

async function readEnd(path: string, maxBytes: number): Promise<Buffer> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  try {
    const found = await handle.stat();
    if (!found.isFile()) throw new OperationError('it is not a regular file');
    const buffer = Buffer.alloc(Math.min(found.size, maxBytes));
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, found.size - buffer.length);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** The last lines of the container's output, without timestamps. Partial lines are joined. */
function logTail(window: Buffer): Buffer {
  const lines = window.toString('latin1').split('\n');
  if (lines.at(-1) === '') lines.pop();
  const pieces = lines.map((line) => {
    const [, tag = 'F', content = line] = LOG_LINE.exec(line) ?? [];
    return tag === 'P' ? content : `${content}\n`;
  });
  const ends = pieces.flatMap((piece, index) => (piece.endsWith('\n') ? [index] : []));
  const before = ends.at(-LOG_LINES - 1);
  const tail = pieces.slice(before === undefined ? 0 : before + 1).join('');
  return Buffer.from(tail.slice(-LOG_BYTES), 'latin1');
}

/** Matches the bytes of one character, or one byte that is part of no character. */
const CHARACTERS = new RegExp(
  [
    '[\\xc2-\\xdf][\\x80-\\xbf]',
    '\\xe0[\\xa0-\\xbf][\\x80-\\xbf]',
    '[\\xe1-\\xec\\xee\\xef][\\x80-\\xbf]{2}',
    '\\xed[\\x80-\\x9f][\\x80-\\xbf]',
    '\\xf0[\\x90-\\xbf][\\x80-\\xbf]{2}',
    '[\\xf1-\\xf3][\\x80-\\xbf]{3}',
    '\\xf4[\\x80-\\x8f][\\x80-\\xbf]{2}',
    '[\\x80-\\xff]',
  ].join('|'),
  'g',
);

/** Valid text; each invalid byte becomes one replacement character, as in JSON written by Go. */
const text = (bytes: Buffer): string =>
  bytes
    .toString('latin1')
    .replaceAll(CHARACTERS, (found) => (found.length === 1 ? '\uFFFD' : Buffer.from(found, 'latin1').toString()));
