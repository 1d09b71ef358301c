/** Proves K1 to K6 of the kernel, E1 to E3 of the outbox, C1 to C3 of the clock, and atomic transitions. */
import { describe, expect, it } from 'vitest';
import { Kernel } from '../../src/kernel/kernel.ts';
import type { KernelRecord } from '../../src/kernel/records.ts';
import { replay } from '../../src/kernel/replay.ts';
import { assign, setup } from '../../src/kernel/xstate.ts';
import { bootBoss, bossMachine, HandTime, HandWorld, header, MemorySink } from './support.ts';

const kinds = (records: readonly KernelRecord[]) => records.map((record) => record.k);
const messagesOf = (records: readonly KernelRecord[]) =>
  records.flatMap((r) => (r.k === 'message' ? [`${r.from} -> ${r.to}: ${r.event.type}`] : []));

describe('a turn', () => {
  it('begins with its input and ends with its digest, without a gap in the numbers', () => {
    const { kernel, sink } = bootBoss();
    kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
    expect(sink.records.map((record) => record.n)).toEqual(sink.records.map((_, i) => i));
    expect(kinds(sink.records)[0]).toBe('header');
    const turn = sink.records.slice(kinds(sink.records).indexOf('in'));
    expect(kinds(turn)).toEqual(['in', 'message', 'effect', 'state', 'end']);
    expect(messagesOf(turn)).toEqual(['boss -> boss/worker-a: xstate.init']);
  });

  it('has one object for the same state of two actors', () => {
    const lamp = setup({}).createMachine({
      id: 'lamp',
      type: 'parallel',
      states: { light: { initial: 'off', states: { off: { on: { press: 'on' } }, on: {} } }, foot: {} },
    });
    const room = setup({ actors: { lamp } }).createMachine({
      id: 'room',
      invoke: [
        { id: 'left', src: 'lamp' },
        { id: 'right', src: 'lamp' },
      ],
    });
    const values: unknown[] = [];
    const onTurn = (records: readonly KernelRecord[]) =>
      values.push(...records.flatMap((record) => (record.k === 'state' && record.at !== 'room' ? [record.value] : [])));
    const { kernel } = bootBoss({ machine: room, onTurn });
    for (const at of ['room/left', 'room/right']) kernel.dispatch(at, { type: 'press' }, 'test');
    const off = { light: 'off', foot: {} };
    const on = { light: 'on', foot: {} };
    expect(values).toEqual([off, off, on, on]);
    expect(new Set(values).size).toBe(2);
  });

  it('names the cause of every message', () => {
    const { kernel, world, sink } = bootBoss();
    kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
    kernel.dispatch('boss', { type: 'order', name: 'a' }, 'test');
    world.answer('world.make', { output: { made: 'chair' } });
    const result = sink.records.find((record) => record.k === 'result')!;
    const message = sink.records.find((record) => record.k === 'message' && record.event.type === 'worker.made');
    expect(message).toMatchObject({ from: 'boss/worker-a', to: 'boss', cause: result.n });
  });

  it('writes log lines with the actor that spoke', () => {
    const { world, sink } = bootBoss();
    world.answer('world.look', { error: { name: 'Error', message: 'fog', retriable: false } });
    expect(sink.records.find((r) => r.k === 'log')).toMatchObject({
      at: 'boss',
      level: 'warn',
      text: 'the weather is unknown',
    });
  });

  it('does not let an input in while it runs', () => {
    const seen: string[] = [];
    const { kernel } = bootBoss({
      onTurn: (records, kernel) => {
        const input = records[0]!;
        seen.push(`${kernel.turn}:${input.k === 'in' ? input.event.type : input.k}`);
        if (seen.length === 2) kernel.dispatch('boss', { type: 'order', name: 'a' }, 'test');
      },
    });
    kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
    expect(seen).toEqual(['1:header', '2:hire', '3:order']);
  });
});

describe('operations', () => {
  it('are cancelled when the state that asked is left, and a late result is dropped before the journal', () => {
    const { kernel, world, sink } = bootBoss();
    kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
    kernel.dispatch('boss', { type: 'order', name: 'a' }, 'test');
    const [id, open] = [...world.open].find(([, request]) => request.name === 'world.make')!;
    kernel.dispatch('boss/worker-a', { type: 'rest' }, 'test');
    expect(world.cancelled).toEqual([id]);
    expect(sink.records.find((record) => record.k === 'cancel')).toMatchObject({ id });
    const before = sink.records.length;
    open.settle({ output: { made: 'late' } });
    expect(sink.records.length).toBe(before);
  });

  it('of class once wait until their turn is durable, queries do not', () => {
    const waiting: (() => void)[] = [];
    const sink = new MemorySink();
    sink.whenDurable = (callback) => void waiting.push(callback);
    const { kernel, world } = bootBoss({ sink });
    expect([...world.open.values()].map((open) => open.name)).toEqual(['world.look']);
    kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
    kernel.dispatch('boss', { type: 'order', name: 'a' }, 'test');
    expect([...world.open.values()].map((open) => open.name)).toEqual(['world.look', 'world.listen']);
    for (const callback of waiting) callback();
    expect([...world.open.values()].map((open) => open.name)).toContain('world.make');
  });

  it('stream their items to the actor that asked', () => {
    const { kernel, world } = bootBoss();
    kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
    const listening = [...world.open.values()].find((open) => open.name === 'world.listen')!;
    listening.emit({ type: 'heard', word: 'hello' } as never);
    const worker = kernel.snapshotOf('boss/worker-a') as { context: { done: string[] } };
    expect(worker.context.done).toEqual(['heard hello']);
  });
});

