/** A journal with two starts of one node, the second one slower, as daemons leave them in one folder. */
import { openJournal } from '../../src/kernel/journal/open.ts';
import type { KernelRecord } from '../../src/kernel/records.ts';
import { ARGV, BootNode } from '../machines/startup/boot-node.ts';
import { image, manifest } from './pods-node.ts';

/** How much longer the pull of the image takes in the second start. */
const SLOWER_MS = 4_000;

/** `isWaiting`: adds a third start that waits for its runtime. */
export async function startsJournal(directory: string, { isWaiting = false } = {}): Promise<void> {
  await record(directory, () => {});
  await record(directory, (node) => {
    node.world.pods.fault = (name) => (name === 'cri.pullImage' ? { extraMs: SLOWER_MS } : undefined);
  });
  if (isWaiting)
    await record(directory, () => {}, new BootNode({ argv: ARGV, answers: { 'runtime.connect': 'hangs' } }));
}

/** A start that this build decides differently in one turn. Returns the number of the record that differs. */
export async function divergingJournal(directory: string, turn: number): Promise<number> {
  let differs = -1;
  const changed = (kept: KernelRecord): KernelRecord => {
    if (kept.k !== 'end' || kept.turn !== turn) return kept;
    differs = kept.n;
    return { ...kept, digest: 'other' };
  };
  await record(directory, () => {}, new BootNode({ argv: ARGV }), changed);
  return differs;
}

/** A start with this text as the name of its node and in every log line. */
export async function hostileJournal(directory: string, text: string): Promise<void> {
  const changed = (kept: KernelRecord): KernelRecord =>
    kept.k === 'log' ? { ...kept, text, fields: { ...kept.fields, [text]: text } } : kept;
  await record(
    directory,
    () => {},
    new BootNode({ argv: ARGV }),
    (kept) => (kept.k === 'header' ? { ...kept, node: text } : changed(kept)),
  );
}

async function record(
  directory: string,
  prepare: (node: BootNode) => void,
  node = new BootNode({ argv: ARGV }),
  changed = (kept: KernelRecord): KernelRecord => kept,
): Promise<void> {
  node.world.pods.registry.set('app:1', image('app:1'));
  node.world.pods.setManifests([manifest({ uid: 'u1' })]);
  prepare(node);
  const journal = openJournal({ directory, durability: 'none' });
  for (const kept of node.boot().run(8_000).records) {
    const written = changed(kept);
    journal.append(written.k === 'header' ? { ...written, incarnation: journal.incarnation } : written);
    if (kept.k === 'end') journal.commit();
  }
  await journal.close();
}
