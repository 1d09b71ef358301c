/** How many logs came to each outcome. */
import type { Outcome, Verdict } from './outcome.ts';

export type Totals = Readonly<Record<Verdict, number>>;

export function totalsOf(outcomes: readonly Outcome[]): Totals {
  const totals = { same: 0, divergence: 0, 'non-deterministic': 0, invalid: 0, 'not-tested': 0 };
  for (const { verdict } of outcomes) totals[verdict]++;
  return totals;
}
