/**
 * The volumes of one pod (`volumes`): from their plan to the mounts for containers, and again when the plan changes.
 *
 * Decides: when volumes are set up, and when a failed set-up is retried.
 * Owns: the plan, the volumes that failed, the back-off.
 * Hears: `volumes.planned` from its pod, when the pod, a ConfigMap or a Secret changed; of `csiVolumes`, through its
 *   pod, `csi.mounted`.
 * Asks: `volume.setUp`; `sharing`, if changing the group of volumes takes long.
 * Sends: its pod `volumes.mounted`; `csiVolumes` the volumes that drivers have to publish; `eventRecorder` each own
 *   failure.
 * Invariants:
 *   V1 `volumes.mounted` is sent only when every volume of the plan is set up; a later failure does not revoke it.
 *   V2 a plan without set-ups calls no operation.
 *   V3 a change of the plan ends a back-off: a missing object may exist now.
 */

import type { Ended } from '../../../../kernel/xstate.ts';
import { errorOf, line, now, outputOf, pick, sendParent, setup, to, typed } from '../../../../kernel/xstate.ts';
import type { ObjectReference } from '../../../model/api/pod.ts';
import type { CSIOverdue, CSIReport, CSIWanted } from '../../../model/csi/messages.ts';
import type { VolumeFailure, VolumeSetUp, VolumesSetUp } from '../../../model/operations/volume.ts';
import { volumeOperations } from '../../../model/operations/volume.ts';
import { eventRecorded } from '../../../model/pods/pod-messages.ts';
import { overdueVolumes, podEvents, volumeEvents } from '../../../model/reasons/reasons.ts';
import type { MountedVolumes } from '../../../model/spec/volumes.ts';
import { mapValues } from '../../../model/values/tables.ts';
import { OPERATION_BACK_OFF, pauseMs } from '../../../model/values/time.ts';
import type { VolumePlan } from '../../../model/volumes/plan.ts';
import { SLOW_SHARING_MS, sharingMachine } from '../../volumes/sharing.ts';

/** As long as upstream waits for volumes before it records that they are overdue. */
const OVERDUE_MS = 123_000;

export interface VolumesInput {
  readonly ref: ObjectReference;
  readonly root: string;
  readonly podDirectory: string;
  readonly serviceAccount: string;
  readonly plan: VolumePlan;
}

interface Context extends VolumesInput {
  readonly failures: readonly VolumeFailure[];
  /** Names of the volumes that CSI drivers have published. */
  readonly published: readonly string[];
  /** Those of them that are mounted with an SELinux label. */
  readonly labelled: readonly string[];
  /** Failed attempts since the plan last changed. */
  readonly tries: number;
  readonly untilMs: number;
}

export type VolumesOrder = { readonly type: 'volumes.planned'; readonly plan: VolumePlan };
export type VolumesReport = { readonly type: 'volumes.mounted'; readonly mounted: MountedVolumes };

/** True for a volume with many files whose group is changed one by one. */
const givesToGroup = (setUp: VolumeSetUp): boolean =>
  (setUp.kind === 'folder' && setUp.groupId !== null) || (setUp.kind === 'local' && setUp.ownership !== null);

/** Volumes of servers, which may not answer for minutes. */
const serversIn = ({ plan }: Context): readonly string[] =>
  plan.setUps.flatMap(({ kind, name }) => (kind === 'nfs' ? [name] : []));

/** The mounts for containers. The runtime does not label files whose mount has the label. */
function mountedIn({ plan: { mounted }, labelled }: Context): MountedVolumes {
  if (labelled.length === 0) return mounted;
  const paths = new Set(labelled.map((name) => mounted[name]?.hostPath));
  return mapValues(mounted, ({ relabel, ...volume }) =>
    relabel === undefined || paths.has(volume.hostPath) ? volume : { ...volume, relabel },
  );
}

const s = setup({
  types: typed<{ input: VolumesInput; context: Context; events: VolumesOrder | CSIReport | Ended }>(),
  actors: { ...pick(volumeOperations, 'volume.setUp'), sharing: sharingMachine },
  guards: {
    isNew: ({ context, event }) =>
      event.type === 'volumes.planned' && JSON.stringify(event.plan) !== JSON.stringify(context.plan),
    shares: ({ context }) => context.plan.setUps.some(givesToGroup),
    isOnServer: ({ context }) => serversIn(context).length > 0,
    needsNothing: ({ context }) => context.plan.setUps.length === 0,
    isPublished: ({ context: { plan, published } }) => plan.csi.every(({ name }) => published.includes(name)),
    hasFailed: ({ context }) => context.failures.length > 0,
  },
  delays: { wait: (args) => Math.max(0, args.context.untilMs - now(args)) },
  actions: { reportMounted: sendParent(({ context }) => ({ type: 'volumes.mounted', mounted: mountedIn(context) })) },
});

const handlePlan = s.assign({
  plan: ({ context, event }) => (event.type === 'volumes.planned' ? event.plan : context.plan),
  tries: 0,
});

const noteResult = s.enqueueActions(({ context, event, enqueue }) => {
  const output = outputOf<VolumesSetUp>(event);
  enqueue.assign({ failures: [...context.plan.failures, ...output.failed] });
  for (const { spec, wanted, has } of output.kept ?? []) {
    enqueue.sendTo(to('eventRecorder'), eventRecorded(context.ref, volumeEvents.keptGroup(spec, wanted, has)));
  }
  for (const { text, ...fields } of output.unshared ?? []) enqueue(line('error', [text, fields]));
});

