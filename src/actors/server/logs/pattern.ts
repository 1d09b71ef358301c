/** Decides whether a pattern is one, and how Go's library says that it is none. The journal itself matches. Pure. */

/** `(?i)` and names of groups are written otherwise here. */
const asWrittenHere = (pattern: string): string =>
  pattern
    .replaceAll(/\(\?[imsU]+(?:-[imsU]+)?\)/g, '')
    .replaceAll('(?P<', '(?<')
    .replaceAll(/\(\?[imsU]+:/g, '(?:');

type Reason = readonly [said: RegExp, upstream: (pattern: string) => string];

const REASONS: readonly Reason[] = [
  [/Unterminated character class/, (pattern) => `missing closing ]: \`${/\[[^\]]*$/.exec(pattern)?.[0] ?? pattern}\``],
  [/Range out of order/, (pattern) => `invalid character class range: \`${outOfOrder(pattern)}\``],
  [/Unterminated group/, (pattern) => `missing closing ): \`${pattern}\``],
  [/Unmatched '\)'/, (pattern) => `unexpected ): \`${pattern}\``],
  [/Nothing to repeat/, (pattern) => repetition(pattern)],
  [/\\ at end of pattern/, () => 'trailing backslash at end of expression: ``'],
];

/** `null`: it is one. */
export function patternProblem(pattern: string): string | null {
  try {
    RegExp(asWrittenHere(pattern));
    return null;
  } catch (error) {
    const { message } = error as Error;
    const reason = REASONS.find(([said]) => said.test(message));
    return reason ? reason[1](pattern) : `invalid or unsupported Perl syntax: \`${pattern}\``;
  }
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
