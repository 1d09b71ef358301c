/**
 * Measures a journal of real decisions: a start of the scripted node with many pods at once, in virtual time.
 *
 *   node bench/journal.ts [--pods 110] [--records 1000000] [--rounds 4]
 *
 * Prints bytes, the speed of a replay, and the cost of recording compared with deciding (CPU of the process). With
 * `--records`, the records of the start are repeated for other pods until there are that many, and the commands that
 * explain a journal run on them, each in a process of its own.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { buildInfo } from '../src/kernel/build-info.ts';
import { compress } from '../src/kernel/journal/archive.ts';
import { openJournal } from '../src/kernel/journal/open.ts';
import { readJournal } from '../src/kernel/journal/reader.ts';
import type { JournalWriter } from '../src/kernel/journal/writer.ts';
import type { KernelRecord } from '../src/kernel/records.ts';
import { replay } from '../src/kernel/replay.ts';
import { kubeletMachine } from '../src/machines/startup/kubelet.ts';
import { BootNode } from '../test/machines/startup/boot-node.ts';
import { image, manifest } from '../test/support/pods-node.ts';
import { printTable } from './statistics.ts';

const { values: flags } = parseArgs({
  options: {
    pods: { type: 'string', default: '110' },
    records: { type: 'string', default: '0' },
    rounds: { type: 'string', default: '4' },
  },
});
const [pods, wanted, rounds] = [Number(flags.pods), Number(flags.records), Number(flags.rounds)];
const DOOR = join(import.meta.dirname, '../src/bin/statelet.js');
/** After this time all pods run, and the work that follows a start is done. */
const BOOT_MS = 20_000;
/** The uid of a pod in a copy of the start. */
const UID = (copy: number, pod: number): string =>
  `0f4b8f3e-9a66-4c52-${String(copy).padStart(4, '0')}-2f5d1c1c${String(pod).padStart(4, '0')}`;
const UIDS = /0f4b8f3e-9a66-4c52-0000-/g;

const cpuMs = (since?: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1_000;
};

function booted(): BootNode {
  const node = new BootNode();
  node.world.pods.registry.set('app:1', image('app:1'));
  const each = (_: unknown, pod: number) => manifest({ uid: UID(0, pod), name: `web-${pod}` });
  node.world.pods.setManifests(Array.from({ length: pods }, each));
  return node.boot().run(BOOT_MS);
}

async function write(directory: string, records: Iterable<KernelRecord>, end?: () => unknown): Promise<JournalWriter> {
  const journal = openJournal({ directory, durability: 'none' });
  const { incarnation } = journal;
  for (const record of records) {
    journal.append(record.k === 'header' ? { ...record, incarnation, build: buildInfo(kubeletMachine, '0') } : record);
    if (record.k !== 'end') continue;
    journal.commit();
    if (end && journal.wantsCheckpoint) journal.writeCheckpoint(end());
    await new Promise((done) => setImmediate(done));
  }
  await journal.close();
  return journal;
}

const bytesOf = (directory: string): number =>
  readdirSync(directory)
    .filter((name) => name.startsWith('j-'))
    .reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);

const isInput = ({ k }: KernelRecord): boolean => k === 'in' || k === 'timer' || k === 'result';