describe('time', () => {
  it('is an input: timers fire at their deadline, one turn each, in order', () => {
    const { kernel, time, sink } = bootBoss();
    kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
    time.advance(2);
    kernel.dispatch('boss', { type: 'hire', name: 'b' }, 'test');
    time.advance(10_000);
    const fired = sink.records.filter((record) => record.k === 'timer');
    expect(fired.map((record) => [record.at, record.t])).toEqual([
      ['boss/worker-a', 1_005_000],
      ['boss/worker-b', 1_005_002],
    ]);
  });

  it('survives a checkpoint with its deadline', () => {
    const { kernel, time } = bootBoss();
    kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
    time.advance(4_000);
    const checkpoint = kernel.checkpoint();
    const later = new HandTime();
    later.ms = 1_004_000;
    const sink = new MemorySink();
    new Kernel({ machine: bossMachine, header: header(), sink, performer: new HandWorld(), time: later }).restore(
      checkpoint,
    );
    later.advance(1_500);
    expect(sink.records.find((record) => record.k === 'timer')).toMatchObject({ t: 1_005_000, at: 'boss/worker-a' });
  });
});

describe('a crash', () => {
  it('is contained: no partial effect, children stopped, the parent notified, other actors unaffected', () => {
    const { kernel, world, sink } = bootBoss();
    kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
    kernel.dispatch('boss', { type: 'hire', name: 'b' }, 'test');
    kernel.dispatch('boss', { type: 'bomb', name: 'a' }, 'test');
    expect(messagesOf(sink.records)).toContain('boss/worker-a -> boss: xstate.error.actor.worker-a');
    expect(JSON.stringify(sink.records)).not.toContain('this must never be seen');
    expect(world.cancelled).toHaveLength(1);
    expect(kernel.addresses).not.toContain('boss/worker-a');
    kernel.dispatch('boss', { type: 'order', name: 'b' }, 'test');
    expect([...world.open.values()].map((open) => open.name)).toContain('world.make');
  });

  it.each([
    ['NaN', Number.NaN, 'later'],
    ['Infinity', Number.POSITIVE_INFINITY, 'later'],
    ['NaN', Number.NaN, 'first'],
  ])('of an actor that wants a timer after %s is contained: %s, %s', (_text, delayMs, initial) => {
    const child = setup({ delays: { never: () => delayMs } }).createMachine({
      id: 'child',
      initial,
      states: { later: { on: { go: 'first' } }, first: { after: { never: 'later' } } },
    });
    const machine = setup({ actors: { child } }).createMachine({
      id: 'parent',
      initial: 'idle',
      on: { 'xstate.error.actor.*': '.told' },
      states: { idle: { on: { begin: 'working' } }, working: { invoke: { id: 'child', src: 'child' } }, told: {} },
    });
    const { kernel, sink } = bootBoss({ machine });
    kernel.dispatch('parent', { type: 'begin' }, 'test');
    kernel.dispatch('parent/child', { type: 'go' }, 'test');
    expect(JSON.stringify(sink.records)).toContain(`a delay of ${delayMs} milliseconds is no time`);
    expect(kernel.snapshotOf('parent')).toMatchObject({ value: 'told' });
    expect(kernel.timers.list()).toEqual([]);
  });

  it.each([
    ['Date.now()', () => Date.now()],
    ['Math.random()', () => Math.random()],
    ['setTimeout()', () => setTimeout(() => {}, 1)],
  ])('follows an impure machine: %s', (name, impure) => {
    const machine = setup({ types: { context: {} as { x: unknown } } }).createMachine({
      id: 'impure',
      context: { x: null },
      on: { go: { actions: assign({ x: () => impure() }) } },
    });
    let end: unknown;
    const kernel = new Kernel({ machine, header: header(), sink: new MemorySink(), onStopped: (e) => (end = e) }).boot(
      1,
    );
    kernel.dispatch('impure', { type: 'go' }, 'test');
    expect(end).toMatchObject({ error: { message: expect.stringContaining(name) } });
    expect(Date.now()).toBeGreaterThan(1e12);
  });

  it('of the root is told, and nothing is taken after it', () => {
    const { kernel, sink } = bootBoss();
    kernel.dispatch('boss', { type: 'shutdown' }, 'test');
    const length = sink.records.length;
    kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
    expect(sink.records.length).toBe(length);
  });
});

