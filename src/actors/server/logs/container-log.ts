/** Selects the bytes of a container's log for a client: upstream's filters in upstream's order. */
import { type Follow, linesOf, openLog, tailOffset } from './log-file.ts';

/** One line of a container's log in CRI format: `<RFC 3339 with nanoseconds> <stdout|stderr> <P|F> <content>`. Pure. */
type LogStream = 'stdout' | 'stderr';

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

const LINE_BREAK = 0x0a;

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
