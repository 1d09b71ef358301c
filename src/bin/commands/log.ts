/**
 * `statelet log JOURNAL`: the records, filtered. JSON is one object a line. `--follow` prints new records while the
 * daemon writes them.
 */

import { statSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { segmentsIn } from '../../kernel/journal/layout.ts';
import { exitCodes } from '../exit-codes.ts';
import { insight, journalAt, placeOf, refuse } from '../insight/command.ts';
import { describeLog, type LogEntry, type LogFilters, logOf, wrongFilter } from '../insight/log.ts';
import type { Story } from '../insight/story.ts';
import { printableJson } from '../printable.ts';

export interface LogOptions extends LogFilters {
  readonly incarnation?: string;
  readonly output: string;
}

/** Between two polls; a user perceives it as immediate. */
const POLL_MS = 500;
/** A growing journal is read again: a long one less often, so that this takes a sixth of the time. */
const POLL_COST = 5;

export function logCommand(log: string, options: LogOptions): number {
  const wrong = usageError(options);
  return wrong === undefined ? print(log, options, () => true) : refuse('log', wrong, exitCodes.usage);
}

function usageError(options: LogOptions): string | undefined {
  const { output } = options;
  if (output !== 'text' && output !== 'json') return `--output is text or json, not ${JSON.stringify(output)}`;
  return wrongFilter(options);
}

/** Until `signal`, or the end of the process. */
export async function followLog(log: string, options: LogOptions, signal?: AbortSignal): Promise<number> {
  const wrong = usageError(options);
  if (wrong !== undefined) return refuse('log', wrong, exitCodes.usage);
  const { incarnation } = options;
  if (incarnation !== undefined || placeOf(log).incarnation !== undefined) {
    return refuse('log', '--follow is of the newest start: leave its number out', exitCodes.usage);
  }
  const printedUntil = { incarnation: '', n: -1, size: '' };
  const isNew = ({ record }: LogEntry, { header }: Story): boolean => {
    if (header.incarnation !== printedUntil.incarnation)
      Object.assign(printedUntil, { incarnation: header.incarnation, n: -1 });
    if (record.n <= printedUntil.n) return false;
    printedUntil.n = record.n;
    return true;
  };
  const isOver = (): boolean => signal?.aborted === true;
  while (!isOver()) {
    const beganMs = performance.now();
    const size = sizeOf(log);
    if (size !== printedUntil.size) {
      const code = print(log, options, isNew);
      if (code !== exitCodes.same) return code;
    }
    printedUntil.size = size;
    const tookMs = performance.now() - beganMs;
    await pause(Math.max(POLL_MS, tookMs * POLL_COST), undefined, { ...(signal && { signal }) }).catch(() => undefined);
  }
  return exitCodes.same;
}

/** Changes when something is written. */
const sizeOf = (log: string): string =>
  (statSync(log, { throwIfNoEntry: false })?.isDirectory() ? segmentsIn(log).map(({ path }) => path) : [log])
    .map((path) => `${path} ${statSync(path, { throwIfNoEntry: false })?.size}`)
    .join();

function print(log: string, options: LogOptions, isWanted: (entry: LogEntry, story: Story) => boolean): number {
  const { output, incarnation } = options;
  const chosen = { format: 'text', ...(incarnation === undefined ? {} : { incarnation }) };
  return insight('log', [log], chosen, (story) => {
    const found = logOf(story, journalAt(log, incarnation).records, options);
    if (typeof found === 'string') return found;
    const entries = found.filter((entry) => isWanted(entry, story));
    const lines = entries.map((entry) => `${printableJson(entry)}\n`);
    return { json: null, text: output === 'json' ? lines.join('') : describeLog(entries) };
  });
}
