/**
 * Reads log files: from a line near the end forwards, across rotations, until cancelled; and the format of container
 * logs.
 *
 * Owns: the open file. Invariants: at most one chunk and one line are in memory, and a line is at most {@link
 * LINE_MAX_BYTES}; links are not followed; a replaced file is read to its end first.
 */
import { constants, type FSWatcher, type Stats, watch } from 'node:fs';
import { type FileHandle, open, readlink, realpath, stat } from 'node:fs/promises';
import { dirname, sep } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { O_PATH } from '../../host/root-folder.ts';

const CHUNK_BYTES = 64 * 1024;
/** Runtimes split lines at 16 KiB; a longer one was not written by a runtime and is returned in pieces. */
export const LINE_MAX_BYTES = 1024 * 1024;
/** The period of reading if file system notifications are lost. */
const POLL_MS = 1_000;
/** How often a file is looked up that is missing after a rotation, until the runtime reopens it. */
const ROTATION_MS = 100;
const LINE_BREAK = 0x0a;

interface Follow {
  readonly signal: AbortSignal;
  /** Whether the container runs; when it has stopped, no further output is awaited. */
  isRunning(): boolean | Promise<boolean>;
}

export async function openLog(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const info = await handle.stat();
  if (info.isFile()) return handle;
  await handle.close();
  throw Object.assign(new Error(`${path} is not a file`), { code: 'EINVAL' });
}

/** Byte offset of the last `lines` lines; a last line without a break counts. */
export async function tailOffset(handle: FileHandle, lines: number): Promise<number> {
  const { size } = await handle.stat();
  if (lines === 0) return size;
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let found = 0;
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - CHUNK_BYTES);
    const { bytesRead } = await handle.read(chunk, 0, end - start, start);
    if (bytesRead === 0) return 0;
    for (let at = bytesRead - 1; at >= 0; at--) {
      const isLastByte = start + at === size - 1;
      if (chunk[at] === LINE_BREAK && !isLastByte && ++found === lines) return start + at + 1;
    }
    end = start;
  }
  return 0;
}

/**
 * The lines with their line breaks, which the last line may lack. Without `follow` the iteration ends at the end of the
 * file.
 */
export async function* linesOf(
  path: string,
  from: number,
  opened: FileHandle,
  follow?: Follow,
): AsyncGenerator<Buffer> {
  let handle = opened;
  let position = from;
  let rest: Buffer = Buffer.alloc(0);
  let newer: FileHandle | null = null;
  const changes = follow && changesBelow(dirname(path), follow.signal);
  try {
    for (;;) {
      const wasRunning = (await follow?.isRunning()) ?? false;
      const chunk = await chunkAt(handle, position);
      position += chunk.length;
      const lines = split(rest, chunk);
      rest = lines.rest;
      yield* lines.whole;
      if (chunk.length > 0) continue;
      if (newer) {
        await handle.close();
        [handle, position, newer] = [newer, 0, null];
        continue;
      }
      // The runtime wrote to this file until the new file existed: the end of this file is read once more.
      newer = changes ? await replacement(path, handle) : null;
      if (newer) continue;
      if (!follow || !changes || follow.signal.aborted || !wasRunning) break;
      await changes.next();
    }
    if (rest.length > 0) yield rest;
  } finally {
    changes?.close();
    await handle.close();
    await newer?.close();
  }
}

async function chunkAt(handle: FileHandle, position: number): Promise<Buffer> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, position);
  return chunk.subarray(0, bytesRead);
}

function split(rest: Buffer, chunk: Buffer): { whole: Buffer[]; rest: Buffer } {
  const whole: Buffer[] = [];
  let text = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
  for (let end = text.indexOf(LINE_BREAK); end >= 0; end = text.indexOf(LINE_BREAK)) {
    whole.push(text.subarray(0, end + 1));
    text = text.subarray(end + 1);
  }
  if (text.length <= LINE_MAX_BYTES) return { whole, rest: text };
  return { whole: [...whole, text], rest: Buffer.alloc(0) };
}

/** The file that now has the log's name, if it is a different file. */
async function replacement(path: string, handle: FileHandle): Promise<FileHandle | null> {
  const [now, then] = await Promise.all([stat(path).catch(() => null), handle.stat()]);
  if (now && now.ino === then.ino && now.dev === then.dev) return null;
  if (now) return await openLog(path).catch(() => null);
  await pause(ROTATION_MS);
  return null;
}

/** Resolves when something below the folder changed since it last resolved, or after a timeout. */
function changesBelow(directory: string, signal: AbortSignal) {
  let wake: () => void = () => {};
  let changed = false;
  const notify = () => {
    changed = true;
    wake();
  };
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(directory, notify).on('error', () => {});
  } catch {
    // Without notifications the file is polled.
  }
  signal.addEventListener('abort', notify, { once: true });
  return {
    async next(): Promise<void> {
      if (!changed) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, POLL_MS);
          wake = () => (clearTimeout(timer), resolve());
        });
      }
      changed = false;
    },
    close(): void {
      watcher?.close();
      signal.removeEventListener('abort', notify);
    },
  };
}

export interface OpenedPlace {
  /** Leads to the opened file while `handle` is open, even if it is renamed. */
  readonly path: string;
  /** The path of the file at the time of opening, without links. */
  readonly realPath: string;
  readonly info: Stats;
  readonly handle: FileHandle;
}

/**
 * The file or folder at `path`, or `null` if it is outside of the `roots`. The caller closes its `handle`. Links among
 * the roots themselves are followed.
 *
 * Invariant: the served file is the checked one. A pod that writes into the folder may redirect a name at any moment,
 * so the file is first opened with O_PATH, which does not allow reading, and then its location is checked. FIFOs and
 * devices are never opened for reading.
 */
