/**
 * The few signs by which a line refers to what a segment already has; `docs/journal.md` says what each means.
 *
 *   "$3/event/pod"                  the value at that JSON pointer, three records before
 *   {"$":"3/event/pod","phase":…}   the object there, but for the members that follow
 *   "$$…"                           a text that begins with one dollar less
 *   {"$blob":…}                     a value in a file of its own
 *   "7=2/pod-web"                   the address 7 is `pod-web` below the address 2; from then on it is 7
 */
import type { JournalLine } from '../records.ts';

export const SIGN = '$';
/** In an object. */
export const BASE = '$';
export const BLOB = '$blob';

/** What may hold references, in any record but a header. */
export const VALUE_FIELDS = ['event', 'input', 'output', 'value', 'fields', 'error'] as const;
export const ADDRESS_FIELDS = ['at', 'from', 'to'] as const;
/** Their `cause` is written as the distance back; none is written where it is the record before. */
export const CAUSED: ReadonlySet<JournalLine['k']> = new Set(['message', 'effect']);

/** Members of an object that others may be like; copying more costs more than it saves. */
export const BASE_MAX_MEMBERS = 128;
/** Addresses that have a number in one segment; behind it all begin anew. */
export const ADDRESSES_MAX = 65_536;
/** Characters of an address that gets a number; those of containers have some hundred. */
export const ADDRESS_MAX_CHARS = 512;
/** The number that says: this address gets none. */
export const NO_NUMBER = 0;

export const escaped = (name: string): string =>
  name.includes('/') || name.includes('~') ? name.replaceAll('~', '~0').replaceAll('/', '~1') : name;
export const unescaped = (token: string): string => token.replaceAll('~1', '/').replaceAll('~0', '~');
