/**
 * `statelet replay LOG…`: feeds the inputs of each log to today's machines and reports the first difference.
 *
 * Tells apart a world that is gone (no log, damaged, too new), code that changed (a difference that comes again) and
 * code that is not deterministic (a difference that does not).
 */

import { shortText } from '../../actors/server/visualizer/trim.ts';
import { buildInfo, changedMachines } from '../../kernel/build-info.ts';
import { JournalError } from '../../kernel/journal/index.ts';
import type { BuildInfo, JournalRecord } from '../../kernel/records.ts';
import { type Difference, type Divergence, NotReplayable, replay } from '../../kernel/replay.ts';
import { kubeletMachine } from '../../machines/kubelet.ts';
import { actorOf, recordText } from '../../visualizer/words.ts';
import { exitCodes } from '../exit-codes.ts';
import { journalAt } from '../insight/command.ts';
import { replayOptions } from '../insight/replayed.ts';
import { printable } from '../printable.ts';
import { STATELET_VERSION } from '../version.ts';
import { exitCodeOf } from './journal-errors.ts';

/** Characters of one value on the terminal. */
const VALUE_MAX_CHARS = 200;

export interface ReplayCommandOptions {
  readonly incarnation?: string;
  readonly format: string;
}

interface Outcome {
  readonly log: string;
  readonly code: number;
  readonly verdict: 'same' | 'divergence' | 'non-deterministic' | 'invalid';
  readonly incarnation?: string;
  readonly records?: number;
  readonly turns?: number;
  readonly inputs?: number;
  readonly seconds?: number;
  readonly tornBytes?: number;
  readonly divergence?: Divergence;
  readonly recordedBy?: string;
  readonly machinesChanged?: readonly string[];
  readonly error?: string;
}

export function replayCommand(logs: readonly string[], options: ReplayCommandOptions): number {
  if (options.format !== 'text' && options.format !== 'json') {
    process.stderr.write(`statelet replay: --format is text or json, not ${JSON.stringify(options.format)}\n`);
    return exitCodes.usage;
  }
  let code: number = exitCodes.same;
  for (const log of logs) {
    const outcome = replayLog(log, options.incarnation);
    process.stdout.write(options.format === 'json' ? `${JSON.stringify(outcome)}\n` : printable(describe(outcome)));
    if (code === exitCodes.same) code = outcome.code;
  }
  return code;
}

function replayLog(log: string, incarnation: string | undefined): Outcome {
  try {
    const journal = journalAt(log, incarnation);
    const begin = performance.now();
    const first = replay(replayOptions(journal));
    const seconds = (performance.now() - begin) / 1_000;
    const facts = {
      log,
      incarnation: journal.header.incarnation,
      records: first.records,
      turns: first.turns,
      inputs: first.inputs,
      seconds,
      ...(journal.torn ? { tornBytes: journal.torn.bytes } : {}),
      recordedBy: builtOf(journal.header.build),
      machinesChanged: changedMachines(journal.header.build, buildInfo(kubeletMachine, STATELET_VERSION)),
    };
    if (!first.divergence) return { ...facts, verdict: 'same', code: exitCodes.same };
    const again = replay(replayOptions(journal));
    const steady = JSON.stringify(again.divergence) === JSON.stringify(first.divergence);
    const { divergence } = first;
    return steady
      ? { ...facts, divergence, verdict: 'divergence', code: exitCodes.divergence }
      : { ...facts, divergence, verdict: 'non-deterministic', code: exitCodes.nonDeterministic };
  } catch (thrown) {
    if (thrown instanceof NotReplayable) {
      return { log, verdict: 'invalid', code: exitCodes.invalidLog, error: thrown.message };
    }
    if (!(thrown instanceof JournalError)) throw thrown;
    return { log, verdict: 'invalid', code: exitCodeOf(thrown), error: thrown.message };
  }
}

function describe(outcome: Outcome): string {
  const { log, verdict, records, turns, inputs, seconds } = outcome;
  if (verdict === 'invalid') return `${log}: cannot be replayed: ${outcome.error}\n`;
  const size = `${records} records, ${turns} turns, ${inputs} inputs in ${seconds!.toFixed(2)} s`;
  const torn = outcome.tornBytes
    ? `  the last ${outcome.tornBytes} bytes are not a whole turn and were left out\n`
    : '';
  const head = `${log}: ${verdict} (incarnation ${outcome.incarnation}; ${size})\n${torn}`;
  return outcome.divergence ? head + describeDivergence(outcome) : head;
}

function describeDivergence({ divergence, machinesChanged = [], recordedBy, verdict }: Outcome): string {
  const { n, turn, kind, expected, actual, differences, input } = divergence!;
  const changed = machinesChanged.length > 0 ? machinesChanged.join(', ') : 'none';
  return [
    `  first difference at record ${n} of turn ${turn}: ${kind}`,
    `  the turn began with ${saidBy(input)}`,
    `  the log has  ${saidBy(expected)}`,
    `  now comes    ${saidBy(actual)}`,
    ...differences.flatMap(describeDifference),
    `  recorded by ${recordedBy}; this is ${builtOf(buildInfo(kubeletMachine, STATELET_VERSION))}`,
    `  machines whose definition changed since the log: ${changed}`,
    ...(verdict === 'non-deterministic'
      ? ['  a second replay differed in another way: the code is not deterministic']
      : ['  the whole records: --format json']),
    '',
  ].join('\n');
}

const describeDifference = ({ path, expected, actual }: Difference): string[] => [
  `  ${path}`,
  `      log  ${valueText(expected)}`,
  `      now  ${valueText(actual)}`,
];

const valueText = (value: unknown): string =>
  value === undefined ? 'nothing' : shortText(JSON.stringify(value), VALUE_MAX_CHARS);

/** One line for people: which record, of whom, what it says. */
function saidBy(record: JournalRecord | null): string {
  if (record === null) return 'nothing';
  if (record.k === 'dropped' || record.k === 'gap') return `record ${record.n}, ${record.k}`;
  const said = shortText(recordText(record), VALUE_MAX_CHARS);
  return `record ${record.n}, ${[record.k, actorOf(record)].filter(Boolean).join(' ')}: ${said}`;
}

const builtOf = ({ statelet, node, xstate }: BuildInfo): string =>
  `Statelet ${statelet} (XState ${xstate}, Node ${node})`;