export async function openBelow(path: string, roots: readonly string[]): Promise<OpenedPlace | null> {
  if (path.includes('\0')) return null;
  const handle = await open(path, O_PATH).catch(() => null);
  if (handle === null) return null;
  const place = await described(handle, roots).catch(() => null);
  if (place === null) await handle.close();
  return place;
}

async function described(handle: FileHandle, roots: readonly string[]): Promise<OpenedPlace | null> {
  const path = `/proc/self/fd/${handle.fd}`;
  const [realPath, info, ...folders] = await Promise.all([
    readlink(path),
    handle.stat(),
    ...roots.map((root) => realpath(root).catch(() => null)),
  ]);
  if (!info.isFile() && !info.isDirectory()) return null;
  const isBelow = folders.some((root) => root !== null && (realPath === root || realPath.startsWith(root + sep)));
  return isBelow ? { path, realPath, info, handle } : null;
}

type LogStream = 'stdout' | 'stderr';

/** One line of a container's log in CRI format: `<RFC 3339 with nanoseconds> <stdout|stderr> <P|F> <content>`. */
export interface CriLine {
  /** The time as written by the runtime. */
  readonly time: string;
  readonly stream: LogStream;
  /** The content with its line break, unless the line is partial. */
  readonly content: Buffer;
}

const SPACE = 0x20;

/** Parses a line with or without its break; `null` if it is not in this format. */
export function parseCriLine(line: Buffer): CriLine | null {
  const first = line.indexOf(SPACE);
  const second = line.indexOf(SPACE, first + 1);
  const third = line.indexOf(SPACE, second + 1);
  if (first < 0 || second < 0 || third < 0) return null;
  const time = line.toString('latin1', 0, first);
  const stream = line.toString('latin1', first + 1, second);
  const tags = line.toString('latin1', second + 1, third).split(':');
  if (nanoseconds(time) === null || (stream !== 'stdout' && stream !== 'stderr')) return null;
  const isPartial = tags[0] === 'P';
  const isBroken = line.at(-1) === LINE_BREAK;
  return { time, stream, content: line.subarray(third + 1, isPartial && isBroken ? -1 : line.length) };
}

const NANOSECONDS = 1_000_000n;
const MS_PER_MINUTE = 60_000;
const RFC3339 = /^(\d{4}-\d\d-\d\d)T(\d\d?:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)$/;

/** Nanoseconds since the epoch, or `null` if Go reads no RFC 3339 time in the text (an hour may have one digit). */
export function nanoseconds(text: string): bigint | null {
  const [, date, time = '', fraction = '', zone = 'Z'] = RFC3339.exec(text) ?? [];
  if (date === undefined || time.startsWith('24')) return null;
  const milliseconds = Date.parse(`${date}T${time.padStart('00:00:00'.length, '0')}Z`);
  const offset = minutesOf(zone);
  if (Number.isNaN(milliseconds) || offset === null || !isDay(date)) return null;
  return BigInt(milliseconds - offset * MS_PER_MINUTE) * NANOSECONDS + BigInt(fraction.slice(0, 9).padEnd(9, '0'));
}

/** The offset of a zone from UTC, or `null` beyond 24 hours and 60 minutes. */
function minutesOf(zone: string): number | null {
  if (zone === 'Z') return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(4))];
  if (hours > 24 || minutes > 60) return null;
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes);
}

/** Whether the date exists: JavaScript reads February 30 as a day of March, Go rejects it. */
function isDay(date: string): boolean {
  return new Date(`${date}T00:00:00Z`).toISOString().startsWith(date);
}

/** The same time with nine digits of fraction, for clients. */
export function fixedTime(text: string): string {
  const [, date, time, fraction = '', zone] = RFC3339.exec(text) ?? [];
  return `${date}T${time}.${fraction.slice(0, 9).padEnd(9, '0')}${zone}`;
}

export interface LogOptions {
  /** Nanoseconds since the epoch: older lines are skipped. */
  readonly since: bigint | null;
  /** The last lines of the file: a long line counts once for each of its pieces. */
  readonly tail: number | null;
  readonly limitBytes: number | null;
  readonly timestamps: boolean;
  readonly streams: readonly LogStream[];
}

/** The bytes of a log. Ends when the log ends, the limit is reached, or the reader disconnects. */
export async function* containerLog(path: string, options: LogOptions, follow?: Follow): AsyncGenerator<Buffer> {
  const handle = await openLog(path);
  const from = options.tail === null ? 0 : await tailOffset(handle, options.tail);
  let lines = options.tail === null || follow ? Number.POSITIVE_INFINITY : options.tail;
  let remainingBytes = options.limitBytes ?? Number.POSITIVE_INFINITY;
  let isNewLine = true;
  for await (const bytes of linesOf(path, from, handle, follow)) {
    if (lines-- <= 0) return;
    const line = parseCriLine(bytes);
    if (!line) continue;
    const written = isWanted(line, options) ? shown(line, options.timestamps && isNewLine) : null;
    isNewLine = line.content.at(-1) === LINE_BREAK;
    if (!written) continue;
    const cut = written.subarray(0, Math.min(written.length, remainingBytes));
    remainingBytes -= cut.length;
    yield cut;
    if (remainingBytes <= 0) return;
  }
}

const isWanted = ({ time, stream }: CriLine, { since, streams }: LogOptions): boolean =>
  streams.includes(stream) && (since === null || nanoseconds(time)! >= since);

const shown = ({ time, content }: CriLine, withTime: boolean): Buffer =>
  withTime ? Buffer.concat([Buffer.from(`${fixedTime(time)} `), content]) : content;
