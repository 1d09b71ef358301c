/** Records that a search found, counted by what they have in common. */
import type { ShownRecord } from '../../actors/server/visualizer/protocol.ts';
import { eventText, kindText } from '../words.ts';
import type { RecordPages, Row } from './record-pages.ts';
import type { Group, GroupBy } from './requests.ts';

const GROUPS_MAX = 500;

/** The largest groups of the records at these indexes. */
export async function groupsOf(pages: RecordPages, indexes: readonly number[], by: GroupBy): Promise<Group[]> {
  const groups = new Map<string, { key: string; count: number; first: number }>();
  for (const index of indexes) {
    const row = pages.row(index);
    if (!row) continue;
    const key = by === 'what' ? whatOf(await pages.get(index)) : keyOf(row, by);
    const group = groups.get(key);
    if (group) group.count++;
    else groups.set(key, { key, count: 1, first: row.n });
  }
  return [...groups.values()].toSorted((one, other) => other.count - one.count).slice(0, GROUPS_MAX);
}

const keyOf = (row: Row, by: Exclude<GroupBy, 'what'>): string =>
  by === 'actor' ? row.who : by === 'turn' ? String(row.turn) : row.kind;

/** The kind of a record with its subject: the type of the event, the name of the request, the text of a line. */
function whatOf(shown: ShownRecord | undefined): string {
  if (!shown) return '';
  const { record } = shown;
  const kind = kindText(record);
  if (record.k === 'in' || record.k === 'message') return `${kind} ${eventText(record.event.type)}`;
  if (record.k === 'timer') return `${kind} ${eventText(record.event)}`;
  if (record.k === 'effect' || record.k === 'result') return `${kind} ${record.name}`;
  return record.k === 'log' ? `${kind} ${record.text}` : kind;
}
