/** `statelet minimize JOURNAL` and `--seed N`: the smallest journal that fails in the same way. */
import { existsSync, readdirSync } from 'node:fs';
import { JournalError } from '../../kernel/journal/errors.ts';
import type { BuildInfo } from '../../kernel/records.ts';
import { NotReplayable } from '../../kernel/replay.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';
import { type Problem, type Script, type SimulationReport, STEPS, simulate } from '../../simulation/simulation.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { journalAt, refuse } from '../insight/command.ts';
import { minimizeJournal } from '../minimize/minimize-journal.ts';
import { reduce } from '../minimize/reduce.ts';
import { printable, printableJson } from '../printable.ts';
import { shellLine, thisBuild } from '../replay/outcome.ts';
import { lineFor, writeJournal, writeStarts } from '../run-seed.ts';

export interface MinimizeCommandOptions {
  readonly incarnation?: string;
  readonly seed?: string;
  readonly shows?: string;
  readonly strict?: boolean;
  readonly seconds: string;
  readonly output: string;
  readonly format: string;
}

const INCARNATION = '000001';

/** The result of both kinds of minimizing. */
interface Minimized {
  readonly what: string;
  readonly noun: 'inputs' | 'steps';
  readonly before: number;
  readonly after: number;
  readonly trials: number;
  readonly seconds: number;
  /** False if the time limit was reached first. */
  readonly isMinimal: boolean;
  readonly journal: string;
  readonly reproduce: string;
}

export async function minimizeCommand(log: string | undefined, options: MinimizeCommandOptions): Promise<number> {
  const wrong = usageError(log, options);
  if (wrong !== undefined) return refuse('minimize', wrong, exitCodes.usage);
  const beganMs = performance.now();
  const deadlineMs = beganMs + Number(options.seconds) * 1_000;
  try {
    const minimized = await (log === undefined ? ofSeed(options, deadlineMs) : ofJournal(log, options, deadlineMs));
    if (typeof minimized === 'string') return refuse('minimize', minimized, exitCodes.expectationMissing);
    const whole: Minimized = { ...minimized, seconds: Math.round(performance.now() - beganMs) / 1_000 };
    process.stdout.write(options.format === 'json' ? `${printableJson({ version: 1, ...whole })}\n` : describe(whole));
    return exitCodes.same;
  } catch (thrown) {
    if (thrown instanceof JournalError) return refuse('minimize', thrown.message, exitCodeOf(thrown));
    if (thrown instanceof NotReplayable) return refuse('minimize', thrown.message, exitCodes.invalidLog);
    throw thrown;
  }
}

function usageError(
  log: string | undefined,
  { seed, seconds, format, shows, output }: MinimizeCommandOptions,
): string | undefined {
  if ((log === undefined) === (seed === undefined)) return 'name a journal, or --seed N';
  if (seed !== undefined && !/^\d{1,9}$/.test(seed)) return `--seed is a number, not ${seed}`;
  if (shows !== undefined && seed !== undefined) return '--shows is for journals: a seed shows what rule it breaks';
  if (!/^\d{1,5}$/.test(seconds)) return `--seconds is a number, not ${seconds}`;
  if (format !== 'text' && format !== 'json') return `--format is text or json, not ${JSON.stringify(format)}`;
  if (existsSync(output) && readdirSync(output).length > 0)
    return `${output} has something in it; name a new folder by --output`;
  return undefined;
}

type MinimizedCase = Omit<Minimized, 'seconds'>;

async function ofJournal(
  log: string,
  { incarnation, shows, strict = false, output }: MinimizeCommandOptions,
  deadlineMs: number,
): Promise<MinimizedCase | string> {
  const journal = journalAt(log, incarnation);
  if (journal.checkpoint)
    return `${log} begins with a checkpoint: only a journal that begins with its start has every input`;
  const records = [...journal.records];
  const options = { machine: kubeletMachine, records, strict, deadlineMs, ...(shows === undefined ? {} : { shows }) };
  const minimized = minimizeJournal(options);
  if (typeof minimized === 'string') return `${log}: ${minimized}`;
  const { what, inputs, trials, isMinimal } = minimized;
  // The start has a fixed number: a foreign journal may name any.
  const renamed = minimized.records.map((record) =>
    record.k === 'header' ? { ...record, incarnation: INCARNATION } : record,
  );
  await writeJournal(output, INCARNATION, renamed);
  const reproduce = shellLine(['statelet', 'replay', output, ...(strict ? ['--strict'] : [])]);
  return { what, noun: 'inputs', ...inputs, trials, isMinimal, journal: output, reproduce };
}

async function ofSeed({ seed, output }: MinimizeCommandOptions, deadlineMs: number): Promise<MinimizedCase | string> {
  const minimized = minimizeSeed(Number(seed), thisBuild(), deadlineMs);
  if (typeof minimized === 'string') return minimized;
  const { what, steps, trials, isMinimal, report } = minimized;
  await writeStarts(report, output);
  return { what, noun: 'steps', ...steps, trials, isMinimal, journal: output, reproduce: lineFor(report.script) };
}

function describe({ what, noun, before, after, trials, seconds, isMinimal, journal, reproduce }: Minimized): string {
  const end = isMinimal ? `without any of them it does not come` : 'time was over; --seconds gives it more';
  return printable(
    `${what}\n  ${after} of ${before} ${noun} are enough (${trials} trials in ${seconds.toFixed(1)} s; ${end})\n` +
      `  journal: ${journal}\n  again: ${reproduce}\n`,
  );
}

interface MinimizedSeed {
  readonly what: string;
  readonly steps: { readonly before: number; readonly after: number };
  readonly trials: number;
  readonly isMinimal: boolean;
  readonly report: SimulationReport;
}

/** Stands for all faults of calls in the list of disturbances. */
const FAULTS = -1;

/** A string result is the reason why nothing can be minimized. */
function minimizeSeed(seed: number, build: BuildInfo, deadlineMs: number): MinimizedSeed | string {
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
