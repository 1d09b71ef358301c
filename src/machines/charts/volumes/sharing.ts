/**
 * Reports the progress of volumes whose files take long to change their group (`sharing`, of `volumes` and
 * `mount-<n>`).
 *
 * Decides: when an event about a volume is recorded.
 * Owns: when the last event of each volume was recorded.
 * Hears: nothing; it ends with the set-up.
 * Asks: `volume.sharings`.
 * Sends: `eventRecorder` `VolumePermissionChangeInProgress`.
 * Invariants:
 *   I1 a volume is reported only after 30 s, and then once a minute.
 * Upstream: pkg/volume/volume_linux.go.
 */

import { type Ended, now, outputOf, pick, setup, to, typed } from '../../../kernel/xstate.ts';
import type { ObjectReference } from '../../model/api/pod.ts';
import { type Sharing, volumeOperations } from '../../model/operations/volume.ts';
import { eventRecorded } from '../../model/pods/pod-messages.ts';
import { volumeEvents } from '../../model/reasons/reasons.ts';

/** A faster set-up is not reported. */
export const SLOW_SHARING_MS = 30_000;
const AGAIN_MS = 60_000;
const LIST_EVERY_MS = 10_000;

export interface SharingInput {
  readonly ref: ObjectReference;
  /** The folder in which the volumes are. */
  readonly directory: string;
}

interface Context extends SharingInput {
  /** By path, when the last event was recorded. */
  readonly reported: Readonly<Record<string, number>>;
}

const s = setup({
  types: typed<{ input: SharingInput; context: Context; events: Ended }>(),
  actors: pick(volumeOperations, 'volume.sharings'),
});

/** Upstream shows the path from the uid of the pod on. */
const shown = (path: string, uid: string): string => path.slice(Math.max(0, path.indexOf(uid)));

const reportSlow = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const output = outputOf<readonly Sharing[]>(event);
  const reported: Record<string, number> = {};
  for (const { path, files } of output.filter((each) => each.forMs >= SLOW_SHARING_MS)) {
    const last = context.reported[path];
    const isDue = last === undefined || now(args) - last >= AGAIN_MS;
    reported[path] = isDue ? now(args) : last;
    if (!isDue) continue;
    const text = volumeEvents.sharing(shown(path, context.ref.uid), last === undefined ? null : files);
    enqueue.sendTo(to('eventRecorder'), eventRecorded(context.ref, text));
  }
  enqueue.assign({ reported });
});

export const sharingMachine = s.createMachine({
  id: 'sharing',
  context: ({ input }) => ({ ...input, reported: {} }),
  initial: 'listing',
  states: {
    listing: {
      invoke: {
        id: 'sharings',
        src: 'volume.sharings',
        input: ({ context: { directory } }) => ({ directory }),
        onDone: { target: 'pausing', actions: reportSlow },
        onError: 'pausing',
      },
    },
    pausing: { after: { [LIST_EVERY_MS]: 'listing' } },
  },
});
