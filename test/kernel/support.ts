/**
 * A small system with everything that the kernel must record: children, operations, timers, random numbers, crashes,
 * streams.
 */
import { expect } from 'vitest';
import type { EffectResult, Performer } from '../../src/kernel/effects.ts';
import { Decoder } from '../../src/kernel/journal/decoder.ts';
import { Encoder } from '../../src/kernel/journal/encoder.ts';
import type { JournalSink } from '../../src/kernel/journal/writer.ts';
import { Kernel, type KernelOptions } from '../../src/kernel/kernel.ts';
import { FORMAT_VERSION, type KernelRecord } from '../../src/kernel/records.ts';
import {
  assign,
  line,
  now,
  type OperationTable,
  once,
  type PlainError,
  pick,
  query,
  random,
  sendParent,
  sendTo,
  setup,
  stopChild,
  stream,
  to,
} from '../../src/kernel/xstate.ts';

const operations = {
  'world.look': query<{ what: string }, { seen: string }>(),
  'world.make': once<{ name: string }, { made: string }>(),
  'world.listen': stream<{ topic: string }, { readonly type: 'heard'; readonly word: string }>(),
} satisfies OperationTable;

type WorkerEvent =
  | { type: 'work'; name: string }
  | { type: 'explode' }
  | { type: 'rest' }
  | { type: 'heard'; word: string };

export const workerMachine = setup({
  types: {
    input: {} as { name: string },
    context: {} as { name: string; done: string[]; chance: number; lastMs: number },
    events: {} as WorkerEvent,
  },
  actors: pick(operations, 'world.make', 'world.listen'),
}).createMachine({
  id: 'worker',
  context: ({ input }) => ({ name: input.name, done: [], chance: 0, lastMs: 0 }),
  invoke: { id: 'listen', src: 'world.listen', input: ({ context }) => ({ topic: context.name }), onError: {} },
  initial: 'idle',
  on: {
    explode: {
      actions: [
        sendTo(to('ledger'), { type: 'noted', text: 'this must never be seen' }),
        assign(() => {
          throw new Error('exploded');
        }),
      ],
    },
    heard: { actions: assign({ done: ({ context, event }) => [...context.done, `heard ${event.word}`].slice(-5) }) },
  },
  states: {
    idle: {
      on: {
        work: { target: 'making', actions: assign({ lastMs: (args) => now(args), chance: (args) => random(args) }) },
      },
      after: {
        5_000: { actions: sendTo(to('ledger'), ({ context }) => ({ type: 'noted', text: `${context.name} bored` })) },
      },
    },
    making: {
      invoke: {
        id: 'make',
        src: 'world.make',
        input: ({ context }) => ({ name: context.name }),
        onDone: {
          target: 'idle',
          actions: [
            assign({ done: ({ context, event }) => [...context.done, event.output.made].slice(-5) }),
            line('info', ({ context }) => ['made a thing', { worker: context.name }]),
            sendParent(({ context }) => ({ type: 'worker.made', name: context.name })),
          ],
        },
        onError: 'backingOff',
      },
      on: { rest: 'idle' },
    },
    backingOff: { after: { 1_000: 'making' }, on: { rest: 'idle' } },
  },
});

const ledgerMachine = setup({
  types: { context: {} as { notes: string[] }, events: {} as { type: 'noted'; text: string } },
}).createMachine({
  id: 'ledger',
  context: { notes: [] },
  on: { noted: { actions: assign({ notes: ({ context, event }) => [...context.notes, event.text].slice(-10) }) } },
});

type BossEvent =
  | { type: 'hire'; name: string }
  | { type: 'fire'; name: string }
  | { type: 'order'; name: string }
  | { type: 'bomb'; name: string }
  | { type: 'shutdown' }
  | { type: 'worker.made'; name: string }
  | { type: 'xstate.error.actor.worker'; actorId: string; error: PlainError };

const workerRef = (name: string) => `worker-${name}`;

