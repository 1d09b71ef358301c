/** A process that writes turns until it is killed. It prints the number up to which all records survive it. */
import { openJournal } from '../../../src/kernel/journal/open.ts';
import type { KernelRecord } from '../../../src/kernel/records.ts';

const journal = openJournal({ directory: process.argv[2]!, durability: 'second', segmentMaxBytes: 100_000 });
let n = 0;
const append = (fields: object): void => journal.append({ n: n++, ...fields } as KernelRecord);

const build = { statelet: '0', node: 'v26', xstate: '5', machines: {} };
const facts = { version: 3, seed: 1, node: 'n', bootId: 'b', build, input: {} };
append({ k: 'header', t: 0, incarnation: journal.incarnation, ...facts });
for (let turn = 0; ; turn++) {
  if (turn > 0) append({ k: 'in', t: turn, to: 'a', via: 'b', event: { type: 'x', text: String(turn).repeat(50) } });
  append({ k: 'end', turn, digest: 'd' });
  journal.commit();
  if (journal.wantsCheckpoint) journal.writeCheckpoint({ n });
  if (turn % 20 !== 0) continue;
  await new Promise<void>((resolve) => journal.whenDurable(resolve));
  process.stdout.write(`${n - 1}\n`);
}
