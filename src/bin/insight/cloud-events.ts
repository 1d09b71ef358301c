/**
 * The records of a start as CloudEvents 1.0 (JSON), for brokers and stores of events.
 *
 * Invariants: `source` names the node and its start, `id` is the record's number, so both together are unique and the
 * same at each export; a derived record has the time of the input that led to it, which `cause` names.
 */
import { actorOf } from '../../actors/server/visualizer/history.ts';
import type { HeaderRecord, JournalRecord } from '../../kernel/records.ts';

const TYPE = 'io.statelet.record';

export function* cloudEventsOf(
  { node, incarnation }: HeaderRecord,
  records: Iterable<JournalRecord>,
): Generator<object> {
  const source = `/nodes/${encodeURIComponent(node)}/starts/${incarnation}`;
  let now = 0;
  for (const record of records) {
    if ('t' in record) now = record.t;
    if (record.k === 'end') continue;
    const subject = record.k === 'dropped' || record.k === 'gap' ? undefined : actorOf(record);
    const { cause } = record as { readonly cause?: number };
    yield {
      specversion: '1.0',
      id: String(record.n),
      source,
      type: `${TYPE}.${record.k}`,
      time: new Date(now).toISOString(),
      ...(subject === undefined ? {} : { subject }),
      ...(cause === undefined ? {} : { cause: String(cause) }),
      datacontenttype: 'application/json',
      data: record,
    };
  }
}
