/**
 * Records the golden journals of the format that this build writes, into `test/golden/journals/v<format>`: the shop of
 * `test/kernel/journal/golden-shop.ts`, and a node that starts and runs a pod in the scripted machine of the tests.
 *
 *   node scripts/record-golden-journals.ts
 *
 * For a format that no release has written yet. Those of a released one are never recorded anew.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { STATELET_VERSION } from '../src/bin/version.ts';
import { buildInfo } from '../src/kernel/build-info.ts';
import { compress } from '../src/kernel/journal/compress.ts';
import { type JournalWriter, openJournal } from '../src/kernel/journal/index.ts';
import { Kernel } from '../src/kernel/kernel.ts';
import { FORMAT_VERSION } from '../src/kernel/records.ts';
import { kubeletMachine } from '../src/machines/startup/kubelet.ts';
import { shopMachine } from '../test/kernel/journal/golden-shop.ts';
import { HandTime, HandWorld } from '../test/kernel/support.ts';
import { BootNode } from '../test/machines/startup/boot-node.ts';
import { image, manifest } from '../test/support/pods-node.ts';

const FOLDER = join(import.meta.dirname, `../test/golden/journals/v${FORMAT_VERSION}`);
/** Small, so that the shop's journal has three segments. */
const SEGMENT_BYTES = 14_000;
/** A value of its own beside the lines. */
const LIST_CHARS = 70_000;
const POD_RUNS_MS = 1_000;

const durable = (journal: JournalWriter) => new Promise<void>((resolve) => journal.whenDurable(resolve));

function newJournal(name: string, segmentMaxBytes?: number): JournalWriter {
  const directory = join(FOLDER, name);
  mkdirSync(directory, { recursive: true });
  return openJournal({ directory, ...(segmentMaxBytes ? { segmentMaxBytes } : {}) });
}

/** Removes `owner.*`, the lock of the folder's writer, which has ended. */
function withoutOwner(name: string): void {
  const directory = join(FOLDER, name);
  for (const file of readdirSync(directory).filter((each) => each.startsWith('owner.'))) rmSync(join(directory, file));
}

async function compressed(name: string): Promise<void> {
  const directory = join(FOLDER, name);
  for (const file of readdirSync(directory).filter((each) => each.endsWith('.ndjson')))
    await compress(join(directory, file));
}

async function recordShop(): Promise<void> {
  const journal = newJournal('shop', SEGMENT_BYTES);
  const [world, time] = [new HandWorld(), new HandTime()];
  const { incarnation } = journal;
  const facts = { version: FORMAT_VERSION, incarnation, seed: 7, node: 'n', bootId: 'b', input: {} } as const;
  const header = { ...facts, build: buildInfo(shopMachine, STATELET_VERSION) };
  const kernel = new Kernel({ machine: shopMachine, header, sink: journal, performer: world, time }).boot();
  const send = async (event: { readonly type: string; readonly [field: string]: string | number }): Promise<void> => {
    kernel.dispatch('shop', event, 'door');
    await durable(journal);
  };
  await durable(journal);
  world.answer('shop.look', { output: { items: ['tea', 'bread'] } });
  for (const name of ['a', 'b', 'c']) await send({ type: 'clerk.hired', name });
  for (let day = 0; day < 6; day++) {
    await send({ type: 'customer.came', to: 'a', item: `tea ${day}` });
    world.answer('shop.sell', { output: { price: 3 } });
    await send({ type: 'customer.came', to: 'b', item: 'bread' });
    world.answer('shop.sell', { error: { name: 'Error', message: 'the till jams', retriable: true } });
    time.advance(1_000);
    await durable(journal);
    world.answer('shop.sell', { output: { price: 2 } });
    const listening = [...world.open.values()].find(({ name }) => name === 'shop.listen');
    listening?.emit({ type: 'bell.rang', times: day } as never);
    time.advance(6_000);
    await durable(journal);
  }
  await send({ type: 'list.came', text: 'flour '.repeat(LIST_CHARS / 6) });
  await send({ type: 'customer.came', to: 'c', item: 'cake' });
  await send({ type: 'clerk.left', name: 'c' });
  await send({ type: 'clerk.pushed', to: 'b' });
  await send({ type: 'evening' });
  await journal.close();
  withoutOwner('shop');
}

async function recordNode(): Promise<void> {
  const node = new BootNode({ answers: {} });
  node.world.pods.registry.set('app:1', image('app:1'));
  node.world.pods.setManifests([manifest({ uid: 'u1', name: 'web' })]);
  node.boot().run(POD_RUNS_MS);
  const journal = newJournal('node');
  const build = buildInfo(kubeletMachine, STATELET_VERSION);
  const { incarnation } = journal;
  for (const record of node.records) {
    journal.append(record.k === 'header' ? { ...record, incarnation, build } : record);
    if (record.k === 'end') journal.commit();
  }
  await journal.close();
  withoutOwner('node');
  await compressed('node');
}

rmSync(FOLDER, { recursive: true, force: true });
await recordShop();
await recordNode();
