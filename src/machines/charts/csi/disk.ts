/**
 * One disk of a storage network (iSCSI, Fibre Channel), shared by the pods of the node (`device-<n>` below
 * `csiVolumes`): attached and mounted while some pod uses it; detached after the last one.
 *
 * Decides: when the disk is attached, and when a call is retried.
 * Owns: the device's path, the handles of the CHAP secret, the back-off.
 * Hears: `device.known` of `csiVolumes`, whenever its order changed.
 * Asks: `kube.get` of the secret; `disk.attach`, `disk.mountDevice`, `disk.detach`.
 * Sends: `csiVolumes` `device.staged`, or `device.failed` for the events of the pods that wait.
 * Invariants:
 *   K1 a disk is attached only once the API server knows that it is in use here and lists it as attached, unless the
 *      agent attaches volumes itself.
 *   K2 a call is never abandoned: the next step waits for its answer.
 *   K3 it ends only when the disk is detached and its folder is removed.
 * Upstream: pkg/volume/iscsi, pkg/volume/fc, pkg/volume/util/operationexecutor.
 */
import type { Ended } from '../../../kernel/xstate.ts';
import { errorOf, line, outputOf, pick, required, sendParent, setup, typed } from '../../../kernel/xstate.ts';
import { diskDirectory, diskOptions, ISCSI_PLUGIN } from '../../model/csi/disks.ts';
import type { CSIFailure, DeviceOrder, DeviceReport } from '../../model/csi/messages.ts';
import { isAttachable, type Secrets } from '../../model/csi/policy.ts';
import { withLabel } from '../../model/csi/selinux.ts';
import { diskOperations } from '../../model/operations/disk.ts';
import { kubeOperations } from '../../model/operations/kube.ts';
import {
  afterFailure,
  type DeviceInput,
  fetchSecret,
  NO_FAILURE,
  orderIn,
  retryDelays,
  secretsIn,
} from './driver-calls.ts';

interface Context extends DeviceInput {
  /** The path of the device; empty while the disk is not attached. */
  readonly device: string;
  readonly secrets: Secrets;
  readonly failure: CSIFailure;
  readonly tries: number;
  readonly untilMs: number;
}

const mustBeAttached = ({ driver }: Pick<DeviceOrder, 'driver'>): boolean => isAttachable(driver);
/** The cluster's controller has the volume ready for this node. */
const isReady = (order: Pick<DeviceOrder, 'driver' | 'isReported' | 'isAttached'>): boolean =>
  !mustBeAttached(order) || (order.isReported && order.isAttached);

const s = setup({
  types: typed<{ input: DeviceInput; context: Context; events: DeviceOrder | Ended }>(),
  actors: {
    ...pick(diskOperations, 'disk.attach', 'disk.mountDevice', 'disk.detach'),
    ...pick(kubeOperations, 'kube.get'),
  },
  guards: {
    isUnused: ({ context }) => !context.isUsed,
    isUsed: ({ context }) => context.isUsed,
    isUntouched: ({ context }) => !context.mayBeStaged,
    mustReport: ({ context }) => mustBeAttached(context) && !context.isReported,
    isReported: ({ context }) => !mustBeAttached(context) || context.isReported,
    mustWait: ({ context }) => !isReady(context),
    isReady: ({ context }) => isReady(context),
    hasSecret: ({ context }) => context.volume?.stageSecret != null,
    isBlock: ({ context }) => context.id.block !== null,
  },
  delays: retryDelays,
});

const updateOrder = s.assign(({ context, event }) => (event.type === 'device.known' ? orderIn(event, context) : {}));

const directoryOf = ({ root, id }: Context): string => diskDirectory(root, required(id.disk, 'the disk'));
const step = ({ id }: Context, ofFiles: string, ofBlocks = ofFiles): string =>
  id.block === null ? `MountVolume.${ofFiles}` : `MapVolume.${ofBlocks}`;

const failing = (stepOf: (context: Context) => string, prefix: (context: Context) => string = () => '') =>
  s.assign(({ context, event }) => ({
    failure: { step: stepOf(context), message: `${prefix(context)}${errorOf(event).message}` },
  }));

function secretError({ volume }: Context): string {
  const { name = '', namespace = '' } = volume?.stageSecret ?? {};
  return `couldn't get secret ${namespace}/${name} error: `;
}

const noteDevice = s.assign(({ event }) => outputOf<{ device: string }>(event));
const backOff = s.assign((args) => afterFailure(args));

const reportFailure = s.enqueueActions(({ context, enqueue }) => {
  const { key, failure } = context;
  enqueue(line('warn', ['A disk cannot be attached', { volume: key, step: failure.step, err: failure.message }]));
  enqueue(sendParent({ type: 'device.failed', key, ...failure, isNodeFull: false } satisfies DeviceReport));
});

