/**
 * Records the golden journals of the version in package.json into `test/golden/journals/v<format>`: the shop of
 * `test/kernel/journal/golden-shop.ts`; nodes that start, fail to start and run a pod on the scripted machine of the
 * tests; and simulated nodes, which restart many times while calls fail.
 *
 *   node scripts/record-golden-journals.ts
 *
 * Journals of an earlier version must never change: the script ends before it replaces them.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { STATELET_VERSION } from '../src/bin/version.ts';
import { buildInfo } from '../src/kernel/build-info.ts';
import { compress } from '../src/kernel/journal/archive.ts';
import { openJournal } from '../src/kernel/journal/open.ts';
import { readJournal } from '../src/kernel/journal/reader.ts';
import type { JournalWriter } from '../src/kernel/journal/writer.ts';
import { Kernel } from '../src/kernel/kernel.ts';
import { FORMAT_VERSION, type KernelRecord } from '../src/kernel/records.ts';
import { kubeletMachine } from '../src/machines/startup/kubelet.ts';
import { simulate } from '../src/simulation/simulation.ts';
import { shopMachine } from '../test/kernel/journal/golden-shop.ts';
import { HandTime, HandWorld } from '../test/kernel/support.ts';
import { BootNode } from '../test/machines/startup/boot-node.ts';
import { image, manifest } from '../test/support/pods-node.ts';
import { play } from '../test/support/transcripts/script.ts';
import { StartupStage } from '../test/support/transcripts/startup-stage.ts';
import { storyPaths } from '../test/support/transcripts/stories.ts';

const FOLDER = join(import.meta.dirname, `../test/golden/journals/v${FORMAT_VERSION}`);
/** Small, so that the shop's journal has three segments. */
const SEGMENT_BYTES = 14_000;
/** A text of this length is stored once, beside the lines. */
const LIST_CHARS = 70_000;
const POD_RUNS_MS = 1_000;
/** Several periods of the pod's probes. */
const PROBED_MS = 45_000;
/** With so many pods, the journal stores lists and tables as changes to earlier ones. */
const PODS = 14;
/** Each seed gives about 200 KiB. */
const SEEDS = [1, 2, 3, 4, 5];
const BUILD = buildInfo(kubeletMachine, STATELET_VERSION);

const durable = (journal: JournalWriter) => new Promise<void>((resolve) => journal.whenDurable(resolve));

function newJournal(name: string, segmentMaxBytes?: number): JournalWriter {
  const directory = join(FOLDER, name);
  mkdirSync(directory, { recursive: true });
  return openJournal({ directory, ...(segmentMaxBytes ? { segmentMaxBytes } : {}) });
}

/** Removes `owner.*`, the lock of the folder, because its writer has ended. */
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

/** Writes one journal with all starts of a node. */
async function write(name: string, starts: readonly (readonly KernelRecord[])[]): Promise<void> {
  for (const records of starts) {
    const journal = newJournal(name);
    const { incarnation } = journal;
    for (const record of records) {
      journal.append(record.k === 'header' ? { ...record, incarnation, build: BUILD } : record);
      if (record.k === 'end') journal.commit();
    }
    await journal.close();
  }
  withoutOwner(name);
  await compressed(name);
}

/** `probes`: the probes of the pod's container. */
function bootedWith(probes: object, ms: number): readonly KernelRecord[] {
  const node = new BootNode({ answers: {} });
  node.world.pods.registry.set('app:1', image('app:1'));
  const containers = [{ name: 'app', image: 'app:1', ...probes }];
  node.world.pods.setManifests([manifest({ uid: 'u1', name: 'web', containers })]);
  return node.boot().run(ms).records;
}

function probedAtNoPort(): readonly KernelRecord[] {
  const probe = { httpGet: { port: 'web' }, periodSeconds: 10 };
  return bootedWith({ readinessProbe: probe, livenessProbe: { ...probe, initialDelaySeconds: 15 } }, PROBED_MS);
}

/** Twelve pods start at once, two more one by one, and one ends. */
function podsThatChange(): readonly KernelRecord[] {
  const node = new BootNode();
  node.world.pods.registry.set('app:1', image('app:1'));
  const pods = Array.from({ length: PODS }, (_, at) => manifest({ uid: `the-uid-of-pod-${at}`, name: `web-${at}` }));
  node.boot();
  for (const manifests of [pods.slice(0, -2), pods.slice(0, -1), pods, pods.toSpliced(3, 1)]) {
    node.world.pods.setManifests(manifests);
    node.run(2 * POD_RUNS_MS);
  }
  return node.records;
}

function played(path: string): readonly KernelRecord[] {
  const stage = new StartupStage();
  play(readFileSync(path, 'utf8'), stage);
  return stage.records;
}

/** Ends the script if another version has recorded the existing journals. */
function requireOwn(): void {
  const recorded = join(FOLDER, 'node');
  if (!existsSync(recorded)) return;
  const { statelet } = readJournal(recorded).header.build;
  if (statelet === STATELET_VERSION) return;
  process.stderr.write(
    `${FOLDER} was recorded by Statelet ${statelet}, this is ${STATELET_VERSION}: it stays as it is\n`,
  );
  process.exit(1);
}

requireOwn();
rmSync(FOLDER, { recursive: true, force: true });
await recordShop();
await write('node', [bootedWith({}, POD_RUNS_MS)]);
await write('impossible-probe', [probedAtNoPort()]);
await write('pods-that-change', [podsThatChange()]);
for (const path of storyPaths().filter((each) => each.includes('/startup/')))
  await write(`startup-${basename(path, '.txt')}`, [played(path)]);
for (const seed of SEEDS) {
  const { starts } = simulate({ seed }, BUILD);
  await write(
    `seed-${seed}`,
    starts.map(({ records }) => records),
  );
}
