/** The records of a golden journal as the page gets them. */
import { join } from 'node:path';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import { Execution } from '../../../src/visualizer/worker/execution.ts';
import { Reading } from '../../../src/visualizer/worker/reading.ts';

export const GOLDEN = join(import.meta.dirname, '../../golden/journals/v4/node');

/** A journal that was read and replayed to its end. */
export function executed(path = GOLDEN) {
  const journal = readJournal(path);
  const records = [...new Reading(journal).run()].flat();
  const execution = new Execution(journal);
  for (const _turn of execution.run());
  return { execution, records };
}
