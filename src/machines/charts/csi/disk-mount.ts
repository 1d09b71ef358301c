/**
 * One volume on a disk of a storage network for one pod (`mount-<n>` below `csiVolumes`): bound to the pod's folder for
 * as long as the pod wants it.
 *
 * Decides: when the volume is set up and taken away, and when that is retried.
 * Owns: the back-off; `sharing`, while changing the group of its files takes long.
 * Hears: `mount.known` of `csiVolumes`, whenever its order changed; `mount.deviceFailed`.
 * Asks: `disk.setUp`, `disk.tearDown`.
 * Sends: `csiVolumes` `mount.published`; `eventRecorder` each failure.
 * Invariants:
 *   B1 the volume is set up only while its disk is mounted, or, of a block device, attached.
 *   B2 a call is never abandoned: the next step waits for its answer.
 *   B3 it ends only when nothing of the volume is left in the pod's folder.
 * Upstream: pkg/volume/iscsi/disk_manager.go, pkg/volume/fc/disk_manager.go, pkg/volume/util/operationexecutor.
 */
import type { Ended } from '../../../kernel/xstate.ts';
import { errorOf, line, outputOf, pick, required, sendParent, setup, to, typed } from '../../../kernel/xstate.ts';
import { diskMount, diskOptions } from '../../model/csi/disks.ts';
import type { CSIFailure, MountOrder, MountReport } from '../../model/csi/messages.ts';
import { isAttachable, TAKEN } from '../../model/csi/policy.ts';
import { labelConflict } from '../../model/csi/selinux.ts';
import { diskOperations } from '../../model/operations/disk.ts';
import type { Unshared } from '../../model/operations/volume.ts';
import { eventRecorded } from '../../model/pods/pod-messages.ts';
import { volumeEvents } from '../../model/reasons/reasons.ts';
import { type SharingInput, SLOW_SHARING_MS, sharingMachine } from '../volumes/sharing.ts';
import { afterFailure, failureEvent, NO_FAILURE, retryDelays, UNPROCESSED } from './driver-calls.ts';
import type { MountInput } from './mount-setup.ts';

interface Context extends MountInput {
  readonly isPublished: boolean;
  readonly failure: CSIFailure;
  readonly tries: number;
  readonly untilMs: number;
}

const ownershipOf = ({ volume: { fsGroup, readOnly, isBlock, fsGroupOnlyTop: onlyTop } }: Context) =>
  fsGroup === null || readOnly || isBlock ? null : { groupId: fsGroup, onlyTop };

/** Another pod has the volume, which only one pod may use, or mounts it with another SELinux label. */
const isTaken = ({ isTaken: isOfOther, conflict }: Context): boolean => isOfOther || conflict !== null;

const s = setup({
  types: typed<{ input: MountInput; context: Context; events: MountOrder | Ended }>(),
  actors: { ...pick(diskOperations, 'disk.setUp', 'disk.tearDown'), sharing: sharingMachine },
  guards: {
    isReleased: ({ context }) => context.isReleased,
    isUntouched: ({ context }) => !context.mayBePublished,
    isTaken: ({ context }) => isTaken(context),
    isFree: ({ context }) => !isTaken(context),
    lacksDevice: ({ context }) => context.device === null,
    hasDevice: ({ context }) => context.device !== null,
    shares: ({ context }) => ownershipOf(context) !== null,
  },
  delays: retryDelays,
});

const updateOrder = s.assign(({ event }) => {
  if (event.type !== 'mount.known') return {};
  const { type: _, ...known } = event;
  return known;
});

const settingUp = ({ volume }: Context): string => (volume.isBlock ? 'MapVolume.MapBlockVolume' : 'MountVolume.SetUp');

const noteTaken = s.assign(({ context: { volume, conflict } }) => ({
  failure:
    conflict === null
      ? { step: volume.isBlock ? 'MapVolume.SetUpDevice' : 'MountVolume.SetUp', message: TAKEN }
      : { step: UNPROCESSED, message: labelConflict(volume, conflict) },
}));
const noteDeviceFailure = s.assign(({ event }) =>
  event.type === 'mount.deviceFailed' ? { failure: { step: event.step, message: event.message } } : {},
);
const noteFailure = s.assign(({ context, event }) => ({
  failure: { step: settingUp(context), message: errorOf(event).message },
}));
const backOff = s.assign((args) => afterFailure(args));

function refOf({ pod }: Context) {
  const { serviceAccount: _, ...ref } = pod;
  return ref;
}

const reportFailure = s.enqueueActions(({ context, enqueue }) => {
  const { failure, pod, volume } = context;
  const event = failureEvent(volume, failure);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), event));
  enqueue(line('warn', [event.message, { pod: `${pod.namespace}/${pod.name}`, plugin: volume.driver }]));
});

const logUnshared = s.enqueueActions(({ event, enqueue }) => {
  const output = outputOf<Unshared | null>(event);
  if (output === null) return;
  const { text, ...fields } = output;
  enqueue(line('error', [text, fields]));
});

