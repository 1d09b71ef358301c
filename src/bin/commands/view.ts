/**
 * `statelet view [JOURNAL]`: the visualizer over a journal, on a loopback port, until Ctrl-C; with `--output` as one
 * file, and without a journal a page that opens one.
 *
 * The page reads the journal itself and replays it, so it can show the node as it was after any record, also after a
 * failed start.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { JournalFiles } from '../../actors/server/visualizer/journal-files.ts';
import { reportHtml } from '../../actors/server/visualizer/report.ts';
import { newToken } from '../../actors/server/visualizer/served-page.ts';
import { Visualizer } from '../../actors/server/visualizer/visualizer.ts';
import { JournalError } from '../../kernel/journal/errors.ts';
import type { Journal } from '../../kernel/journal/reader.ts';
import { memberOf } from '../../kernel/json.ts';
import { messageOf } from '../../kernel/thrown.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { journalAt, placeOf, refuse } from '../insight/command.ts';
import { printable } from '../printable.ts';
import { visitTexts } from '../rewrite.ts';
import { redactInto, refusalOf } from './redact.ts';

const PORT_MAX = 65_535;

interface ViewOptions {
  readonly incarnation?: string;
  readonly port: string;
  /** File that becomes the page, with the journal in it. */
  readonly output?: string;
}

export async function viewCommand(log: string | undefined, options: ViewOptions): Promise<number> {
  const { incarnation, port, output } = options;
  if (!/^\d+$/.test(port) || Number(port) > PORT_MAX) {
    return refuse('view', `--port is a number up to ${PORT_MAX}, not ${JSON.stringify(port)}`, exitCodes.usage);
  }
  try {
    if (log === undefined) {
      const sentence = 'name a journal, or with --output a file that becomes a page for any';
      if (output === undefined) return refuse('view', sentence, exitCodes.usage);
      return await write(output, undefined, 'a page for any journal');
    }
    const journal = journalAt(log, incarnation);
    const { path, ...chosen } = placeOf(log, incarnation);
    const files = new JournalFiles(path, chosen.incarnation ?? journal.header.incarnation);
    return output === undefined ? await serve(files, journal, Number(port)) : await writeReport(files, journal, output);
  } catch (thrown) {
    if (thrown instanceof JournalError) return refuse('view', thrown.message, exitCodeOf(thrown));
    if (memberOf(thrown, 'syscall') !== 'listen') throw thrown;
    return refuse('view', `no page on port ${port}: ${messageOf(thrown)}; try --port 0`, exitCodes.couldNotTest);
  }
}

const nameOf = ({ header }: Journal): string => `incarnation ${header.incarnation} of node ${header.node}`;

async function write(output: string, files: JournalFiles | undefined, what: string): Promise<number> {
  try {
    await writeFile(output, await reportHtml(files));
  } catch (error) {
    return refuse('view', `no report in ${output}: ${messageOf(error)}`, exitCodes.couldNotTest);
  }
  process.stdout.write(printable(`${output}: ${what}; open it in a browser\n`));
  return exitCodes.same;
}

/** Reports are sent to other people: a journal with plain values of variables is redacted before it is put into one. */
async function writeReport(files: JournalFiles, journal: Journal, output: string): Promise<number> {
  if (!hasPlainValues(journal)) return write(output, files, nameOf(journal));
  const obstacle = refusalOf(journal);
  if (obstacle !== undefined) {
    const why = `values of variables stand in the journal as they are, and cannot be redacted: ${obstacle}`;
    return refuse('view', why, exitCodes.couldNotTest);
  }
  const folder = mkdtempSync(join(tmpdir(), 'statelet-report-'));
  try {
    await redactInto(journal, folder, []);
    return await write(output, new JournalFiles(folder), `${nameOf(journal)}, redacted as by statelet redact`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Lists of names and values from a pod's author. The request that creates a container also has the name of its pod. */
const PAIRS: ReadonlySet<string> = new Set(['env', 'httpHeaders']);

/** Whether the node ran with `--journal-plain`. Without it a value is a handle or refers to other fields. */
function hasPlainValues({ records }: Journal): boolean {
  for (const record of records) {
    let isPlain = false;
    visitTexts(record, (text, keys) => {
      const isValue = keys.at(-1) === 'value' && PAIRS.has(keys.at(-2) ?? '');
      isPlain ||= isValue && text !== '' && !text.includes('§') && !text.startsWith('$(');
    });
    if (isPlain) return true;
  }
  return false;
}

async function serve(journal: JournalFiles, { header }: Journal, port: number): Promise<number> {
  const visualizer = new Visualizer({ port, journal, token: newToken() });
  const url = await visualizer.listen();
  const which = `incarnation ${header.incarnation} of node ${header.node}`;
  process.stdout.write(printable(`${url.href}\n${which}; Ctrl-C ends\n`));
  await new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, resolve);
  });
  await visualizer.close();
  return exitCodes.same;
}
