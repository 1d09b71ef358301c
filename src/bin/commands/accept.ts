/**
 * `statelet accept LOG…`: rewrites journals that this build replays differently.
 *
 * Invariants: a journal that replays the same is not touched; a journal of another version is never changed, because it
 * documents a promise; the new files replace the old ones only if they are complete and replay.
 */
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import { JournalError } from '../../kernel/journal/errors.ts';
import { isSegmentName, segmentsIn } from '../../kernel/journal/layout.ts';
import { openJournal } from '../../kernel/journal/open.ts';
import { type Journal, readJournal } from '../../kernel/journal/reader.ts';
import { NotReplayable, replay } from '../../kernel/replay.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { refuse } from '../insight/command.ts';
import { replayOptions } from '../insight/replayed.ts';
import { printable } from '../printable.ts';
import { logsOf } from '../replay/logs.ts';
import { thisBuild, worstOf } from '../replay/outcome.ts';
import { rewrite } from '../rewrite.ts';
import { STATELET_VERSION } from '../version.ts';

const COMPRESSED = '.zst';

export async function acceptCommand(named: readonly string[]): Promise<number> {
  if (process.env['CI']) {
    const why = 'CI is set: what is expected is changed where the change is reviewed';
    return refuse('accept', why, exitCodes.expectationMissing);
  }
  const codes: number[] = [];
  for (const log of logsOf(named)) codes.push(await accept(log));
  return worstOf(codes);
}

async function accept(log: string): Promise<number> {
  try {
    const journal = readJournal(log);
    const { divergence } = replay({ ...replayOptions(journal), strict: true });
    if (!divergence) return print(`${log}: replays the same`);
    const obstacle = refusalOf(log, journal);
    if (obstacle !== undefined) return refuse('accept', `${log}: ${obstacle}`, exitCodes.couldNotTest);
    const folder = mkdtempSync(join(dirname(log), `.${basename(log)}-`));
    try {
      await rewriteJournal(journal, folder);
      replaceFiles(log, folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
    return print(`${log}: written anew; it differed from record ${divergence.n} on (${divergence.kind})`);
  } catch (thrown) {
    if (thrown instanceof JournalError) return refuse('accept', thrown.message, exitCodeOf(thrown));
    if (thrown instanceof NotReplayable) return refuse('accept', `${log}: ${thrown.message}`, exitCodes.invalidLog);
    throw thrown;
  }
}

function refusalOf(log: string, { header, checkpoint }: Journal): string | undefined {
  const incarnations = new Set(segmentsIn(log).map(({ incarnation }) => incarnation));
  if (incarnations.size !== 1)
    return `it has ${incarnations.size} starts; one journal of one start can be written anew`;
  if (checkpoint) return 'its first segments are gone; only a journal that begins with its start can be written anew';
  const { statelet } = header.build;
  if (statelet === STATELET_VERSION) return undefined;
  return `it was recorded by Statelet ${statelet}, this is ${STATELET_VERSION}: journals of another version stay as they are`;
}

async function rewriteJournal(journal: Journal, directory: string): Promise<void> {
  const { incarnation } = journal.header;
  const build = thisBuild();
  await rewrite(journal, openJournal({ directory, incarnation, durability: 'none' }), {
    header: (header) => ({ ...header, build }),
  });
  const { divergence } = replay({ ...replayOptions(readJournal(directory)), strict: true });
  if (divergence) throw new NotReplayable(`written anew it does not replay from record ${divergence.n} on`);
}

/** Compressed if the old ones were. */
function replaceFiles(log: string, folder: string): void {
  const old = readdirSync(log).filter((name) => name === 'blobs' || /^[jc]-/.test(name));
  const isCompressed = old.some((name) => isSegmentName(name) && name.endsWith(COMPRESSED));
  for (const name of old) rmSync(join(log, name), { recursive: true });
  for (const name of readdirSync(folder).filter((each) => !each.startsWith('owner.'))) {
    const from = join(folder, name);
    if (!isCompressed || !isSegmentName(name)) renameSync(from, join(log, name));
    else writeFileSync(join(log, `${name}${COMPRESSED}`), zstdCompressSync(readFileSync(from)));
  }
}

function print(sentence: string): number {
  process.stdout.write(printable(`${sentence}\n`));
  return exitCodes.same;
}
