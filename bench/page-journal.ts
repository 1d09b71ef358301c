/** Writes journals for the bench of the page: those of a node whose pods come and go, in the world of the tests. */
import { openJournal } from '../src/kernel/journal/open.ts';
import type { KernelRecord } from '../src/kernel/records.ts';
import { ARGV, BootNode } from '../test/machines/startup/boot-node.ts';
import { image, manifest } from '../test/support/pods-node.ts';

/** Pods at a time; each is replaced by the next after a while. */
const PODS = 30;
const LIFE_MS = 20_000;

/** Writes a journal with about this number of records. */
export async function writeJournal(directory: string, records: number): Promise<void> {
  const journal = openJournal({ directory, durability: 'none' });
  let written = 0;
  const node = new BootNode({
    argv: ARGV,
    onTurn: (made: readonly KernelRecord[], kernel) => {
      written += made.length;
      for (const record of made)
        journal.append(record.k === 'header' ? { ...record, incarnation: journal.incarnation } : record);
      journal.commit();
      if (journal.wantsCheckpoint) journal.writeCheckpoint(kernel.checkpoint());
    },
  });
  node.world.pods.registry.set('app:1', image('app:1'));
  const pods = (round: number) =>
    Array.from({ length: PODS }, (_, at) => manifest({ uid: `u${round}-${at}`, name: `web-${round}-${at}` }));
  node.world.pods.setManifests(pods(0));
  node.boot();
  for (let round = 1, isDone = false; !isDone; isDone = written >= records) {
    node.run(LIFE_MS);
    (node.records as KernelRecord[]).length = 0;
    node.world.pods.setManifests(pods(round++));
    await new Promise<void>((resolve) => journal.whenDurable(resolve));
  }
  await journal.close();
  if (journal.suspension !== undefined) throw new Error(`not all was written: ${journal.suspension}`);
}
