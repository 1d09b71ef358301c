/** The records of a golden journal as the page gets them. */
import { join } from 'node:path';
import { readJournal } from '../../../src/kernel/journal/reader.ts';
import { Execution } from '../../../src/visualizer/worker/execution.ts';

export const GOLDEN = join(import.meta.dirname, '../../golden/journals/v4/node');

/** A journal that was run to its end. */
export function executed(path = GOLDEN) {
  const execution = new Execution(readJournal(path));
  const records = [...execution.run()].flat();
  return { execution, records };
}
