/**
 * Content negotiation: the interpretations of `Accept` and `Accept-Encoding` by upstream's libraries, each for its own
 * endpoints. Pure.
 */
import type { IncomingMessage } from 'node:http';

interface MediaRange {
  readonly type: string;
  readonly subtype: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly quality: number;
}

/** The first header of this name, as Go's `Get`; empty without one. Node joins several into one text. */
export function firstHeader({ rawHeaders }: IncomingMessage, name: string): string {
  const at = rawHeaders.findIndex((each, place) => place % 2 === 0 && each.toLowerCase() === name);
  return at < 0 ? '' : (rawHeaders[at + 1] ?? '').trim();
}

/**
 * The ranges of an `Accept` header, the most wanted first, and the most specific of equal ones. Malformed ranges are
 * skipped.
 */
export function mediaRanges(header: string): MediaRange[] {
  return header
    .split(',')
    .flatMap((text) => rangeOf(text) ?? [])
    .toSorted((one, other) => other.quality - one.quality || wildcards(one) - wildcards(other));
}

const wildcards = ({ type, subtype }: MediaRange): number => (type === '*' ? 2 : 0) + (subtype === '*' ? 1 : 0);

function rangeOf(text: string): MediaRange | null {
  const [name = '', ...rest] = text.split(';');
  const [type = '', subtype, ...more] = name.split('/').map((part) => part.trim());
  if (more.length > 0 || (subtype === undefined && type !== '*')) return null;
  const pairs = rest.map((pair) => pair.split('=')).filter(({ length }) => length === 2);
  const { q, ...parameters } = Object.fromEntries(pairs.map(([key = '', value = '']) => [key.trim(), value.trim()]));
  return { type, subtype: subtype ?? '*', parameters, quality: q === undefined ? 1 : Number.parseFloat(q) || 0 };
}

/** Whether `type/subtype` is in the range. */
export const covers = (range: MediaRange, type: string, subtype: string): boolean =>
  (range.type === type && (range.subtype === subtype || range.subtype === '*')) ||
  (range.type === '*' && range.subtype === '*');

/**
 * The inner router's own parsing: whole names only, whatever their quality. Without a header everything is accepted.
 */
export function takesOneOf(header: string, produced: readonly string[]): boolean {
  if (header === '') return true;
  return header.split(',').some((text) => {
    const [range = ''] = text.split(';', 1);
    const type = withoutSpaces(range);
    return type === '*/*' || produced.includes(type);
  });
}

/** Spaces only, as upstream's; a regular expression would retry at each space of a long run. */
function withoutSpaces(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && text[start] === ' ') start += 1;
  while (end > start && text[end - 1] === ' ') end -= 1;
  return text.slice(start, end);
}

/** For metrics: `gzip` only if the client prefers it to plain text. */
export function prefersGzip(header: string): boolean {
  const wanted = header.split(',').map((text) => {
    const [coding = '', quality] = text.split(';');
    const q = /^\s*q=(.*)$/.exec(quality ?? '')?.[1];
    return { coding: coding.trim(), quality: q === undefined ? 1 : Number.parseFloat(q) || 0 };
  });
  const best = (offer: string): number =>
    wanted.reduce(
      (most, { coding, quality }) => (coding === offer || coding === '*' ? Math.max(most, quality) : most),
      -1,
    );
  return best('gzip') > Math.max(0, best('identity'));
}
