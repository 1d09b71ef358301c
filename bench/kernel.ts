/**
 * Measures the kernel: CPU per input without a journal (the control), with NDJSON and checksum, and the speed of a
 * replay. Prints a table. Only the ratios to the control of the same run are comparable, because the speed of a machine
 * varies.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openJournal } from '../src/kernel/journal/open.ts';
import type { JournalSink } from '../src/kernel/journal/writer.ts';
import { Kernel } from '../src/kernel/kernel.ts';
import { FORMAT_VERSION, type KernelRecord } from '../src/kernel/records.ts';
import { replay } from '../src/kernel/replay.ts';
import { assign, sendTo, setup } from '../src/kernel/xstate.ts';

const PODS = 100;
const INPUTS = 100_000;
const ROUNDS = 3;

/** The measured machine: 8 states in a ring, a guard and an assign on every event. */
const names = ['pending', 'sandbox', 'image', 'create', 'start', 'running', 'failed', 'backOff'] as const;
const podMachine = setup({
  types: {
    input: {} as { name: string },
    context: {} as { name: string; steps: number },
    events: {} as { type: 'step'; by: number },
  },
  guards: { isPositive: ({ event }) => event.by > 0 },
}).createMachine({
  id: 'pod',
  context: ({ input }) => ({ name: input.name, steps: 0 }),
  initial: 'pending',
  states: Object.fromEntries(
    names.map((name, i) => [
      name,
      {
        on: {
          step: {
            guard: 'isPositive' as const,
            target: names[(i + 1) % names.length]!,
            actions: assign({ steps: ({ context, event }) => context.steps + event.by }),
          },
        },
      },
    ]),
  ) as never,
});

const nodeMachine = setup({
  types: { context: {} as { routed: number }, events: {} as { type: 'route'; pod: number; by: number } },
  actors: { pod: podMachine },
}).createMachine({
  id: 'node',
  context: ({ spawn }) => {
    for (let i = 0; i < PODS; i++) spawn('pod', { id: `pod-${i}`, input: { name: `p${i}` } });
    return { routed: 0 };
  },
  on: {
    route: {
      actions: [
        assign({ routed: ({ context }) => context.routed + 1 }),
        sendTo(
          ({ event, self }) => self.getSnapshot().children[`pod-${event.pod}`]!,
          ({ event }) => ({ type: 'step', by: event.by }),
        ),
      ],
    },
  },
});

const header = {
  version: FORMAT_VERSION,
  incarnation: 'bench',
  seed: 1,
  node: 'n',
  bootId: 'b',
  build: { statelet: '0', node: process.version, xstate: '5', machines: {} },
  input: {},
} as const;

const silent: JournalSink = {
  wantsCheckpoint: false,
  append() {},
  commit() {},
  whenDurable: (callback) => setImmediate(callback),
  writeCheckpoint() {},
  close: () => Promise.resolve(),
};

const cpuMs = (since?: NodeJS.CpuUsage) => {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1_000;
};

/** CPU microseconds per input. `direct` inputs go to a pod; the others through the node (two transitions). */
async function measure(sink: JournalSink, direct: boolean): Promise<number> {
  const kernel = new Kernel({ machine: nodeMachine, header, sink }).boot(1);
  const before = process.cpuUsage();
  for (let i = 0; i < INPUTS; i++) {
    const pod = i % PODS;
    if (direct) kernel.input({ k: 'in', t: i, to: `node/pod-${pod}`, event: { type: 'step', by: 1 }, via: 'bench' });
    else kernel.input({ k: 'in', t: i, to: 'node', event: { type: 'route', pod, by: 1 }, via: 'bench' });
    if (i % 200 === 199) await new Promise((resolve) => setImmediate(resolve));
  }
  await sink.close();
  return (cpuMs(before) * 1_000) / INPUTS;
}

async function recordAndReplay(): Promise<number> {
  const records: KernelRecord[] = [];
  const keep = {
    ...silent,
    append: (record: KernelRecord) => void records.push(JSON.parse(JSON.stringify(record)) as KernelRecord),
  };
  await measure(keep, true);
  const before = process.cpuUsage();
  const report = replay({ machine: nodeMachine, records });
  if (report.divergence) throw new Error(`the bench diverged at record ${report.divergence.n}`);
  return Math.round(INPUTS / (cpuMs(before) / 1_000));
}

const best = (values: number[]) => Math.min(...values);
const rows: Record<string, number[]> = {
  'no journal, direct': [],
  'journal, direct': [],
  'no journal, routed': [],
  'journal, routed': [],
};
const speeds: number[] = [];
for (let round = 0; round < ROUNDS; round++) {
  for (const direct of [true, false]) {
    const kind = direct ? 'direct' : 'routed';
    rows[`no journal, ${kind}`]!.push(await measure(silent, direct));
    const directory = mkdtempSync(join(tmpdir(), 'statelet-bench-'));
    rows[`journal, ${kind}`]!.push(await measure(openJournal({ directory, incarnation: header.incarnation }), direct));
    rmSync(directory, { recursive: true });
  }
  speeds.push(await recordAndReplay());
}
console.log(`kernel, ${PODS} pods, ${INPUTS} inputs, best of ${ROUNDS} rounds, CPU of the whole process`);
for (const [name, values] of Object.entries(rows)) {
  const control = best(rows[`no journal, ${name.endsWith('direct') ? 'direct' : 'routed'}`]!);
  console.log(
    `  ${name.padEnd(20)} ${best(values).toFixed(1).padStart(6)} us an input   ${(best(values) / control).toFixed(2)} x control`,
  );
}
console.log(`  replay with comparison ${Math.max(...speeds).toLocaleString('en')} inputs/s`);
