/** How a journal is run again by this build, from its beginning or from the checkpoint that it begins with. */
import type { Checkpoint } from '../../kernel/checkpoint.ts';
import type { Journal } from '../../kernel/journal/reader.ts';
import type { JournalRecord } from '../../kernel/records.ts';
import type { ReplayOptions } from '../../kernel/replay.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';

/** `records`: of the journal, in whole turns; default: all. */
export const replayOptions = (
  { header, checkpoint, records: all }: Journal,
  records: Iterable<JournalRecord> = all,
): ReplayOptions => ({
  machine: kubeletMachine,
  records,
  ...(checkpoint ? { from: { checkpoint: checkpoint.state as Checkpoint, header } } : {}),
});
