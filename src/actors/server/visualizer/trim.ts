/**
 * Values as a page may show them: possible secrets are hidden, and large values are truncated. Pure.
 *
 * Hidden are environment variables, headers of probes and hooks, and passwords in addresses; Secrets of the API are
 * handles before. A value without hidden parts is returned unchanged. A truncated value is plain JSON of bounded size
 * and depth, whatever the input.
 */

/** Takes the place of a value. */
export const HIDDEN = '(hidden)';

/** Lists of pairs: in a container of Kubernetes and of the runtime, a probe or hook, manifests by URL. */
const PAIRS = new Set(['env', 'envs', 'httpHeaders', 'headers']);
/** Objects by name. */
const MAPS = new Set(['staticPodURLHeader', 'manifestURLHeader']);
/** Omitted: an applied manifest repeats the environment of its pod. */
const APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';
/** `NAME=value` in a list of texts, as in the environment of a process. */
const ASSIGNED = /^([A-Za-z_][\w.-]*)=/;
/** The user and password of an address; each part is bounded, so that the search is linear. */
const USER_INFO = /\b([a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/?#"]{1,1024}@/gi;

export function hidden(value: unknown): unknown {
  if (typeof value === 'string') return withoutPassword(value);
  if (typeof value !== 'object' || value === null) return value;
  return Array.isArray(value) ? items(value) : members(value);
}

function items(list: readonly unknown[]): readonly unknown[] {
  const kept = list.map(hidden);
  return kept.every((item, at) => item === list[at]) ? list : kept;
}

function members(object: object): object {
  const entries = Object.entries(object);
  const kept = entries.map(([name, member]) => ({ name, member, shown: ofMember(name, member) }));
  if (kept.every(({ member, shown }) => member === shown)) return object;
  return Object.fromEntries(kept.map(({ name, shown }) => [name, shown]));
}

function ofMember(name: string, member: unknown): unknown {
  if (PAIRS.has(name) && Array.isArray(member)) return member.map(withoutValue);
  if (MAPS.has(name) && typeof member === 'object' && member !== null) return withoutValues(member);
  if (name === APPLIED) return HIDDEN;
  return hidden(member);
}

function withoutValue(pair: unknown): unknown {
  if (typeof pair === 'string') {
    const name = ASSIGNED.exec(pair)?.[1];
    return name === undefined ? HIDDEN : `${name}=${HIDDEN}`;
  }
  if (typeof pair !== 'object' || pair === null) return pair;
  return 'value' in pair ? { ...(hidden(pair) as object), value: HIDDEN } : hidden(pair);
}

const withoutValues = (map: object): object => Object.fromEntries(Object.keys(map).map((name) => [name, HIDDEN]));

const withoutPassword = (text: string): string =>
  text.includes('://') ? text.replace(USER_INFO, `$1${HIDDEN}@`) : text;

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
  if (typeof value === 'string') return takeText(value, budget);
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
    kept.push([takeText(name, budget), trim(member, depth + 1, budget)]);
  }
  return Object.fromEntries(kept);
}

function takeText(text: string, budget: Budget): string {
  const short = shortText(text, TEXT_MAX_CHARS);
  budget.left -= short.length;
  return short;
}

export function shortText(text: string, maxChars: number): string {
  return text.length > maxChars ? `${text.slice(0, maxChars)}… (${text.length} characters)` : text;
}
