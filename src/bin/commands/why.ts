/** `statelet why JOURNAL startup|pod/NAME[/CONTAINER]`: what it is doing, what it waits for, and what led there. */
import type { Checkpoint } from '../../kernel/checkpoint.ts';
import { NotReplayable, replay } from '../../kernel/replay.ts';
import { kubeletMachine } from '../../machines/kubelet.ts';
import { type InsightOptions, insight, journalAt } from '../insight/command.ts';
import { describeWhy, type KnownTimers, why } from '../insight/why.ts';

export const whyCommand = (log: string, subject: string, options: InsightOptions): number =>
  insight('why', [log], options, (story) => {
    const report = why(story, subject, timersAtTheEnd(log, options.incarnation));
    return typeof report === 'string' ? report : { json: report, text: describeWhy(report) };
  });

/** Armed timers are state, and state comes of replaying; a journal that this build does not replay has none to tell. */
function timersAtTheEnd(log: string, incarnation: string | undefined): KnownTimers {
  const { header, checkpoint, records } = journalAt(log, incarnation);
  try {
    const from = checkpoint ? { from: { checkpoint: checkpoint.state as Checkpoint, header } } : {};
    const { divergence, kernel } = replay({ machine: kubeletMachine, records, ...from });
    return divergence ? undefined : kernel.timers.list();
  } catch (thrown) {
    if (thrown instanceof NotReplayable) return undefined;
    throw thrown;
  }
}
