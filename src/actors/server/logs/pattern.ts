/** Decides whether a pattern is one, and how Go's library says that it is none. The journal itself matches. Pure. */

/** `(?i)` and names of groups are written otherwise here. */
const asWrittenHere = (pattern: string): string =>
  pattern
    .replaceAll(/\(\?[imsU]+(?:-[imsU]+)?\)/g, '')
    .replaceAll('(?P<', '(?<')
    .replaceAll(/\(\?[imsU]+:/g, '(?:');

type Reason = readonly [said: RegExp, upstream: (pattern: string) => string];

const REASONS: readonly Reason[] = [
  [/Unterminated character class/, (pattern) => `missing closing ]: \`${openClass(pattern)}\``],
  [/Range out of order/, (pattern) => `invalid character class range: \`${outOfOrder(pattern)}\``],
  [/Unterminated group/, (pattern) => `missing closing ): \`${pattern}\``],
  [/Unmatched '\)'/, (pattern) => `unexpected ): \`${pattern}\``],
  [/Nothing to repeat/, (pattern) => repetition(pattern)],
  [/\\ at end of pattern/, () => 'trailing backslash at end of expression: ``'],
];

/** No person writes a longer one; the engine that compiles it here takes time for each character. */
const PATTERN_MAX_CHARS = 4_096;

/** `null`: it is one. */
export function patternProblem(pattern: string): string | null {
  if (pattern.length > PATTERN_MAX_CHARS) return 'expression too large';
  try {
    RegExp(asWrittenHere(pattern));
    return null;
  } catch (error) {
    const { message } = error as Error;
    const reason = REASONS.find(([said]) => said.test(message));
    return reason ? reason[1](pattern) : `invalid or unsupported Perl syntax: \`${pattern}\``;
  }
}

/** From the first bracket after the last one that closes. */
function openClass(pattern: string): string {
  const open = pattern.indexOf('[', pattern.lastIndexOf(']') + 1);
  return open < 0 ? pattern : pattern.slice(open);
}

function repetition(pattern: string): string {
  const nested = /[*+?]{2,}/.exec(pattern)?.[0];
  if (nested !== undefined && !pattern.startsWith(nested)) return `invalid nested repetition operator: \`${nested}\``;
  return `missing argument to repetition operator: \`${/[*+?]/.exec(pattern)?.[0] ?? ''}\``;
}

function outOfOrder(pattern: string): string {
  const ranges = [...pattern.matchAll(/(.)-(.)/g)];
  return ranges.find(([, low, high]) => low! > high!)?.[0] ?? pattern;
}