/** The agent attaches the disk itself, now. */
const sendAttached = s.enqueueActions(({ context, enqueue }) => {
  if (isAttachable(context.driver)) return;
  enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), volumeEvents.attached(context.volume.spec)));
});

const folderOf = (path: string): string => path.slice(0, path.lastIndexOf('/'));

/** Records the paths of a block device. */
const sendMapped = s.enqueueActions(({ context, enqueue }) => {
  const { path, map } = diskMount(context, context.volume);
  if (map === null) return;
  const { spec } = context.volume;
  const texts = [
    volumeEvents.mapped(spec, 'globalMapPath', folderOf(map)),
    volumeEvents.mapped(spec, 'volumeMapPath', folderOf(path)),
  ];
  for (const text of texts) enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
});

const logStuck = s.enqueueActions(({ context, event, enqueue }) => {
  const { volume, pod } = context;
  const text = volume.isBlock ? 'UnmapVolume.UnmapBlockVolume failed' : 'UnmountVolume.TearDown failed';
  enqueue(line('error', [text, { volume: volume.spec, uid: pod.uid, err: errorOf(event).message }]));
});

function setUpInput({ context }: { context: Context }) {
  const { root, volume } = context;
  const { stagingPath, device = '' } = required(context.device ?? undefined, 'the disk of the volume');
  return {
    root,
    directory: stagingPath,
    device,
    mount: diskMount(context, volume),
    options: diskOptions(volume),
    ownership: ownershipOf(context),
  };
}

const sharingInput = ({ context }: { context: Context }): SharingInput => ({
  ref: refOf(context),
  directory: diskMount(context, context.volume).path,
});

const publishing = s.createStateConfig({
  meta: { waitsFor: 'the volume to be bound to the folder of the pod' },
  entry: s.assign({ mayBePublished: true }),
  invoke: {
    id: 'setUp',
    src: 'disk.setUp',
    input: setUpInput,
    onDone: {
      target: '#diskMount.published',
      actions: [logUnshared, sendMapped, s.assign({ isPublished: true, tries: 0 })],
    },
    onError: { target: '#diskMount.failing', actions: noteFailure },
  },
  initial: 'working',
  states: {
    working: { always: { guard: 'shares', target: 'sharing' } },
    sharing: { after: { [SLOW_SHARING_MS]: 'overdue' } },
    overdue: { invoke: { id: 'sharing', src: 'sharing', input: sharingInput, onError: 'sharing' } },
  },
});

/** The pod has ended: the volume is unbound from its folder. */
const leaving = s.createStateConfig({
  initial: 'deciding',
  states: {
    deciding: {
      always: [{ guard: 'isUntouched', target: '#diskMount.gone' }, { target: 'unbinding' }],
    },
    unbinding: {
      meta: { waitsFor: 'the volume to be unbound from the folder of the pod' },
      invoke: {
        id: 'tearDown',
        src: 'disk.tearDown',
        input: ({ context }) => ({
          root: context.root,
          podDirectory: context.podDirectory,
          mount: diskMount(context, context.volume),
        }),
        onDone: '#diskMount.gone',
        onError: { target: 'backingOff', actions: [logStuck, backOff] },
      },
    },
    backingOff: { after: { wait: 'unbinding' } },
  },
});

export const diskMountMachine = s.createMachine({
  id: 'diskMount',
  context: ({ input }) => ({
    ...input,
    isPublished: false,
    ...NO_FAILURE,
  }),
  initial: 'deciding',
  on: { 'mount.known': { actions: updateOrder } },
  states: {
    deciding: {
      always: [
        { guard: 'isReleased', target: 'leaving' },
        { guard: 'isTaken', target: 'taken', actions: [noteTaken, reportFailure] },
        { guard: 'lacksDevice', target: 'awaitingDevice' },
        { target: 'publishing' },
      ],
    },
    /** Waits until the other pod has left the volume. */
    taken: {
      always: [
        { guard: 'isReleased', target: 'leaving' },
        { guard: 'isFree', target: 'deciding' },
      ],
    },
    awaitingDevice: {
      meta: { waitsFor: 'the disk to be attached and mounted' },
      entry: sendAttached,
      always: [
        { guard: 'isReleased', target: 'leaving' },
        { guard: 'hasDevice', target: 'deciding' },
      ],
      on: { 'mount.deviceFailed': { actions: [noteDeviceFailure, reportFailure] } },
    },
    publishing,
    published: {
      entry: sendParent(({ context }): MountReport => ({ type: 'mount.published', id: context.id })),
      always: { guard: 'isReleased', target: 'leaving' },
    },
    failing: { entry: [reportFailure, backOff], always: 'backingOff' },
    backingOff: {
      always: { guard: 'isReleased', target: 'leaving' },
      after: { wait: 'deciding' },
    },
    leaving,
    gone: { type: 'final' },
  },
});
