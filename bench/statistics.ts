/** The figures of a run: medians, ratios to the control of the same round, and the tables that show them. */
import { loadavg } from 'node:os';

export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
};

/** The least value that is not exceeded by this percentage of the values. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)]!;
}

/** The results of one round, in milliseconds or in the measure's unit. */
export interface Round {
  readonly control: number[];
  readonly ours: number[];
}

export interface Measure {
  readonly name: string;
  readonly unit: string;
  /** What the control does, for readers of the ratio. */
  readonly control: string;
  readonly rounds: Round[];
}

export interface Summary {
  readonly name: string;
  readonly unit: string;
  readonly control: Spread;
  readonly ours: Spread;
  /** Median, minimum and maximum of the ratio to the control over all rounds. */
  readonly ratio: Spread;
}

interface Spread {
  readonly n: number;
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

function spread(values: readonly number[]): Spread {
  if (values.length === 0) throw new Error('nothing was measured');
  return { n: values.length, median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

export function summary({ name, unit, rounds }: Measure): Summary {
  return {
    name,
    unit,
    control: spread(rounds.flatMap(({ control }) => control)),
    ours: spread(rounds.flatMap(({ ours }) => ours)),
    ratio: spread(rounds.map(({ control, ours }) => median(ours) / median(control))),
  };
}

const shown = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2));
const range = ({ median, min, max }: Spread): string => `${shown(median)} (${shown(min)}-${shown(max)})`;

export function printMeasures(measures: readonly Measure[]): void {
  const rows = measures.map((measure) => {
    const { name, unit, control, ours, ratio } = summary(measure);
    return [`${name}, ${unit}`, range(ours), range(control), range(ratio), `${ours.n}/${control.n}`, measure.control];
  });
  printTable(['measure', 'ours', 'control', 'ours ÷ control', 'n', 'control is'], rows);
}

export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]!.length)));
  for (const row of [head, ...rows]) {
    console.log(`  ${row.map((cell, i) => cell.padEnd(widths[i]!)).join('  ')}`.trimEnd());
  }
}

export const load = (): string => loadavg()[0]!.toFixed(2);
