/** The counter of a probe: proves C1 to C3 of `counter.ts`. */
import { describe, expect, it } from 'vitest';
import type { Attempt } from '../../../src/actors/probe/attempt.ts';
import { newTally, REPORT_REFILL_MS, REPORTS_BURST, tally } from '../../../src/actors/probe/counter.ts';
import type { Verdict } from '../../../src/machines/model/operations/probe.ts';

const RESULTS: Readonly<Record<string, Attempt>> = {
  S: { result: 'success', output: 'ok' },
  F: { result: 'failure', output: 'a' },
  G: { result: 'failure', output: 'b' },
  W: { result: 'warning', output: 'moved' },
  E: { result: 'errored', output: 'no runtime' },
};

/** The output after each attempt: verdicts in capitals, reports by the letter of their result. */
function outcome(
  attempts: string,
  verdict: Verdict | null,
  successThreshold: number,
  failureThreshold: number,
): string {
  let state = newTally(verdict, 0);
  return attempts
    .split('')
    .map((letter, index) => {
      const step = tally(state, { successThreshold, failureThreshold }, RESULTS[letter]!, index * 1_000);
      state = step.tally;
      const words = step.items.map((item) =>
        item.type === 'probe.judged' ? item.verdict.toUpperCase() : `${item.result[0]}:${item.output}`,
      );
      return words.join('+') || '.';
    })
    .join(' ');
}

describe('the verdict of a probe', () => {
  it.each<[attempts: string, from: Verdict | null, success: number, failure: number, expected: string]>([
    // readiness starts as failure
    ['SSS', 'failure', 1, 3, 'SUCCESS . .'],
    ['SSS', 'failure', 3, 3, '. . SUCCESS'],
    ['SFSS', 'failure', 2, 3, '. f:a . SUCCESS'],
    ['SFFFF', 'failure', 1, 3, 'SUCCESS f:a f:a f:a+FAILURE f:a'],
    ['FFFFS', 'failure', 1, 3, 'f:a f:a f:a f:a SUCCESS'],
    ['SFFSFFS', 'failure', 1, 3, 'SUCCESS f:a f:a . f:a f:a .'],
    ['SFFFSFFF', 'failure', 1, 3, 'SUCCESS f:a f:a f:a+FAILURE SUCCESS f:a f:a f:a+FAILURE'],
    // liveness starts as success
    ['SSSF', 'success', 1, 1, '. . . f:a+FAILURE'],
    ['FSFFF', 'success', 1, 3, 'f:a . f:a f:a f:a+FAILURE'],
    // startup starts without any
    ['FFS', null, 1, 20, 'f:a f:a SUCCESS'],
    ['FF', null, 1, 2, 'f:a f:a+FAILURE'],
    // each failure is told, whatever the one before was
    ['FGGF', 'failure', 1, 3, 'f:a f:b f:b f:a'],
    // a warning is a success with a word
    ['WWF', 'failure', 1, 1, 'w:moved+SUCCESS w:moved f:a+FAILURE'],
    // an error counts for nothing
    ['SFEFEF', 'failure', 1, 3, 'SUCCESS f:a e:no runtime f:a e:no runtime f:a+FAILURE'],
    ['EEEE', 'success', 1, 1, 'e:no runtime e:no runtime e:no runtime e:no runtime'],
  ])('of %s from %s with %i/%i is %s', (attempts, from, success, failure, expected) => {
    expect(outcome(attempts, from, success, failure)).toBe(expected);
  });

  it('changes not more often than its attempts allow, whatever they are', () => {
    const thresholds = { successThreshold: 2, failureThreshold: 3 };
    let state = newTally('failure', 0);
    let verdicts = 0;
    for (let n = 0; n < 1_000; n++) {
      const step = tally(state, thresholds, n % 5 < 2 ? RESULTS['S']! : RESULTS['F']!, n);
      state = step.tally;
      verdicts += step.items.filter(({ type }) => type === 'probe.judged').length;
    }
    expect(verdicts).toBe(400);
  });
});

it('25 the largest threshold is counted to, not reached', () => {
  const thresholds = { successThreshold: 1, failureThreshold: 2_147_483_647 };
  let state = newTally('success', 0);
  for (let n = 0; n < 1_000; n++) {
    const step = tally(state, thresholds, RESULTS['F']!, n);
    expect(step.items.filter(({ type }) => type === 'probe.judged')).toEqual([]);
    state = step.tally;
  }
});

describe('reports', () => {
  it('are bounded when each attempt says something else', () => {
    const thresholds = { successThreshold: 1, failureThreshold: 3 };
    let state = newTally('failure', 0);
    const reports = (from: number, count: number, periodMs: number): number => {
      let sum = 0;
      for (let n = from; n < from + count; n++) {
        const step = tally(state, thresholds, { result: 'failure', output: `at ${n}` }, n * periodMs);
        state = step.tally;
        sum += step.items.length;
      }
      return sum;
    };
    expect(reports(0, 100, 1)).toBe(REPORTS_BURST);
    expect(reports(100, 10, REPORT_REFILL_MS)).toBe(10);
  });
});