describe('replay', () => {
  function recorded(): KernelRecord[] {
    const { kernel, world, sink, time } = bootBoss();
    kernel.dispatch('boss', { type: 'hire', name: 'a' }, 'test');
    kernel.dispatch('boss', { type: 'order', name: 'a' }, 'test');
    world.answer('world.make', { error: { name: 'Error', message: 'no wood', retriable: true } });
    time.advance(1_000);
    world.answer('world.make', { output: { made: 'chair' } });
    time.advance(20_000);
    kernel.dispatch('boss', { type: 'bomb', name: 'a' }, 'test');
    kernel.dispatch('boss', { type: 'shutdown' }, 'test');
    return sink.records;
  }

  it('of an unchanged log finds no difference', () => {
    const records = recorded();
    const report = replay({ machine: bossMachine, records });
    expect(report.divergence).toBeNull();
    expect(report.records).toBe(records.length);
  });

  it.each([
    ['a message', (r: KernelRecord) => r.k === 'message' && r.event.type === 'worker.made'],
    ['a request', (r: KernelRecord) => r.k === 'effect' && r.name === 'world.make'],
    ['a log line', (r: KernelRecord) => r.k === 'log'],
    ['a digest', (r: KernelRecord) => r.k === 'end' && r.turn === 3],
  ])('finds a change in %s at its record', (_name, where) => {
    const records = structuredClone(recorded()) as (KernelRecord & Record<string, unknown>)[];
    const changed = records.find(where)!;
    if (changed.k === 'message') Object.assign(changed.event, { name: 'z' });
    if (changed.k === 'effect') Object.assign(changed, { input: { name: 'z' } });
    if (changed.k === 'log') Object.assign(changed, { text: 'z' });
    if (changed.k === 'end') Object.assign(changed, { digest: 'z' });
    const report = replay({ machine: bossMachine, records });
    const kind = changed.k === 'end' ? 'digest' : 'different';
    expect(report.divergence).toMatchObject({ n: changed.n, kind, behind: [] });
  });

  it('finds what is missing and what is too much', () => {
    const records = recorded();
    const at = records.findIndex((record) => record.k === 'log');
    const without = records.filter((_, i) => i !== at);
    const left = records[at]!;
    expect(replay({ machine: bossMachine, records: without }).divergence).toMatchObject({
      n: left.n,
      kind: 'extra',
      expected: null,
      actual: left,
    });
    const twice = [...records.slice(0, at + 1), records[at]!, ...records.slice(at + 1)];
    expect(replay({ machine: bossMachine, records: twice }).divergence).toMatchObject({
      n: left.n,
      kind: 'missing',
      expected: left,
      actual: null,
    });
  });
});

describe('a turn that throws', () => {
  const countMachine = setup({
    types: { context: {} as { count: unknown }, events: {} as { type: 'add' | 'break' } },
  }).createMachine({
    id: 'count',
    context: { count: 0 },
    on: {
      add: { actions: assign({ count: ({ context }) => (context.count as number) + 1 }) },
      // JSON cannot represent it, so the digest of the turn throws.
      break: { actions: assign({ count: () => 1n }) },
    },
  });

  it('ends the kernel, is kept with its input, and throws again in a replay', () => {
    const sink = new MemorySink();
    const ends: unknown[] = [];
    const kernel = new Kernel({
      machine: countMachine,
      header: header(),
      sink,
      onStopped: (end) => ends.push(end),
    }).boot(1);
    for (const type of ['add', 'break', 'add']) kernel.dispatch('count', { type }, 'test');
    expect(kinds(sink.records)).toEqual(['header', 'state', 'end', 'in', 'end', 'in', 'log', 'end']);
    expect(sink.records.slice(-3)).toMatchObject([
      { n: 5, event: { type: 'break' } },
      { n: 6, level: 'fatal', text: 'a turn failed', fields: { err: expect.stringContaining('BigInt') } },
      { n: 7, turn: 2 },
    ]);
    expect(ends).toMatchObject([{ error: { name: 'TypeError' } }]);
    expect(replay({ machine: countMachine, records: sink.records })).toMatchObject({ divergence: null, turns: 3 });
  });

  it('throws where nothing hears of the end', () => {
    const kernel = new Kernel({ machine: countMachine, header: header(), sink: new MemorySink() }).boot(1);
    expect(() => kernel.dispatch('count', { type: 'break' }, 'test')).toThrow('BigInt');
  });
});
