/**
 * `$(NAME)` references in environment, command, arguments and sub-paths, and the handles of literal texts in a
 * container's definition: values of its variables, headers of its hooks, words of its command and of the commands of
 * its probes.
 *
 * Invariants: one pass from left to right, results are not expanded again; `$$` is a literal dollar; an unknown name
 * stays as written; the length of a result is checked before it is built, because variables that refer to each other
 * twice double with each line of a manifest; the ports replace every such text by a handle, so a handle's name in the
 * definition is this container's own.
 */
import type { SecretHandle } from '../../../kernel/xstate.ts';
import type { Container } from '../api/pod.ts';

/** MAX_ARG_STRLEN of Linux: a longer argument or variable would prevent the container from starting. */
export const EXPANDED_MAX_CHARS = 131_072;
/** Linux's limit for all arguments and variables of a program: three quarters of a stack of 8 MiB. */
export const EXPANDED_TOTAL_MAX_CHARS = 6_291_456;

/** The remaining growth of the expanded texts of one container. */
export class ExpansionRoom {
  #remainingChars = EXPANDED_TOTAL_MAX_CHARS;

  /** Throws an `Error` whose message is the container's waiting reason if `text` would be too long with `chars`. */
  check(text: string, chars: number): void {
    const limit = Math.min(EXPANDED_MAX_CHARS, this.#remainingChars);
    if (chars <= limit || chars <= text.length) return;
    const shown = text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}...` : text;
    throw new Error(`expanding ${JSON.stringify(shown)} gives more than the ${limit} characters that are left for it`);
  }

  use(text: string, chars: number): void {
    this.#remainingChars -= Math.max(0, chars - text.length);
  }
}

const SHOWN_CHARS = 64;

type Lookup = (name: string) => string | undefined;

/** `lookup` returns `undefined` for an unknown name. Throws if `room` is exhausted. */
export function expand(text: string, lookup: Lookup, room = new ExpansionRoom()): string {
  const pieces: string[] = [];
  const lastClosing = text.lastIndexOf(')');
  let length = 0;
  let from = 0;
  for (let dollar = text.indexOf('$'); dollar >= 0; dollar = text.indexOf('$', from)) {
    const reference = referenceAt(text, dollar, lastClosing, lookup);
    const before = text.slice(from, dollar);
    length += before.length + reference.value.length;
    room.check(text, length);
    pieces.push(before, reference.value);
    from = reference.end;
  }
  if (from === 0) return text;
  room.use(text, length);
  return pieces.join('') + text.slice(from);
}

/** Splits a text into references, doubled dollars and the text between, as {@link expand} reads them. */
export function piecesOf(text: string): readonly { readonly text: string; readonly isReference: boolean }[] {
  const pieces: { text: string; isReference: boolean }[] = [];
  const lastClosing = text.lastIndexOf(')');
  let literal = 0;
  let from = 0;
  for (let dollar = text.indexOf('$'); dollar >= 0; dollar = text.indexOf('$', from)) {
    const next = text[dollar + 1];
    from = next === '(' && dollar < lastClosing ? text.indexOf(')', dollar) + 1 : dollar + 2;
    if (next !== '$' && from === dollar + 2) continue;
    if (literal < dollar) pieces.push({ text: text.slice(literal, dollar), isReference: false });
    pieces.push({ text: text.slice(dollar, from), isReference: true });
    literal = from;
  }
  return literal < text.length ? [...pieces, { text: text.slice(literal), isReference: false }] : pieces;
}

/** The reference or doubled dollar at this position, and the index after it. */
function referenceAt(
  text: string,
  dollar: number,
  lastClosing: number,
  lookup: Lookup,
): { value: string; end: number } {
  const next = text[dollar + 1];
  if (next === '$') return { value: '$', end: dollar + 2 };
  if (next !== '(' || dollar > lastClosing) return { value: text.slice(dollar, dollar + 2), end: dollar + 2 };
  const closing = text.indexOf(')', dollar);
  return { value: lookup(text.slice(dollar + 2, closing)) ?? text.slice(dollar, closing + 1), end: closing + 1 };
}

/** As {@link expand}, where an unknown name or an empty value is an error; returns these names as well. */
export function expandStrictly(
  text: string,
  lookup: Lookup,
): { readonly text: string; readonly missing: readonly string[] } {
  const missing: string[] = [];
  const expanded = expand(text, (name) => {
    const value = lookup(name);
    if (value === undefined || value === '') missing.push(name);
    return value;
  });
  return { text: expanded, missing };
}

export const HANDLE_NAMES = /§[A-Za-z0-9_-]{22}/g;

/** Handles of variables and headers, each once. Their lengths are unknown. */
export function writtenHandles({ env = [], lifecycle = {} }: Container): readonly SecretHandle[] {
  const headers = [lifecycle.postStart, lifecycle.preStop].flatMap((hook) => hook?.httpGet?.httpHeaders ?? []);
  return handlesIn([...env, ...headers].flatMap(({ value }) => (value === undefined ? [] : [value])));
}

/** Handles of command and arguments, each once. An error may quote them: it names a program that does not exist. */
export const wordHandles = ({
  command = [],
  args = [],
}: Pick<Container, 'command' | 'args'>): readonly SecretHandle[] => handlesIn([...command, ...args]);

function handlesIn(texts: readonly string[]): readonly SecretHandle[] {
  const names = texts.flatMap((text) => (text.includes('§') ? (text.match(HANDLE_NAMES) ?? []) : []));
  return [...new Set(names)].map(($secret) => ({ $secret, len: 0 }));
}
