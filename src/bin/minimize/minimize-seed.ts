/** Finds the smallest script that breaks the same rule as a seed. */
import type { BuildInfo } from '../../kernel/records.ts';
import { type Problem, type Script, type SimulationReport, STEPS, simulate } from '../../simulation/simulation.ts';
import { reduce } from './reduce.ts';

export interface MinimizedSeed {
  readonly what: string;
  readonly steps: { readonly before: number; readonly after: number };
  readonly trials: number;
  readonly isMinimal: boolean;
  readonly report: SimulationReport;
}

/** Represents all faults of calls. */
const FAULTS = -1;

/** A string result is the reason why nothing can be minimized. */
export function minimizeSeed(seed: number, build: BuildInfo, deadlineMs: number): MinimizedSeed | string {
  const whole = simulate({ seed }, build);
  const [problem] = whole.problems;
  if (!problem) return `seed ${seed} breaks no rule`;
  const wantedShape = shapeOf(problem);
  let best = whole;
  const items = [FAULTS, ...Array.from({ length: STEPS }, (_, step) => step)];
  const reduced = reduce(
    items,
    (subset) => {
      const report = simulate(scriptOf(seed, subset), build);
      if (!report.problems.some((other) => shapeOf(other) === wantedShape)) return undefined;
      best = report;
      return subset;
    },
    { deadlineMs },
  );
  return {
    what: `${problem.kind}: ${problem.text}`,
    steps: { before: STEPS, after: reduced.items.filter((item) => item !== FAULTS).length },
    trials: reduced.trials,
    isMinimal: reduced.isMinimal,
    report: best,
  };
}

const scriptOf = (seed: number, items: readonly number[]): Script => ({
  seed,
  steps: items.filter((item) => item !== FAULTS),
  faults: items.includes(FAULTS),
});

/** Identifies a broken rule, independent of pod and time. */
const shapeOf = ({ kind, text }: Problem): string =>
  `${kind} ${text.replace(/\b(?:static|u)\d+-\w+|[0-9a-f]{8,}|\d+/g, '#').slice(0, 60)}`;