const logStuck = s.enqueueActions(({ context, event, enqueue }) => {
  const { id, key } = context;
  const text = id.block === null ? 'UnmountVolume.UnmountDevice failed' : 'UnmapDevice failed';
  enqueue(line('error', [text, { volume: key, err: errorOf(event).message }]));
});

const attaching = s.createStateConfig({
  meta: { waitsFor: 'the target of the disk' },
  entry: s.assign({ mayBeStaged: true }),
  invoke: {
    id: 'attach',
    src: 'disk.attach',
    input: ({ context }) => ({
      root: context.root,
      directory: directoryOf(context),
      source: required(context.volume?.disk?.source ?? undefined, 'the disk to attach'),
      isBlock: context.id.block !== null,
      secrets: context.secrets,
    }),
    onDone: [
      { guard: 'isBlock', target: 'staged', actions: [noteDevice, s.assign({ tries: 0 })] },
      { target: 'mounting', actions: noteDevice },
    ],
    onError: { target: 'failing', actions: failing((context) => step(context, 'WaitForAttach')) },
  },
});

const mounting = s.createStateConfig({
  meta: { waitsFor: 'the file system of the disk to be mounted' },
  invoke: {
    id: 'mountDevice',
    src: 'disk.mountDevice',
    input: ({ context }) => {
      const { root, device, label } = context;
      const volume = required(context.volume, 'the volume to mount');
      const options = withLabel(diskOptions(volume), label);
      return { root, directory: directoryOf(context), device, fsType: volume.fsType, options };
    },
    onDone: { target: 'staged', actions: s.assign({ tries: 0 }) },
    onError: { target: 'failing', actions: failing((context) => step(context, 'MountDevice')) },
  },
});

/** The disk is not used any more: it is detached, unless it is used again before. */
const leaving = s.createStateConfig({
  initial: 'deciding',
  states: {
    deciding: {
      always: [
        { guard: 'isUsed', target: '#disk.deciding' },
        { guard: 'isUntouched', target: '#disk.gone' },
        { target: 'detaching' },
      ],
    },
    detaching: {
      meta: { waitsFor: 'the disk to be unmounted and detached' },
      invoke: {
        id: 'detach',
        src: 'disk.detach',
        input: ({ context }) => ({
          root: context.root,
          directory: directoryOf(context),
          kind: context.id.driver === ISCSI_PLUGIN ? ('iscsi' as const) : ('fc' as const),
          isBlock: context.id.block !== null,
        }),
        onDone: [
          {
            guard: 'isUsed',
            target: '#disk.deciding',
            actions: s.assign({ tries: 0, mayBeStaged: false, device: '' }),
          },
          { target: '#disk.gone' },
        ],
        onError: { target: 'backingOff', actions: [logStuck, backOff] },
      },
    },
    backingOff: {
      always: { guard: 'isUsed', target: '#disk.deciding' },
      after: { wait: 'deciding' },
    },
  },
});

export const diskMachine = s.createMachine({
  id: 'disk',
  context: ({ input }) => ({
    ...input,
    device: '',
    secrets: {},
    ...NO_FAILURE,
  }),
  initial: 'deciding',
  on: { 'device.known': { actions: updateOrder } },
  states: {
    deciding: {
      always: [
        { guard: 'isUnused', target: 'leaving' },
        { guard: 'mustReport', target: 'reporting' },
        { guard: 'mustWait', target: 'detached' },
        { guard: 'hasSecret', target: 'fetchingSecret' },
        { target: 'attaching', actions: s.assign({ secrets: {} }) },
      ],
    },
    reporting: {
      meta: { waitsFor: 'the Node to list the volume as in use' },
      always: [
        { guard: 'isUnused', target: 'leaving' },
        { guard: 'isReported', target: 'deciding' },
      ],
    },
    detached: {
      meta: { waitsFor: 'the volume to be attached to this node' },
      always: [
        { guard: 'isUnused', target: 'leaving' },
        { guard: 'isReady', target: 'deciding' },
      ],
    },
    fetchingSecret: {
      always: { guard: 'isUnused', target: 'leaving' },
      invoke: {
        ...fetchSecret(({ volume }: Context) => volume?.stageSecret ?? null),
        onDone: { target: 'attaching', actions: s.assign(({ event }) => secretsIn(event)) },
        onError: {
          target: 'failing',
          actions: failing(
            (context) => step(context, 'NewMounter initialization', 'NewBlockVolumeMapper initialization'),
            secretError,
          ),
        },
      },
    },
    attaching,
    mounting,
    staged: {
      entry: sendParent(
        ({ context }): DeviceReport => ({
          type: 'device.staged',
          key: context.key,
          device: { stagingPath: directoryOf(context), publishContext: {}, device: context.device },
        }),
      ),
      always: { guard: 'isUnused', target: 'leaving' },
    },
    failing: { entry: [reportFailure, backOff], always: 'backingOff' },
    backingOff: {
      always: { guard: 'isUnused', target: 'leaving' },
      after: { wait: 'deciding' },
    },
    leaving,
    gone: { type: 'final' },
  },
});
