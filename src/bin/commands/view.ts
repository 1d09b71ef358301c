/**
 * `statelet view JOURNAL`: the visualizer over a journal, on a loopback port, until Ctrl-C; with `--output` as one
 * file.
 *
 * The journal is run again for it, so that the page can be shown as it was after any record: a start that failed is
 * over when one looks. What this build decides otherwise is not shown; the page says from where.
 */
import { writeFile } from 'node:fs/promises';
import { KernelFeed, type Recorded } from '../../actors/server/visualizer/feed.ts';
import { reportHtml } from '../../actors/server/visualizer/report.ts';
import { newToken } from '../../actors/server/visualizer/token.ts';
import { Visualizer } from '../../actors/server/visualizer/visualizer.ts';
import { JournalError } from '../../kernel/journal/index.ts';
import type { Journal } from '../../kernel/journal/reader.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { JournalRecord } from '../../kernel/records.ts';
import { NotReplayable, type ReplayReport, replay } from '../../kernel/replay.ts';
import { exitCodes } from '../exit-codes.ts';
import { journalAt, refuse } from '../insight/command.ts';
import { replayOptions } from '../insight/replayed.ts';
import { exitCodeOf } from './journal-errors.ts';

/** Records that the page holds, the newest of them: a day of a busy node, some 50 MB in the browser. */
const RECORDS_MAX = 50_000;
const PORT_MAX = 65_535;

interface ViewOptions {
  readonly incarnation?: string;
  readonly port: string;
  /** File that becomes the page, with the journal in it. */
  readonly output?: string;
}

export async function viewCommand(log: string, { incarnation, port, output }: ViewOptions): Promise<number> {
  if (!/^\d+$/.test(port) || Number(port) > PORT_MAX) {
    return refuse('view', `--port is a number up to ${PORT_MAX}, not ${JSON.stringify(port)}`, exitCodes.usage);
  }
  try {
    const journal = journalAt(log, incarnation);
    return output === undefined ? await serve(journal, Number(port)) : await write(journal, output);
  } catch (thrown) {
    if (thrown instanceof NotReplayable) return refuse('view', thrown.message, exitCodes.invalidLog);
    if (thrown instanceof JournalError) return refuse('view', thrown.message, exitCodeOf(thrown));
    if ((thrown as NodeJS.ErrnoException).syscall !== 'listen') throw thrown;
    return refuse(
      'view',
      `no page on port ${port}: ${(thrown as Error).message}; try --port 0`,
      exitCodes.couldNotTest,
    );
  }
}

async function write(journal: Journal, output: string): Promise<number> {
  const { feed, report } = shownJournal(journal);
  try {
    await writeFile(output, await reportHtml(feed));
  } catch (error) {
    return refuse('view', `no report in ${output}: ${(error as Error).message}`, exitCodes.couldNotTest);
  }
  const note = noteOf(report, journal);
  if (note) process.stderr.write(`statelet view: ${note}\n`);
  process.stdout.write(`${output}: ${sizeOf(report, journal)}; open it in a browser\n`);
  return exitCodes.same;
}

const sizeOf = (report: ReplayReport, { header }: Journal): string =>
  `incarnation ${header.incarnation} of node ${header.node}, ${report.records} records`;

/** The journal as it runs again, for a page. */
function shownJournal(journal: Journal): { readonly feed: KernelFeed; readonly report: ReplayReport } {
  let report: ReplayReport | undefined;
  const recorded: Recorded = {
    recordsMax: RECORDS_MAX,
    kernelAt: kernelsOf(journal),
    note: () => report && noteOf(report, journal),
  };
  const feed = new KernelFeed({ now: () => report?.kernel.now ?? journal.header.t, recorded });
  report = replay({ ...replayOptions(journal), onTurn: feed.onTurn });
  return { feed, report };
}

async function serve(journal: Journal, port: number): Promise<number> {
  const { feed, report } = shownJournal(journal);
  const visualizer = new Visualizer({ port, feed, token: newToken() });
  const url = await visualizer.listen();
  const note = noteOf(report, journal);
  if (note) process.stderr.write(`statelet view: ${note}\n`);
  process.stdout.write(`${url.href}\n${sizeOf(report, journal)}; Ctrl-C ends\n`);
  await new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, resolve);
  });
  await visualizer.close();
  return exitCodes.same;
}

/** What is missing at the end, and why. */
function noteOf({ divergence }: ReplayReport, { header, torn }: Journal): string | undefined {
  if (divergence) {
    const { n } = divergence;
    return `from record ${n} on this build decides otherwise: see statelet replay, or use Statelet ${header.build.statelet}`;
  }
  return torn ? `the last ${torn.bytes} bytes are not a whole turn and were left out` : undefined;
}

/** Runs a journal again up to the end of one turn; the last moment asked for is kept, for a page asks for it often. */
function kernelsOf(journal: Journal): (n: number) => Kernel | undefined {
  let last: { readonly n: number; readonly kernel: Kernel } | undefined;
  return (n) => {
    if (last?.n === n) return last.kernel;
    const { kernel } = replay(replayOptions(journal, recordsUpTo(journal, n)));
    last = { n, kernel };
    return kernel;
  };
}

/** The records of all turns up to the one that holds record `n`. */
function* recordsUpTo({ records }: Journal, n: number): Generator<JournalRecord> {
  for (const record of records) {
    yield record;
    if (record.k === 'end' && record.n >= n) return;
  }
}
