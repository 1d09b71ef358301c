/** What a nearly full disk is spared: the records that replay makes again. Inputs, requests and digests stay. */
import type { JournalRecord } from '../records.ts';

const SPARED: ReadonlySet<string> = new Set(['message', 'log', 'state']);

/** The records without messages, log lines and states; each run of them leaves one `dropped` record that says so. */
export function thin(records: readonly JournalRecord[], why: string): JournalRecord[] {
  const kept: JournalRecord[] = [];
  for (const record of records) {
    const before = kept.at(-1);
    if (!SPARED.has(record.k)) kept.push(record);
    else if (before?.k === 'dropped') kept[kept.length - 1] = { ...before, upto: record.n };
    else kept.push({ n: record.n, k: 'dropped', upto: record.n, why });
  }
  return kept;
}
