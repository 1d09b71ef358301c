/**
 * The health of one volume of one pod (`health-<n>` below `csiVolumes`), with the feature gate CSIVolumeHealth: the
 * driver is asked while containers may use the volume.
 *
 * Decides: which answers of the driver become events of the pod.
 * Owns: nothing.
 * Hears: `csi.health`.
 * Asks: `csi.followHealth`.
 * Sends: `eventRecorder` that the volume is abnormal.
 * Invariants:
 *   I1 an answer that repeats the last one causes nothing.
 * Upstream: pkg/kubelet/server/stats/volume_stat_calculator.go.
 */

import { type Ended, pick, setup, to, typed } from '../../../kernel/xstate.ts';
import type { ObjectReference } from '../../model/api/pod.ts';
import { csiOperations, type VolumeHealth } from '../../model/operations/csi.ts';
import { eventRecorded } from '../../model/pods/pod-messages.ts';
import { volumeEvents } from '../../model/reasons/reasons.ts';

interface HealthInput {
  readonly pod: ObjectReference & { readonly uid: string };
  /** The name of the volume in the pod. */
  readonly name: string;
  readonly endpoint: string;
  readonly handle: string;
  /** The pod's mount point of the volume. */
  readonly path: string;
  readonly periodMs: number;
}

const s = setup({
  types: typed<{ input: HealthInput; context: HealthInput; events: VolumeHealth | Ended }>(),
  actors: pick(csiOperations, 'csi.followHealth'),
  delays: { period: ({ context }) => context.periodMs },
});

const reportAbnormal = s.enqueueActions(({ context: { pod, name }, event, enqueue }) => {
  if (event.type !== 'csi.health' || !event.abnormal) return;
  enqueue.sendTo(to('eventRecorder'), eventRecorded(pod, volumeEvents.abnormal(name, event.message)));
});

export const csiHealthMachine = s.createMachine({
  id: 'csiHealth',
  context: ({ input }) => input,
  initial: 'following',
  states: {
    following: {
      on: { 'csi.health': { actions: reportAbnormal } },
      invoke: {
        id: 'health',
        src: 'csi.followHealth',
        input: ({ context: { endpoint, handle, path, periodMs } }) => ({ endpoint, handle, path, periodMs }),
        onDone: 'pausing',
        onError: 'pausing',
      },
    },
    pausing: { after: { period: 'following' } },
  },
});
