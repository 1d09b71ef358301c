/**
 * What the journal costs: `node scripts/bench-journal.ts [turns]`. Prints microseconds per record of about 150 bytes.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openJournal, readJournal, verifyJournal } from '../src/kernel/journal/index.ts';
import type { KernelRecord } from '../src/kernel/records.ts';

const TURNS = Number(process.argv[2] ?? 50_000);
const RECORDS_PER_TURN = 5;
const TURNS_PER_TICK = 20;

function turnOf(n: number, turn: number): KernelRecord[] {
  const event = { type: 'container.started', pod: 'pod-0f4b8f3e-9a66-4c52-8b1a-2f5d1c1c7f10', container: 'app' };
  const [to, t] = ['kubelet/pods/pod-0f4b8f3e', 1_700_000_000_000 + turn];
  const input = { id: 'c0ffee', verbose: false };
  return [
    { n, k: 'in', t, to: 'kubelet/pleg', event, via: 'cri' },
    { n: n + 1, k: 'message', from: 'kubelet/pleg', to, event, cause: n },
    {
      n: n + 2,
      k: 'effect',
      id: turn,
      at: `${to}/status`,
      name: 'cri.containerStatus',
      class: 'query',
      input,
      cause: n + 1,
    },
    { n: n + 3, k: 'state', at: to, value: { running: { probes: 'waiting' } } },
    { n: n + 4, k: 'end', turn, digest: '0123456789abcdef' },
  ];
}

async function write(directory: string, durability: 'none' | 'second'): Promise<number> {
  const journal = openJournal({ directory, durability });
  const build = { statelet: '', node: '', xstate: '', machines: {} };
  const header = { n: 0, k: 'header', t: 0, version: 3, incarnation: journal.incarnation, seed: 1, node: 'n' } as const;
  journal.append({ ...header, bootId: 'b', build, input: {} });
  journal.append({ n: 1, k: 'end', turn: 0, digest: '' });
  journal.commit();
  let calling = 0;
  for (let turn = 1, n = 2; turn <= TURNS; turn++, n += RECORDS_PER_TURN) {
    const records = turnOf(n, turn);
    const started = performance.now();
    for (const record of records) journal.append(record);
    journal.commit();
    calling += performance.now() - started;
    if (turn % TURNS_PER_TICK === 0) await new Promise(setImmediate);
  }
  await journal.close();
  return calling;
}

const perRecord = (ms: number): string => `${((ms * 1000) / (TURNS * RECORDS_PER_TURN)).toFixed(2)} µs`;

for (const durability of ['none', 'second'] as const) {
  const directory = mkdtempSync(join(tmpdir(), 'bench-journal-'));
  try {
    const started = performance.now();
    const calling = await write(directory, durability);
    const whole = performance.now() - started;
    console.log(
      `durability ${durability}: append and commit ${perRecord(calling)}, with everything ${perRecord(whole)}`,
    );
    const readStarted = performance.now();
    let records = 0;
    for (const _ of readJournal(directory).records) records++;
    console.log(`  read ${records} records: ${perRecord(performance.now() - readStarted)}`);
    const [report] = verifyJournal(directory).incarnations;
    console.log(`  ${Math.round(report!.bytes / records)} bytes per record on disk`);
  } finally {
    rmSync(directory, { recursive: true });
  }
}
