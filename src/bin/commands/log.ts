/** `statelet log JOURNAL`: the records, filtered. JSON is one object a line. */
import { exitCodes } from '../exit-codes.ts';
import { insight, journalAt, refuse } from '../insight/command.ts';
import { describeLog, type LogFilters, logOf, wrongFilter } from '../insight/log.ts';
import { printableJson } from '../printable.ts';

export interface LogOptions extends LogFilters {
  readonly incarnation?: string;
  readonly output: string;
}

export function logCommand(log: string, options: LogOptions): number {
  const { output, incarnation } = options;
  if (output !== 'text' && output !== 'json') {
    return refuse('log', `--output is text or json, not ${JSON.stringify(output)}`, exitCodes.usage);
  }
  const wrong = wrongFilter(options);
  if (wrong !== undefined) return refuse('log', wrong, exitCodes.usage);
  const chosen = { format: 'text', ...(incarnation === undefined ? {} : { incarnation }) };
  return insight('log', [log], chosen, (story) => {
    const entries = logOf(story, journalAt(log, incarnation).records, options);
    if (typeof entries === 'string') return entries;
    const lines = entries.map((entry) => `${printableJson(entry)}\n`);
    return { json: null, text: output === 'json' ? lines.join('') : describeLog(entries) };
  });
}
