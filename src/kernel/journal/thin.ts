/** What a nearly full disk is spared: the records that replay makes again. Inputs, requests and digests stay. */
import type { JournalLine } from '../records.ts';
import { encodeLine, linesOf, parseLine } from './line.ts';

const SPARED: ReadonlySet<string> = new Set(['message', 'log', 'state']);

/** The lines without messages, log lines and states; each run of them leaves one `dropped` record that says so. */
export function thin(lines: string, why: string): string {
  const kept: string[] = [];
  let run: { n: number; upto: number } | undefined;
  const endRun = (): void => {
    if (run) kept.push(encodeLine(JSON.stringify({ n: run.n, k: 'dropped', upto: run.upto, why })));
    run = undefined;
  };
  for (const { bytes } of linesOf([Buffer.from(lines)])) {
    const record = parseLine(bytes) as JournalLine;
    if (SPARED.has(record.k) && 'n' in record) {
      run = { n: run?.n ?? record.n, upto: record.n };
      continue;
    }
    endRun();
    kept.push(`${bytes.toString()}\n`);
  }
  endRun();
  return kept.join('');
}