export const bossMachine = setup({
  types: { context: {} as { made: number; crashed: string[] }, events: {} as BossEvent },
  actors: { worker: workerMachine, ledger: ledgerMachine, ...pick(operations, 'world.look') },
}).createMachine({
  id: 'boss',
  context: { made: 0, crashed: [] },
  invoke: { id: 'ledger', src: 'ledger', systemId: 'ledger', onError: {} },
  initial: 'opening',
  on: {
    hire: {
      guard: ({ context, event }) => !context.crashed.includes(event.name),
      actions: assign(({ event, spawn, self }) => {
        const id = workerRef(event.name);
        if (!self.getSnapshot().children[id]) spawn('worker', { id, input: { name: event.name } });
        return {};
      }),
    },
    fire: { actions: stopChild(({ event }) => workerRef(event.name)) },
    order: {
      guard: ({ event }) => event.name !== '',
      actions: sendTo(
        ({ event, self }) => self.getSnapshot().children[workerRef(event.name)] ?? self,
        ({ event }) => ({
          type: 'work',
          name: event.name,
        }),
      ),
    },
    bomb: {
      actions: sendTo(({ event, self }) => self.getSnapshot().children[workerRef(event.name)] ?? self, {
        type: 'explode',
      }),
    },
    'worker.made': { actions: assign({ made: ({ context }) => context.made + 1 }) },
    'xstate.error.actor.*': {
      actions: [
        assign({
          crashed: ({ context, event }) => [...context.crashed, (event as { actorId: string }).actorId].slice(-5),
        }),
        stopChild(({ event }) => (event as { actorId: string }).actorId),
      ],
    },
    shutdown: '.closed',
  },
  states: {
    opening: {
      invoke: {
        id: 'look',
        src: 'world.look',
        input: { what: 'weather' },
        onDone: 'open',
        onError: { target: 'open', actions: line('warn', 'the weather is unknown') },
      },
    },
    open: {},
    closed: { type: 'final' },
  },
  output: ({ context }) => ({ made: context.made }),
});

export const header = (seed = 7): KernelOptions['header'] => ({
  version: FORMAT_VERSION,
  incarnation: 'i1',
  seed,
  node: 'n',
  bootId: 'b',
  build: { statelet: '0', node: '26', xstate: '5', machines: {} },
  input: {},
});

/** Keeps records in memory as they are read back from the lines of a journal; durable at once. */
export class MemorySink implements JournalSink {
  readonly records: KernelRecord[] = [];
  wantsCheckpoint = false;
  private readonly blobs = new Map<unknown, string>();
  private readonly encoder = new Encoder((sha256, json) => this.blobs.set(sha256, json));
  private readonly decoder = new Decoder((sha256) => {
    const json = this.blobs.get(sha256)!;
    return { value: JSON.parse(json), bytes: json.length };
  });

  append(record: KernelRecord): void {
    const [text, line] = [JSON.stringify(record), this.encoder.encode(record)];
    const read = JSON.stringify(this.decoder.decode(JSON.parse(line), Buffer.byteLength(line), false));
    // A value that was changed after its record is read as it was.
    if (read !== text) throw new Error(`the journal gives back ${read} where ${text} was recorded, as ${line}`);
    this.records.push(JSON.parse(text) as KernelRecord);
  }
  commit(): void {}
  whenDurable(callback: () => void): void {
    callback();
  }
  writeCheckpoint(): void {}
  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** A world controlled by the test: requests wait until the test answers them. */
export class HandWorld implements Performer {
  readonly open = new Map<
    number,
    { name: string; resume: boolean; settle: (r: EffectResult) => void; emit: (e: never) => void }
  >();
  cancelled: number[] = [];
  perform(request: Parameters<Performer['perform']>[0], settle: (r: EffectResult) => void, emit: (e: never) => void) {
    this.open.set(request.id, { name: request.name, resume: request.resume, settle, emit });
    return () => {
      this.open.delete(request.id);
      this.cancelled.push(request.id);
    };
  }
  answer(name: string, result: EffectResult): void {
    const entry = [...this.open].find(([, open]) => open.name === name);
    expect(entry, `an open request ${name}`).toBeDefined();
    this.open.delete(entry![0]);
    entry![1].settle(result);
  }
}

/** A clock controlled by the test. */
export class HandTime {
  ms = 1_000_000;
  private armed: { due: number; fire: () => void }[] = [];
  now(): number {
    return this.ms;
  }
  arm(due: number, fire: () => void): () => void {
    const timer = { due, fire };
    this.armed.push(timer);
    return () => void (this.armed = this.armed.filter((other) => other !== timer));
  }
  advance(ms: number): void {
    const end = this.ms + ms;
    for (;;) {
      const next = this.armed.filter((timer) => timer.due <= end).sort((a, b) => a.due - b.due)[0];
      if (!next) break;
      this.ms = Math.max(this.ms, next.due);
      this.armed = this.armed.filter((timer) => timer !== next);
      next.fire();
    }
    this.ms = end;
  }
}

export function bootBoss(overrides: Partial<KernelOptions> = {}) {
  const sink = new MemorySink();
  const world = new HandWorld();
  const time = new HandTime();
  const kernel = new Kernel({
    machine: bossMachine,
    header: header(),
    sink,
    performer: world,
    time,
    ...overrides,
  }).boot();
  return { kernel, sink, world, time };
}
