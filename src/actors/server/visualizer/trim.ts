/** Truncates values for a page. The result is plain JSON of bounded size and depth, whatever the input. */

/** Characters of one text: a long log line or error, not a whole manifest. */
const TEXT_MAX_CHARS = 1_000;
/** Characters of one value including its parts, so that 2,000 records stay below 32 MB on the page. */
const VALUE_MAX_CHARS = 16_384;
/** The cost of a value besides its text: quotes, commas, the name of its type. */
const VALUE_COST_CHARS = 8;
/** Nested levels below an event: enough for a pod's container status. */
const DEPTH_MAX = 10;

interface Budget {
  left: number;
}

export function trimmed(value: unknown): unknown {
  return trim(value, 0, { left: VALUE_MAX_CHARS });
}

function trim(value: unknown, depth: number, budget: Budget): unknown {
  budget.left -= VALUE_COST_CHARS;
  if (typeof value === 'string') return paid(value, budget);
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= DEPTH_MAX) return '…';
  return Array.isArray(value) ? trimItems(value, depth, budget) : trimMembers(value, depth, budget);
}

function trimItems(items: readonly unknown[], depth: number, budget: Budget): unknown[] {
  const kept: unknown[] = [];
  for (const item of items) {
    if (budget.left <= 0) return [...kept, `… ${items.length - kept.length} more`];
    kept.push(trim(item, depth + 1, budget));
  }
  return kept;
}

function trimMembers(value: object, depth: number, budget: Budget): object {
  const members = Object.entries(value);
  const kept: [string, unknown][] = [];
  for (const [name, member] of members) {
    if (budget.left <= 0) {
      kept.push(['…', `${members.length - kept.length} more`]);
      break;
    }
    kept.push([paid(name, budget), trim(member, depth + 1, budget)]);
  }
  return Object.fromEntries(kept);
}

function paid(text: string, budget: Budget): string {
  const short = shortText(text, TEXT_MAX_CHARS);
  budget.left -= short.length;
  return short;
}

/** A text with its true length if it was truncated. */
export function shortText(text: string, maxChars: number): string {
  return text.length > maxChars ? `${text.slice(0, maxChars)}… (${text.length} characters)` : text;
}