const noteFailure = s.assign({
  failures: ({ context, event }) => {
    const { message } = errorOf(event);
    return [...context.plan.failures, ...context.plan.setUps.map(({ name }) => ({ name, message }))];
  },
});

/** The answer, `csi.mounted`, names the volumes that are already published. */
const wantPublished = s.enqueueActions(({ context: { plan, ref, serviceAccount }, enqueue }) => {
  if (plan.csi.length === 0) return;
  const request: CSIWanted = { type: 'csi.wanted', pod: { ...ref, serviceAccount }, volumes: plan.csi };
  enqueue.sendTo(to('csiVolumes'), request);
});

const logOverdue = s.enqueueActions(({ context, enqueue }) => {
  enqueue.sendTo(to('csiVolumes'), { type: 'csi.overdue', uid: context.ref.uid } satisfies CSIOverdue);
});

const logServers = s.enqueueActions(({ context, enqueue }) => {
  const { namespace, name, uid } = context.ref;
  const err = overdueVolumes(serversIn(context).toSorted(), []);
  enqueue(line('error', ['Error syncing pod, skipping', { pod: `${namespace}/${name}`, podUID: uid, err }]));
});

const notePublished = s.assign(({ event }) =>
  event.type === 'csi.mounted' ? { published: event.names, labelled: event.labelled ?? [] } : {},
);

/** Upstream has other events for block devices, except for a volume that cannot be reached from this node. */
const isMapping = (step: string | undefined): step is string =>
  step?.startsWith('MapVolume.') === true && step !== 'MapVolume.NodeAffinity check';

const reportFailures = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const unprocessed = context.failures.filter(({ isUnprocessed }) => isUnprocessed === true);
  if (unprocessed.length > 0) {
    const volumes = unprocessed.map(({ name }) => name).toSorted();
    const errors = unprocessed.map(({ message }) => message);
    enqueue.sendTo(to('eventRecorder'), eventRecorded(context.ref, podEvents.unprocessedVolumes(volumes, errors)));
  }
  for (const { name, spec = name, message, step } of context.failures.filter((each) => !unprocessed.includes(each))) {
    const text = isMapping(step)
      ? volumeEvents.failedMap(spec, message, step)
      : podEvents.failedMount(spec, message, step);
    enqueue.sendTo(to('eventRecorder'), eventRecorded(context.ref, text));
  }
  const { namespace, name: pod } = context.ref;
  const names = context.failures.map(({ name }) => name);
  enqueue(line('warn', ['Volumes cannot be set up', { pod: `${namespace}/${pod}`, volumes: names }]));
  enqueue.assign({ tries: context.tries + 1, untilMs: now(args) + pauseMs(OPERATION_BACK_OFF, context.tries) });
});

export const volumesMachine = s.createMachine({
  id: 'volumes',
  context: ({ input }) => ({ ...input, failures: [], published: [], labelled: [], tries: 0, untilMs: 0 }),
  initial: 'deciding',
  on: {
    'volumes.planned': { guard: 'isNew', target: '.deciding', actions: handlePlan },
    'csi.mounted': { actions: notePublished },
    'csi.started': { actions: wantPublished },
  },
  states: {
    deciding: {
      entry: wantPublished,
      always: [
        {
          guard: 'needsNothing',
          target: 'judging',
          actions: s.assign({ failures: ({ context }) => context.plan.failures }),
        },
        { target: 'settingUp' },
      ],
    },
    /** Waits for the node to set up the volumes of the plan. */
    settingUp: {
      invoke: {
        id: 'setUp',
        src: 'volume.setUp',
        input: ({ context: { root, podDirectory, plan } }) => ({ root, podDirectory, volumes: plan.setUps }),
        onDone: { target: 'judging', actions: noteResult },
        onError: { target: 'judging', actions: noteFailure },
      },
      initial: 'working',
      states: {
        working: {
          always: [
            { guard: 'isOnServer', target: 'waitingForServers' },
            { guard: 'shares', target: 'sharing' },
          ],
        },
        waitingForServers: {
          meta: { waitsFor: 'the servers of volumes' },
          after: { [OVERDUE_MS]: { target: 'waitingForServers', reenter: true, actions: logServers } },
        },
        sharing: { after: { [SLOW_SHARING_MS]: 'overdue' } },
        overdue: {
          invoke: {
            id: 'sharing',
            src: 'sharing',
            input: ({ context: { ref, podDirectory } }) => ({ ref, directory: podDirectory }),
            onError: 'sharing',
          },
        },
      },
    },
    judging: {
      always: [{ guard: 'hasFailed', target: 'backingOff', actions: reportFailures }, { target: 'publishing' }],
    },
    /** A volume failed: waits, then sets up everything again. */
    backingOff: { after: { wait: 'deciding' } },
    /** Waits for the CSI drivers, if there are any: each volume has an actor of its own in `csiVolumes`. */
    publishing: {
      always: { guard: 'isPublished', target: 'mounted' },
      after: { [OVERDUE_MS]: { target: 'publishing', reenter: true, actions: logOverdue } },
    },
    /** Waits for another plan. */
    mounted: { entry: 'reportMounted' },
  },
});
