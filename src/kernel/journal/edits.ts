/**
 * What changed in a long list or a large object since the value at the same position of an earlier record: the pods of
 * a node change one by one, and so does every value with an entry for each pod.
 *
 * Owns: the last collection at each position. A written value is never mutated, so an unchanged item is usually the
 * same object; items that were made anew are compared by their JSON.
 */
import type { JournalRecord } from '../records.ts';
import { BASE_MAX_MEMBERS, SPLICED, WITHOUT } from './references.ts';

/** Smaller collections are written in full: their items are references already. */
export const ITEMS_MIN = 12;
/** Positions whose last collection is kept. */
const POSITIONS_MAX = 64;

export type Members = Readonly<Record<string, unknown>>;

/** A list or object with the names of its members, which a list does not have. */
export interface Collection {
  readonly value: Members | readonly unknown[];
  readonly names: readonly string[] | undefined;
}

/** From `at` on, `removed` items of the earlier list are replaced by the items before `end` of the new one. */
interface ListEdit {
  readonly at: number;
  readonly removed: number;
  readonly end: number;
}

/** Names of the members that are gone, and of those that are changed or new, in this order. */
interface ObjectEdit {
  readonly removed: readonly string[];
  readonly given: readonly string[];
}

export type Edit = ListEdit | ObjectEdit;

interface Written<Place> extends Collection {
  readonly place: Place;
  /** Whether it was written as an edit, so that it has no place among the objects of its shape. */
  readonly isEdit: boolean;
}

/** `Place` is where a collection was written. */
export class Collections<Place> {
  readonly #last = new Map<string, Written<Place>>();

  clear(): void {
    this.#last.clear();
  }

  /** The last collection at this position. */
  lastAt(position: string): Written<Place> | undefined {
    return this.#last.get(position);
  }

  add(position: string, written: Written<Place>): void {
    if ((written.names ?? (written.value as readonly unknown[])).length > BASE_MAX_MEMBERS) return;
    if (this.#last.size >= POSITIONS_MAX) this.#last.clear();
    this.#last.set(position, written);
  }
}

/** What records with similar values have in common: their kind, and the operation or the type of the event. */
export function subjectOf(record: JournalRecord | undefined): string {
  if (!record) return '';
  if ('name' in record) return `${record.k} ${record.name}`;
  const event = 'event' in record && typeof record.event === 'object' ? record.event.type : '';
  return `${record.k} ${event}`;
}

/** The members of a line that follow the reference to the earlier collection; `parts` are the texts of its own. */
export function differenceText(edit: Edit, parts: readonly string[]): string {
  if ('at' in edit) return `,"${SPLICED}":[${[edit.at, edit.removed, ...parts].join()}]`;
  const removed = edit.removed.length === 0 ? [] : [`"${WITHOUT}":${JSON.stringify(edit.removed)}`];
  return [...removed, ...parts].map((part) => `,${part}`).join('');
}

/**
 * The edit from one collection to another, if at least half of the items stay as and where they are. An object with the
 * members of the one before is none: it is found by its content, or written as an object of that shape.
 */
export function editBetween(before: Written<unknown>, after: Collection): Edit | undefined {
  if (before.names && after.names) {
    if (!before.isEdit && isSameList(before.names, after.names)) return undefined;
    return objectEdit(before.value as Members, before.names, after);
  }
  if (!Array.isArray(before.value) || !Array.isArray(after.value)) return undefined;
  return listEdit(before.value, after.value);
}

function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  const areContainers = typeof one === 'object' && typeof other === 'object' && one !== null && other !== null;
  return areContainers && JSON.stringify(one) === JSON.stringify(other);
}

const isSameList = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((name, at) => name === other[at]);

function listEdit(before: readonly unknown[], after: readonly unknown[]): ListEdit | undefined {
  const most = Math.min(before.length, after.length);
  let at = 0;
  while (at < most && isSame(before[at], after[at])) at++;
  let behind = 0;
  while (behind < most - at && isSame(before.at(-1 - behind), after.at(-1 - behind))) behind++;
  if (2 * (at + behind) < after.length) return undefined;
  return { at, removed: before.length - at - behind, end: after.length - behind };
}

/** Members that stay keep their order, new ones are behind them; a member that moved is removed and new. */
function objectEdit(before: Members, earlier: readonly string[], { value, names = [] }: Collection) {
  const after = value as Members;
  const removed: string[] = [];
  const given: string[] = [];
  let at = 0;
  for (const name of earlier) {
    if (name !== names[at]) removed.push(name);
    else if (!isSame(after[names[at++]!], before[name])) given.push(name);
  }
  given.push(...names.slice(at));
  return 2 * (removed.length + given.length) > names.length ? undefined : { removed, given };
}
