/**
 * `host.terminationMessage`: the final message of a container.
 *
 * Decides, as the Go kubelet does: the end of the message file, at most `maxBytes`; when that is empty and a log is
 * named, the end of the log, at most 80 lines and 2048 bytes. A missing file counts as empty; for an unreadable one the
 * message says so.
 *
 * The container wrote both files, so neither is trusted: only regular files are read, never through a link, and never
 * more than a fixed number of bytes however large they are.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { OperationError } from '../../../kernel/json.ts';
import type { Port } from '../../../kernel/operation.ts';
import { messageOf } from '../../../kernel/thrown.ts';
import type { hostOperations } from '../../../machines/model/operations/host.ts';
import { quote } from '../../../machines/model/values/go-text.ts';
import { goError, missingText } from '../../go-errors.ts';
import { errnoOf } from '../root-folder.ts';

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
    if (!isMissing(error)) return { message: `Error on reading termination log ${file}: ${reason(error)}` };
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
    : `failed to open log file ${quote(file)}: ${isSystem(error) ? goError('open', file, error).message : reason(error)}`;

const isSystem = (error: unknown): boolean => errnoOf(error) !== undefined;

/** Whether the file is missing: a container may have removed it. */
const isMissing = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT';

const reason = (error: unknown): string => messageOf(error);

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
