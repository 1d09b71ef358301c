/**
 * The phases of a start as an image with one bar for each phase along a time axis. Pure.
 *
 * Invariants: the width is constant; the image has no script and no link; contents of the journal are text, never
 * markup; title and description contain the same information for screen readers.
 */
import { duration } from '../../visualizer/words.ts';
import { type StartupTime, startupTime } from './startup-time.ts';
import type { Story } from './story.ts';

const [WIDTH, NAMES_WIDTH, ROW, HEAD] = [1_000, 300, 20, 40];
const BAR_MIN = 2;
const STYLE = `text{font:12px sans-serif;fill:#1f2328}rect{fill:#4078c0}.open{fill:#bf8700}.failed{fill:#cf222e}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}}`;

/** Escapes markup, and removes characters that XML does not allow. */
const escaped = (text: string): string =>
  text
    .replace(/[<>&"']/g, (character) => `&#${character.charCodeAt(0)};`)
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, '\uFFFD');

export function plotOf(story: Story): string {
  const time = startupTime(story);
  const { phases, totalMs } = time;
  const scale = (WIDTH - NAMES_WIDTH) / Math.max(1, totalMs);
  const rows = phases.map(({ name, enteredMs, tookMs = 0, open }, row) => {
    const kind = name === time.failedIn ? 'failed' : open ? 'open' : 'done';
    const y = HEAD + row * ROW;
    const x = NAMES_WIDTH + enteredMs * scale;
    const width = Math.max(BAR_MIN, Math.min(tookMs * scale, WIDTH - x));
    const title = `${name}: from ${duration(enteredMs)}, ${duration(tookMs)}${kind === 'done' ? '' : `, ${kind}`}`;
    return (
      `<g><title>${escaped(title)}</title><text x="8" y="${y + 14}">${escaped(name)}</text>` +
      `<rect class="${kind}" x="${x.toFixed(1)}" y="${y + 4}" width="${width.toFixed(1)}" height="12"/></g>`
    );
  });
  const height = HEAD + phases.length * ROW + ROW / 2;
  const title = escaped(`Start ${time.incarnation} of ${story.header.node}: ${outcomeOf(time)}`);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="t d">`,
    `<title id="t">${title}</title>`,
    `<desc id="d">${escaped(phases.map(({ name, tookMs }) => `${name} ${duration(tookMs ?? 0)}`).join(', '))}</desc>`,
    `<style>${STYLE}</style>`,
    `<text x="8" y="20">${title}</text>`,
    ...rows,
    '</svg>\n',
  ].join('\n');
}

const outcomeOf = ({ complete, failure, totalMs }: StartupTime): string =>
  `${complete ? 'finished' : failure === undefined ? 'goes on' : 'failed'} after ${duration(totalMs)}`;
