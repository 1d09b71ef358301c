/**
 * The report as Markdown: a line with the totals, a table of the logs that are not the same, and the first differences
 * in full.
 *
 * Invariants: contents of a log are text, never a link, an image, a mention, HTML or the end of a cell or block; the
 * whole stays below the 1 MiB that GitHub shows of a step's summary.
 */
import { shortText } from '../../actors/server/visualizer/trim.ts';
import { printable } from '../printable.ts';
import { type Outcome, totalsOf } from './outcome.ts';
import { describeOutcome } from './text.ts';

const ROWS_MAX = 500;
const DETAILS_MAX = 30;
const CELL_MAX_CHARS = 300;
const DETAIL_MAX_CHARS = 8_000;

export function markdownReport(outcomes: readonly Outcome[]): string {
  const found = outcomes.filter(({ verdict }) => verdict !== 'same');
  const counted = Object.entries(totalsOf(outcomes)).filter(([, count]) => count > 0);
  const totals = counted.map(([verdict, count]) => `${count} ${verdict}`).join(', ') || 'no log';
  const head = `### statelet replay: ${totals}\n`;
  if (found.length === 0) return `${head}\n`;
  const rows = found.slice(0, ROWS_MAX).map(rowOf);
  const more = found.length > ROWS_MAX ? `\n${found.length - ROWS_MAX} more logs are not the same.\n` : '';
  const details = found.filter(({ divergence }) => divergence).slice(0, DETAILS_MAX);
  const table = `\n| log | outcome | code | first difference |\n| --- | --- | --: | --- |\n${rows.join('')}`;
  return `${head}${table}${more}${details.map(detailsOf).join('')}\n`;
}

function rowOf({ log, verdict, code, error, divergence }: Outcome): string {
  const what = divergence ? `record ${divergence.n} of turn ${divergence.turn}: ${divergence.kind}` : (error ?? '');
  return `| ${cell(log)} | ${verdict} | ${code} | ${cell(what)} |\n`;
}

function detailsOf(outcome: Outcome): string {
  const text = shortText(printable(describeOutcome(outcome)).trimEnd(), DETAIL_MAX_CHARS);
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `\n<details><summary>${cell(outcome.log)}</summary>\n\n${fence}text\n${text}\n${fence}\n\n</details>\n`;
}

/** Replaces characters with a meaning in Markdown by character references. */
const cell = (text: string): string =>
  printable(shortText(text, CELL_MAX_CHARS))
    .replace(/[\\`*_[\]<>|~&@#$]|(?<=:)\//g, (character) => `&#${character.charCodeAt(0)};`)
    .replaceAll('\n', ' ');
