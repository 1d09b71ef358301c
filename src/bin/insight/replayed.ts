/** The options for replaying a journal with this build, from its beginning or from its first checkpoint. */

import { JournalError } from '../../kernel/journal/errors.ts';
import type { Journal } from '../../kernel/journal/reader.ts';
import type { JournalRecord } from '../../kernel/records.ts';
import type { ReplayOptions } from '../../kernel/replay.ts';
import { NEWEST_BEHAVIOR } from '../../machines/model/settings/behaviors.ts';
import type { KubeletInput } from '../../machines/startup/context/types.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';

/** `records` are whole turns of the journal; all by default. Fails if the journal requires a newer behavior. */
export function replayOptions(journal: Journal, records: Iterable<JournalRecord> = journal.records): ReplayOptions {
  const { header, checkpoint } = journal;
  requireKnownBehavior(journal);
  return {
    machine: kubeletMachine,
    records,
    ...(checkpoint ? { from: { checkpoint: checkpoint.state, header } } : {}),
  };
}

function requireKnownBehavior({ header, segments }: Journal): void {
  const { behavior = 0 } = (header.input ?? {}) as Partial<KubeletInput>;
  if (behavior <= NEWEST_BEHAVIOR) return;
  const sentence = `its node decided by behavior ${behavior}, this Statelet knows those up to ${NEWEST_BEHAVIOR}`;
  throw new JournalError(
    'unsupported-version',
    { file: segments[0]! },
    `${sentence}; use Statelet ${header.build.statelet}, which wrote it, or a newer one`,
  );
}
