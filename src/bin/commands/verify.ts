/** `statelet verify LOG…`: verifies checksums, numbers, chain, checkpoints and blobs, without running anything. */
import { JournalError } from '../../kernel/journal/errors.ts';
import { type IncarnationReport, type JournalReport, verifyJournal } from '../../kernel/journal/verify.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { placeOf } from '../insight/command.ts';
import { printable, printableJson } from '../printable.ts';
import { logsOf } from '../replay/logs.ts';
import { worstOf } from '../replay/outcome.ts';

export function verifyCommand(logs: readonly string[], { format }: { readonly format: string }): number {
  if (format !== 'text' && format !== 'json') {
    process.stderr.write(`statelet verify: --format is text or json, not ${JSON.stringify(format)}\n`);
    return exitCodes.usage;
  }
  const codes: number[] = [];
  for (const log of logsOf(logs)) {
    const verified = verifyLog(log);
    process.stdout.write(
      format === 'json' ? `${printableJson(asJson(log, verified))}\n` : printable(describe(log, verified)),
    );
    codes.push(verified.code);
  }
  return worstOf(codes);
}

/** JSON would leave out the message of an error. */
function asJson(log: string, verified: Verified): unknown {
  if ('error' in verified) return { log, ...verified };
  const { code, report } = verified;
  const incarnations = report.incarnations.map(({ problems, ...facts }) => ({
    ...facts,
    problems: problems.map(({ kind, message, place }) => ({ kind, message, place })),
  }));
  return { log, code, report: { ...report, incarnations } };
}

type Verified =
  | { readonly code: number; readonly report: JournalReport }
  | { readonly code: number; readonly error: string };

function verifyLog(log: string): Verified {
  try {
    const { path, incarnation } = placeOf(log);
    const report = verifyJournal(path, incarnation);
    const problem = report.incarnations.flatMap(({ problems }) => problems)[0];
    return { code: problem ? exitCodeOf(problem) : exitCodes.same, report };
  } catch (thrown) {
    if (!(thrown instanceof JournalError)) throw thrown;
    return { code: exitCodeOf(thrown), error: thrown.message };
  }
}

function describe(log: string, verified: Verified): string {
  if ('error' in verified) return `${log}: ${verified.error}\n`;
  const { ok, incarnations } = verified.report;
  return `${log}: ${ok ? 'whole' : 'not whole'}\n${incarnations.map(describeIncarnation).join('')}`;
}

function describeIncarnation(report: IncarnationReport): string {
  const { incarnation, segments, records, turns, bytes, checkpoints, torn, gaps, dropped, problems } = report;
  const counts = [
    [segments, 'segment'],
    [records, 'record'],
    [turns, 'turn'],
    [bytes, 'byte'],
    [checkpoints, 'checkpoint'],
  ] as const;
  const size = counts.map(([count, noun]) => `${count} ${noun}${count === 1 ? '' : 's'}`).join(', ');
  const notes = [
    ...(torn ? [`the last ${torn.bytes} bytes are not a whole turn; a reader leaves them out`] : []),
    ...gaps.map(({ n, why }) => `journaling was suspended at record ${n}: ${why}`),
    ...dropped.map(({ n, upto, why }) => `derived records ${n} to ${upto} were left out: ${why}`),
    ...problems.map(({ message }) => message),
  ];
  return `  ${incarnation}: ${size}\n${notes.map((note) => `    ${note}\n`).join('')}`;
}
