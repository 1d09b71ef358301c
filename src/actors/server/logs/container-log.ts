/** Decides which bytes of a container's log a client gets: upstream's filters in upstream's order. */
import { type CriLine, fixedTime, type LogStream, nanoseconds, parseCriLine } from './cri-line.ts';
import { type Follow, linesOf, openLog, tailOffset } from './log-file.ts';

export interface LogOptions {
  /** Nanoseconds since the epoch: nothing older. */
  readonly since: bigint | null;
  /** Last lines as they are in the file: a long line counts once for each of its pieces. */
  readonly tail: number | null;
  readonly limitBytes: number | null;
  readonly timestamps: boolean;
  readonly streams: readonly LogStream[];
}

const LINE_BREAK = 0x0a;

/** Ends when the log ends, the limit is reached, or its last reader left. */
export async function* containerLog(path: string, options: LogOptions, follow?: Follow): AsyncGenerator<Buffer> {
  const handle = await openLog(path);
  const from = options.tail === null ? 0 : await tailOffset(handle, options.tail);
  let lines = options.tail === null || follow ? Number.POSITIVE_INFINITY : options.tail;
  let left = options.limitBytes ?? Number.POSITIVE_INFINITY;
  let isNewLine = true;
  for await (const bytes of linesOf(path, from, handle, follow)) {
    if (lines-- <= 0) return;
    const line = parseCriLine(bytes);
    if (!line) continue;
    const written = isWanted(line, options) ? shown(line, options.timestamps && isNewLine) : null;
    isNewLine = line.content.at(-1) === LINE_BREAK;
    if (!written) continue;
    const cut = written.subarray(0, Math.min(written.length, left));
    left -= cut.length;
    yield cut;
    if (left <= 0) return;
  }
}

const isWanted = ({ time, stream }: CriLine, { since, streams }: LogOptions): boolean =>
  streams.includes(stream) && (since === null || nanoseconds(time)! >= since);

const shown = ({ time, content }: CriLine, withTime: boolean): Buffer =>
  withTime ? Buffer.concat([Buffer.from(`${fixedTime(time)} `), content]) : content;
