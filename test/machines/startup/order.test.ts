/** The vocabulary of order and its checker, with records made by hand. */
import { describe, expect, it } from 'vitest';
import { checkOrder, isStep, type Promised, stepsTaken } from './order/index.ts';

describe('a step', () => {
  const message = { n: 1, k: 'message', from: 'kubelet', to: 'kubelet/pods', event: { type: 'xstate.init' } };
  const effect = { n: 2, k: 'effect', at: 'kubelet/oomScore', name: 'host.setOomScoreAdj' };
  const result = { n: 3, k: 'result', at: 'kubelet/oomScore', name: 'host.setOomScoreAdj' };
  const log = { n: 4, k: 'log', at: 'kubelet', text: 'Started kubelet' };
  const state = { n: 5, k: 'state', at: 'kubelet', value: { alive: { startup: { run: 'hostname' }, pods: 'absent' } } };
  const all = [message, effect, result, log, state];
  const among = (step: Parameters<typeof isStep>[0]) => all.filter((record) => isStep(step, record));

  it('is a message, by sender, hearer and type', () => {
    expect(among({ sent: 'xstate.init', from: 'kubelet', to: 'kubelet/pods' })).toEqual([message]);
    expect(among({ sent: 'xstate.init', from: 'kubelet', to: 'kubelet/pleg' })).toEqual([]);
    expect(among({ sent: 'pods.started', from: 'kubelet', to: 'kubelet/pods' })).toEqual([]);
  });

  it('is an operation asked for or answered, which are two steps', () => {
    expect(among({ asked: 'host.setOomScoreAdj', at: 'kubelet/oomScore' })).toEqual([effect]);
    expect(among({ answered: 'host.setOomScoreAdj', at: 'kubelet/oomScore' })).toEqual([result]);
    expect(among({ asked: 'host.setOomScoreAdj', at: 'kubelet/other' })).toEqual([]);
  });

  it('is a line, or a state with all that is above it', () => {
    expect(among({ logged: 'Started kubelet', at: 'kubelet' })).toEqual([log]);
    expect(among({ in: 'alive.startup.run.hostname', at: 'kubelet' })).toEqual([state]);
    expect(among({ in: 'alive.startup.run', at: 'kubelet' })).toEqual([state]);
    expect(among({ in: 'alive.startup.run.hostname.deeper', at: 'kubelet' })).toEqual([]);
    expect(among({ in: 'alive.pods.running', at: 'kubelet' })).toEqual([]);
    expect(among({ in: 'alive.constructor', at: 'kubelet' })).toEqual([]);
  });

  it('is none of the records that a damaged journal has in its place', () => {
    expect(
      stepsTaken([
        { n: 0, k: 'dropped' },
        { n: 9, k: 'gap' },
        { n: 10, k: 'state', at: 'kubelet', value: null },
      ]).size,
    ).toBe(0);
  });
});

describe('a promise', () => {
  const line = (n: number, text: string) => ({ n, k: 'log', at: 'kubelet', text });
  const promise: Promised = { before: 'the version is said', after: 'the start is said', row: 'S040', note: 'first' };
  const optional: Promised = { before: 'healthz starts', after: 'the start is said', row: 'S110', note: 'if at all' };

  it('is kept by the first time of each step; what is repeated later changes nothing', () => {
    const records = [line(1, 'Kubelet version'), line(2, 'Started kubelet'), line(3, 'Kubelet version')];
    expect(checkOrder(records, [promise])).toEqual([]);
  });

  it('is broken when the later step comes first, or alone', () => {
    const reversed = [line(1, 'Started kubelet'), line(2, 'Kubelet version')];
    expect(checkOrder(reversed, [promise])).toEqual([{ promise, before: 2, after: 1 }]);
    expect(checkOrder([line(1, 'Started kubelet')], [promise])).toEqual([{ promise, before: null, after: 1 }]);
  });

  it('asks nothing of a boot that has not come so far, or that has no use for the step', () => {
    expect(checkOrder([line(1, 'Kubelet version')], [promise])).toEqual([]);
    expect(checkOrder([line(1, 'Started kubelet')], [optional])).toEqual([]);
  });
});
