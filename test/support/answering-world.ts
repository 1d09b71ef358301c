/** A kernel with one machine, in a world that answers each operation from a table. */
import type { EffectResult, Performer } from '../../src/kernel/effects.ts';
import type { JsonEvent } from '../../src/kernel/json.ts';
import { Kernel } from '../../src/kernel/kernel.ts';
import type { KernelRecord } from '../../src/kernel/records.ts';
import { replay } from '../../src/kernel/replay.ts';
import { type AnyStateMachine, setup } from '../../src/kernel/xstate.ts';
import { header, MemorySink } from '../kernel/support.ts';
import { VirtualTime } from './virtual-world.ts';

/** An answer that takes this long. */
interface Late {
  readonly afterMs: number;
  readonly result: EffectResult;
}

type Answer = EffectResult | Late | 'stream';

/**
 * Answers by the name of the operation: a value, an error, or a function of the input. A `stream` emits what the test
 * gives it.
 */
export type Answers = Readonly<Record<string, Answer | ((input: never) => Answer)>>;

export const late = (afterMs: number, result: EffectResult): Late => ({ afterMs, result });

export const ok = (output: unknown): EffectResult => ({ output });
export const fail = (message: string, code?: string): EffectResult => ({
  error: { name: 'Error', message, retriable: false, ...(code ? { code } : {}) },
});

/** Boots `machine` as the only child of a parent that keeps its messages; the world answers at once. */
export function runUnder(machine: AnyStateMachine, input: unknown, answers: Answers, siblings: readonly string[] = []) {
  const listener = setup({}).createMachine({ id: 'listener', on: { '*': {} } });
  const parent = setup({ actors: { subject: machine, listener } }).createMachine({
    id: 'parent',
    invoke: [
      ...siblings.map((id) => ({ id, src: 'listener' as const, systemId: id, onError: {} })),
      { id: 'subject', src: 'subject', input: input as never, onDone: {}, onError: {} },
    ],
    on: { '*': {} },
  });
  const sink = new MemorySink();
  const time = new VirtualTime(1_000_000);
  const streams = new Map<string, (event: JsonEvent) => void>();
  const performer: Performer = {
    perform(request, settle, emit) {
      const entry = answers[request.name];
      const answer = typeof entry === 'function' ? entry(request.input as never) : entry;
      if (answer === 'stream') streams.set(request.name, emit);
      else if (typeof answer === 'object' && 'afterMs' in answer)
        time.arm(time.now() + answer.afterMs, () => settle(answer.result));
      else if (answer) time.arm(time.now(), () => settle(answer));
      return () => streams.delete(request.name);
    },
  };
  const kernel = new Kernel({ machine: parent, header: header(), sink, performer, time }).boot();
  time.advanceTo(time.now());
  return {
    kernel,
    time,
    emit: (stream: string, event: JsonEvent) => streams.get(stream)!(event),
    send: (event: JsonEvent) => kernel.dispatch('parent/subject', event, 'test'),
    state: () => (kernel.snapshotOf('parent/subject') as { value: unknown } | undefined)?.value,
    sent: () => messages(sink.records),
    asked: () => sink.records.flatMap((record) => (record.k === 'effect' ? [record.name] : [])),
    records: () => sink.records,
    logged: () => sink.records.flatMap((record) => (record.k === 'log' ? [record.text] : [])),
    divergence: () => replay({ machine: parent, records: sink.records }).divergence,
  };
}

/** The messages of the machine to others: `<to>: <event>`, without those of its start. */
const messages = (records: readonly KernelRecord[]) =>
  records.flatMap((record) =>
    record.k === 'message' && record.from === 'parent/subject' ? [{ to: record.to, ...record.event }] : [],
  );