async function measure(directory: string, node: BootNode): Promise<void> {
  const { records } = node;
  await write(directory, records);
  const plain = bytesOf(directory);
  const [segment] = readdirSync(directory).filter((name) => name.endsWith('.ndjson'));
  const decided: KernelRecord[] = [];
  const speeds: number[] = [];
  let decidingMs = 0;
  for (let round = 0; round < rounds; round++) {
    const began = process.cpuUsage();
    const made: KernelRecord[] = [];
    const report = replay({
      machine: kubeletMachine,
      records: readJournal(directory).records,
      onTurn: (turn) => void made.push(...turn),
    });
    if (report.divergence) throw new Error(`the bench differs in record ${report.divergence.n}`);
    decidingMs = cpuMs(began);
    speeds.push(Math.round((report.inputs / decidingMs) * 1_000));
    decided.splice(0, decided.length, ...made);
  }
  const again = mkdtempSync(join(tmpdir(), 'bench-journal-'));
  const began = process.cpuUsage();
  await write(again, decided);
  const recordingMs = cpuMs(began);
  rmSync(again, { recursive: true });
  await compress(join(directory, segment!));
  const share = (100 * recordingMs) / (recordingMs + decidingMs);
  printTable(
    ['a boot', `${pods} pods`],
    [
      ['records', String(records.length)],
      ['inputs', String(records.filter(isInput).length)],
      ['bytes a record', (plain / records.length).toFixed(0)],
      ['bytes a pod, with the boot', (plain / pods).toFixed(0)],
      ['the same, compressed', (bytesOf(directory) / pods).toFixed(0)],
      ['inputs replayed a second, round by round', speeds.join(' ')],
      ['recording, CPU a pod', `${((1_000 * recordingMs) / pods).toFixed(0)} us`],
      ['recording, of recording and replaying', `${share.toFixed(1)}%`],
    ],
  );
}

/** The start, and then its pods repeatedly under other names, each time a second later. */
function* many({ records }: BootNode): Generator<KernelRecord> {
  yield* records;
  const first = records.findIndex((record) => record.k === 'in' && record.event.type === 'manifests.changed');
  const batch = records.slice(records.findIndex(({ n, k }) => k === 'end' && n >= first) + 1);
  const texts = batch.map((record) => JSON.stringify(record));
  for (let copy = 1, n = records.length; n < wanted; copy++) {
    const uids = `0f4b8f3e-9a66-4c52-${String(copy).padStart(4, '0')}-`;
    for (const text of texts) {
      const record = JSON.parse(text.replace(UIDS, uids)) as KernelRecord & { t?: number; cause?: number };
      const shift = n - record.n;
      if (record.t !== undefined) Object.assign(record, { t: record.t + copy * BOOT_MS });
      if (record.cause !== undefined) Object.assign(record, { cause: record.cause + shift });
      yield Object.assign(record, { n: n++ });
    }
  }
}

async function measureLong(directory: string, node: BootNode): Promise<void> {
  const state = node.kernel.checkpoint();
  let n = 0;
  const counted = function* () {
    for (const record of many(node)) {
      n = record.n;
      yield record;
    }
  };
  await write(directory, counted(), () => ({ ...state, n: n + 1 }));
  const pod = `pod/web-${pods - 1}`;
  const commands = [
    ['time', directory],
    ['why', directory, 'startup'],
    ['why', directory, pod],
    ['diff', directory, directory],
  ];
  const rows = commands.map((argv) => {
    const began = performance.now();
    const { status, stderr } = spawnSync('/usr/bin/time', ['-f', '%U %S %M', process.execPath, DOOR, ...argv], {
      encoding: 'utf8',
    });
    const [user, system, kilobytes] = stderr.trim().split('\n').at(-1)!.split(' ').map(Number);
    const seconds = ((performance.now() - began) / 1_000).toFixed(1);
    const cpu = (user! + system!).toFixed(1);
    return [
      argv.filter((word) => word !== directory).join(' '),
      String(status),
      seconds,
      cpu,
      (kilobytes! / 1_024).toFixed(0),
    ];
  });
  console.log(`\n${n + 1} records, ${(bytesOf(directory) / 2 ** 20).toFixed(0)} MiB in segments`);
  printTable(['command', 'ends with', 'seconds', 'of CPU', 'MiB'], rows);
}

const folder = mkdtempSync(join(tmpdir(), 'bench-journal-'));
try {
  const node = booted();
  await measure(join(folder, 'boot'), node);
  if (wanted > 0) await measureLong(join(folder, 'long'), node);
} finally {
  rmSync(folder, { recursive: true });
}
