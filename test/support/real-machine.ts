/** A machine in a kernel with real time and real ports, for integration tests of one subsystem. */
import { setTimeout as sleep } from 'node:timers/promises';
import { performerOf } from '../../src/actors/performer.ts';
import { hostTime } from '../../src/kernel/clock.ts';
import { Kernel } from '../../src/kernel/kernel.ts';
import type { KernelRecord } from '../../src/kernel/records.ts';
import { replay } from '../../src/kernel/replay.ts';
import { type AnyStateMachine, setup } from '../../src/kernel/xstate.ts';
import { header, MemorySink } from '../kernel/support.ts';

const POLL_MS = 10;

/** Boots `machine` as `parent/subject`, whose parent keeps its messages. Stop it before its ports are closed. */
export function runForReal(machine: AnyStateMachine, input: unknown, ports: object) {
  const parent = setup({ actors: { subject: machine } }).createMachine({
    id: 'parent',
    initial: 'running',
    states: {
      running: {
        invoke: { id: 'subject', src: 'subject', input: input as never, onDone: {}, onError: {} },
        on: { 'test.stop': 'stopped', '*': {} },
      },
      stopped: { type: 'final' },
    },
  });
  const sink = new MemorySink();
  const performer = performerOf(ports as never);
  const kernel = new Kernel({ machine: parent, header: header(), sink, performer, time: hostTime() }).boot();
  const sent = () =>
    sink.records.flatMap((record) =>
      record.k === 'message' && record.from === 'parent/subject' && record.to === 'parent' ? [record.event] : [],
    );
  return {
    sent,
    send: (event: { readonly type: string }) => kernel.dispatch('parent/subject', event, 'test'),
    state: () => JSON.stringify((kernel.snapshotOf('parent/subject') as { value?: unknown } | undefined)?.value),
    logged: () => sink.records.flatMap((record) => (record.k === 'log' ? [record.text] : [])),
    records: (): readonly KernelRecord[] => sink.records,
    divergence: () => replay({ machine: parent, records: sink.records }).divergence,
    stop: () => kernel.dispatch('parent', { type: 'test.stop' }, 'test'),
  };
}

/** Waits until it is true; otherwise fails with the actual state. */
export async function until(holds: () => boolean, whatIs: () => unknown, limitMs = 60_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`it did not come about: ${JSON.stringify(whatIs())}`);
    await sleep(POLL_MS);
  }
}
