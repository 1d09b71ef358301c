/** `statelet coverage LOG…`: the states and transitions of the charts that these journals covered. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { JournalError } from '../../kernel/journal/errors.ts';
import { NotReplayable, replay } from '../../kernel/replay.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { journalAt, refuse } from '../insight/command.ts';
import {
  Coverage,
  type CoveredChart,
  describeCoverage,
  lcovOf,
  listingOf,
  shareOf,
  totalPercent,
} from '../insight/coverage.ts';
import { replayOptions } from '../insight/replayed.ts';
import { printable, printableJson } from '../printable.ts';
import { logsOf } from '../replay/logs.ts';
import { worstOf } from '../replay/outcome.ts';

export interface CoverageOptions {
  readonly output: string;
  readonly missing?: boolean;
  /** Folder for the listings of the charts, to whose lines LCOV refers. */
  readonly charts?: string;
  readonly atLeast?: string;
}

const FORMATS = ['text', 'json', 'lcov'];
/** The name of that folder in a report without listings. */
const CHARTS = 'charts';

export function coverageCommand(named: readonly string[], options: CoverageOptions): number {
  const { output, charts: folder, missing = false } = options;
  if (!FORMATS.includes(output)) {
    return refuse('coverage', `--output is ${FORMATS.join(', ')}, not ${JSON.stringify(output)}`, exitCodes.usage);
  }
  const atLeast = Number(options.atLeast ?? 0);
  if (!(atLeast >= 0 && atLeast <= 100)) {
    return refuse('coverage', `--at-least is a percentage, not ${options.atLeast}`, exitCodes.usage);
  }
  const coverage = new Coverage(kubeletMachine);
  const codes = logsOf(named).map((log) => replayed(log, coverage));
  const charts = coverage.charts();
  if (folder !== undefined) writeListings(folder, charts);
  const fileOf = (machine: string): string => join(folder ?? CHARTS, `${machine}.txt`);
  if (output === 'text') process.stdout.write(printable(describeCoverage(charts, missing)));
  else process.stdout.write(output === 'lcov' ? lcovOf(charts, fileOf) : `${printableJson(jsonOf(charts))}\n`);
  const percent = totalPercent(charts);
  if (percent >= atLeast) return worstOf(codes);
  const why = `${percent.toFixed(1)}% of states and transitions were reached, not ${atLeast}%`;
  return worstOf([...codes, refuse('coverage', why, exitCodes.budgetExceeded)]);
}

/** A journal that this build does not replay completely counts up to its first difference, and is reported. */
function replayed(log: string, coverage: Coverage): number {
  try {
    const { divergence } = replay({ ...replayOptions(journalAt(log, undefined)), onStep: coverage.take });
    if (!divergence) return exitCodes.same;
    return refuse('coverage', `${log}: replay differs from record ${divergence.n} on`, exitCodes.divergence);
  } catch (thrown) {
    if (thrown instanceof JournalError) return refuse('coverage', thrown.message, exitCodeOf(thrown));
    if (thrown instanceof NotReplayable) return refuse('coverage', `${log}: ${thrown.message}`, exitCodes.invalidLog);
    throw thrown;
  }
}

function writeListings(folder: string, charts: readonly CoveredChart[]): void {
  mkdirSync(folder, { recursive: true });
  for (const chart of charts) writeFileSync(join(folder, `${chart.machine}.txt`), listingOf(chart));
}

const jsonOf = (charts: readonly CoveredChart[]): unknown => ({
  version: 1,
  states: shareOf(charts, 'state'),
  transitions: shareOf(charts, 'transition'),
  machines: charts,
});
