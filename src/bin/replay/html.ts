/**
 * The report as an HTML page: totals, a row for each log, and the first difference of each in full. It is one file
 * without scripts and external resources, so a CI can keep it as an artifact.
 *
 * Invariant: contents of a log are text, never markup.
 */
import { shortText } from '../../actors/server/visualizer/trim.ts';
import { inText as text } from './junit.ts';
import { type Outcome, totalsOf } from './outcome.ts';
import { describeOutcome } from './text.ts';

const DETAILS_MAX = 200;
const DETAIL_MAX_CHARS = 20_000;
const CELL_MAX_CHARS = 300;

const STYLE = `
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
th, td { padding: .35rem .6rem; text-align: left; }
td { overflow-wrap: anywhere; vertical-align: top; }
pre { overflow-x: auto; padding: 1rem; border: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
.same { color: light-dark(#0a6b2d, #6fdc95); }
.other { color: light-dark(#a3170f, #ff9a90); font-weight: 600; }
`;

export function htmlReport(outcomes: readonly Outcome[]): string {
  const counts = Object.entries(totalsOf(outcomes)).filter(([, count]) => count > 0);
  const totals = counts.map(([verdict, count]) => `${count} ${verdict}`).join(', ') || 'no log';
  const found = outcomes.filter(({ verdict }) => verdict !== 'same');
  return [
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">\n`,
    `<title>statelet replay: ${text(totals)}</title>\n<style>${STYLE}</style>\n</head>\n<body>\n<main>\n`,
    `<h1>statelet replay: ${text(totals)}</h1>\n`,
    '<table>\n<caption>Every log</caption>\n<thead><tr><th scope="col">Log</th><th scope="col">Outcome</th>',
    '<th scope="col">Code</th><th scope="col">First difference</th></tr></thead>\n<tbody>\n',
    ...outcomes.map(rowOf),
    '</tbody>\n</table>\n',
    ...found.slice(0, DETAILS_MAX).map(detailsOf),
    found.length > DETAILS_MAX ? `<p>${found.length - DETAILS_MAX} more logs are not the same.</p>\n` : '',
    '</main>\n</body>\n</html>\n',
  ].join('');
}

function rowOf({ log, verdict, code, error, divergence }: Outcome): string {
  const summary = divergence ? `record ${divergence.n} of turn ${divergence.turn}: ${divergence.kind}` : (error ?? '');
  const cssClass = verdict === 'same' ? 'same' : 'other';
  const cells = [
    `<td>${cell(log)}</td>`,
    `<td class="${cssClass}">${verdict}</td>`,
    `<td>${code}</td>`,
    `<td>${cell(summary)}</td>`,
  ];
  return `<tr>${cells.join('')}</tr>\n`;
}

const detailsOf = (outcome: Outcome): string =>
  `<section>\n<h2>${cell(outcome.log)}</h2>\n<pre tabindex="0">${text(shortText(describeOutcome(outcome).trimEnd(), DETAIL_MAX_CHARS))}</pre>\n</section>\n`;

const cell = (content: string): string => text(shortText(content, CELL_MAX_CHARS));
