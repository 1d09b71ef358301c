/**
 * One volume of a CSI driver, shared by the pods of the node (`device-<n>` below `csiVolumes`): attached, then staged
 * while some pod uses it; unstaged after the last one.
 *
 * Decides: when the driver is called, and when a call is retried.
 * Owns: the attachment, the capabilities of the driver, the handles of the secrets, the back-off.
 * Hears: `device.known` of `csiVolumes`, whenever its order changed.
 * Asks: `kube.get` of the attachment and of the secret; `csi.capabilities`, `csi.stage`, `csi.unstage`.
 * Sends: `csiVolumes` `device.staged`, or `device.failed` for the events of the pods that wait.
 * Invariants:
 *   D1 a volume that must be attached is staged only once the API server knows that it is in use here and reports it as
 *      attached.
 *   D2 a call to the driver is never abandoned: the next step waits for its answer or its deadline.
 *   D3 it ends only when the volume is unstaged and its record is removed.
 * Upstream: pkg/volume/csi/csi_attacher.go, pkg/volume/util/operationexecutor.
 */

import type { Ended } from '../../../kernel/xstate.ts';
import { errorOf, line, now, outputOf, pick, required, sendParent, setup, typed } from '../../../kernel/xstate.ts';
import type { VolumeAttachment } from '../../model/api/pod.ts';
import type { CSIFailure, DeviceOrder, DeviceReport, StagedDevice } from '../../model/csi/messages.ts';
import { devicePlace } from '../../model/csi/paths.ts';
import type { Capabilities, Secrets } from '../../model/csi/policy.ts';
import {
  attachmentName,
  attachmentOf,
  deviceData,
  isAttachable,
  isNodeFull,
  notRegistered,
  PLUGIN,
  stageRequest,
  stages,
} from '../../model/csi/policy.ts';
import { csiOperations } from '../../model/operations/csi.ts';
import { kubeOperations } from '../../model/operations/kube.ts';
import {
  afterFailure,
  askCapabilities,
  CANNOT_ATTACH,
  capabilitiesIn,
  type DeviceInput,
  driverGuards,
  fetchSecret,
  orderIn,
  reportsAsKubelet,
  retryDelays,
  secretError,
  secretLookup,
  secretsIn,
  unsyncedUntil,
} from './driver-calls.ts';

/**
 * The pause between two reads of an attachment that is not attached yet; a change of the Node causes an immediate read.
 */
const READ_BASE_MS = 500;
const READ_MAX_MS = 10_000;

interface Context extends DeviceInput {
  readonly publishContext: StagedDevice['publishContext'];
  readonly capabilities: Capabilities;
  readonly secrets: Secrets;
  readonly failure: CSIFailure;
  /** The attachment failed because no more volumes fit on this node. */
  readonly isNodeFull: boolean;
  /** Failed calls, or reads that found no attachment, since the last success. */
  readonly tries: number;
  readonly untilMs: number;
}

const s = setup({
  types: typed<{ input: DeviceInput; context: Context; events: DeviceOrder | Ended }>(),
  actors: {
    ...pick(csiOperations, 'csi.capabilities', 'csi.stage', 'csi.unstage'),
    ...pick(kubeOperations, 'kube.get'),
  },
  guards: {
    ...driverGuards,
    isUnused: ({ context }) => !context.isUsed,
    isUsed: ({ context }) => context.isUsed,
    isUntouched: ({ context }) => !context.mayBeStaged,
    mustBeAttached: ({ context }) => isAttachable(context.driver),
    needsNoAttachment: ({ context }) => !isAttachable(context.driver),
    mustReport: ({ context }) => isAttachable(context.driver) && !context.isReported,
    isReported: ({ context }) => context.isReported,
    hasSecret: ({ context }) => stages(context.capabilities) && context.volume?.stageSecret != null,
  },
  delays: retryDelays,
});

const updateOrder = s.assign(({ context, event }) => (event.type === 'device.known' ? orderIn(event, context) : {}));

const becameAttached = ({ context, event }: { context: Context; event: DeviceOrder }): boolean =>
  event.isAttached && !context.isAttached;

/** A failure due to a missing driver, or an attachment that now exists or is no longer needed, is retried at once. */
function mayRetryAtOnce({ context, event }: { context: Context; event: DeviceOrder }): boolean {
  const { driver } = event;
  const isFreed = isAttachable(context.driver) && !isAttachable(driver);
  return driver.endpoint !== context.driver.endpoint || isFreed || becameAttached({ context, event });
}

const noteCapabilities = s.assign(({ event }) => capabilitiesIn(event));
const noteSecrets = s.assign(({ event }) => secretsIn(event));

const attachmentIn = (event: unknown) => attachmentOf(outputOf<VolumeAttachment>(event));

const noteAttachment = s.assign(({ event }) => {
  const publishContext = attachmentIn(event);
  return typeof publishContext === 'object' && publishContext !== null
    ? { publishContext, tries: 0, isNodeFull: false }
    : {};
});

const failing = (stepOf: (context: Context) => string, prefix: (context: Context) => string = () => '') =>
  s.assign(({ context, event }) => ({
    failure: { step: stepOf(context), message: `${prefix(context)}${errorOf(event).message}` },
  }));

/** The step for which the volume waits, with upstream's name. */
const waitingStep = ({ id }: Context): string => `${id.block === null ? 'MountVolume' : 'MapVolume'}.WaitForAttach`;
const stagingStep = ({ id }: Context): string =>
  id.block === null ? 'MountVolume.MountDevice' : 'MapVolume.SetUpDevice';

const noteAttachError = s.assign(({ context, event }) => {
  const message = attachmentIn(event);
  if (typeof message !== 'string') return {};
  return {
    failure: { step: waitingStep(context), message },
    isNodeFull: isNodeFull(outputOf<VolumeAttachment>(event)),
  };
});

const noteUnregistered = s.assign(({ context }) => {
  const step =
    context.id.block === null
      ? 'attacher.MountDevice failed to create newCsiDriverClient'
      : 'blockMapper.SetUpDevice failed to get CSI client';
  const message = `kubernetes.io/csi: ${step}: ${notRegistered(context.id.driver)}`;
  return { failure: { step: stagingStep(context), message } };
});

const getError = ({ id, nodeName }: Context): string =>
  `volume ${id.handle} has GET error for volume attachment ${attachmentName(id, nodeName)}: `;

function stageSecretError({ id, volume, behavior }: Context): string {
  const ref = volume?.stageSecret ?? null;
  if (id.block === null) return secretError({ behavior }, 'NodeStageSecretRef', ref);
  const prefix = reportsAsKubelet({ behavior }) ? `${PLUGIN}: ` : '';
  return `${prefix}failed to get NodeStageSecretRef ${ref?.namespace}/${ref?.name}: ${secretLookup({ behavior }, ref)}`;
}

const noteDetached = s.assign(({ context }) => {
  const { id, nodeName } = context;
  const message = `volume ${id.handle} is not attached for volume attachment ${attachmentName(id, nodeName)}`;
  return { failure: { step: waitingStep(context), message } };
});

const backOff = s.assign((args) => afterFailure(args));

const checkLater = s.assign((args) => {
  const delayMs = Math.min(READ_MAX_MS, READ_BASE_MS * 2 ** args.context.tries);
  return { tries: args.context.tries + 1, untilMs: now(args) + delayMs };
});

const reportFailure = s.enqueueActions(({ context, enqueue }) => {
  const { key, failure, isNodeFull: isFull } = context;
  enqueue(line('warn', ['A volume cannot be staged', { volume: key, step: failure.step, err: failure.message }]));
  enqueue(sendParent({ type: 'device.failed', key, ...failure, isNodeFull: isFull } satisfies DeviceReport));
});

/** An attachment that the Node lists and that is not there, or not attached, is a failure. */
const reportDetached = s.enqueueActions(({ context, enqueue }) => {
  if (context.isAttached && reportsAsKubelet(context)) enqueue(reportFailure);
});

const logStuck = s.enqueueActions(({ context, event, enqueue }) => {
  const err = errorOf(event).message;
  enqueue(line('error', ['UnmountVolume.UnmountDevice failed', { volume: context.key, err }]));
});

const placeOf = ({ root, id }: Context) => devicePlace(root, id);

const attaching = s.createStateConfig({
  invoke: {
    id: 'attachment',
    src: 'kube.get',
    input: ({ context: { id, nodeName } }) => ({
      client: 'kube',
      apiVersion: 'storage.k8s.io/v1',
      resource: 'volumeattachments',
      name: attachmentName(id, nodeName),
    }),
    onDone: [
      {
        guard: ({ event }) => attachmentIn(event) === null,
        target: 'detached',
        actions: [noteDetached, reportDetached, checkLater],
      },
      { guard: ({ event }) => typeof attachmentIn(event) === 'string', target: 'failing', actions: noteAttachError },
      { target: 'connecting', actions: noteAttachment },
    ],
    onError: [
      {
        guard: ({ event }) => errorOf(event).code === 'NotFound',
        target: 'detached',
        actions: [failing(waitingStep, getError), reportDetached, checkLater],
      },
      { target: 'failing', actions: failing(waitingStep, getError) },
    ],
  },
});

const staging = s.createStateConfig({
  meta: { waitsFor: 'the CSI driver to stage the volume' },
  entry: s.assign({ mayBeStaged: true }),
  invoke: {
    id: 'stage',
    src: 'csi.stage',
    input: ({ context }) => {
      const { root, driver, nodeName, capabilities, label } = context;
      const volume = required(context.volume, 'the volume to stage');
      const { directory, staging: target, block } = placeOf(context);
      const request = stages(capabilities) ? stageRequest(volume, target, context) : null;
      return { root, directory, endpoint: driver.endpoint, data: deviceData(volume, nodeName, label), request, block };
    },
    onDone: { target: 'staged', actions: s.assign({ tries: 0 }) },
    onError: { target: 'failing', actions: failing(stagingStep) },
  },
});

/** The device is not used any more: it is unstaged, unless it is used again before. */
const leaving = s.createStateConfig({
  initial: 'connecting',
  states: {
    connecting: {
      meta: { waitsFor: 'the CSI driver to register' },
      always: [
        { guard: 'isUsed', target: '#csiDevice.deciding' },
        { guard: 'isUntouched', target: '#csiDevice.gone' },
        { guard: 'isRegistered', target: 'asking' },
      ],
    },
    asking: {
      invoke: {
        ...askCapabilities,
        onDone: { target: 'unstaging', actions: noteCapabilities },
        onError: { target: 'backingOff', actions: [logStuck, backOff] },
      },
    },
    unstaging: {
      meta: { waitsFor: 'the CSI driver to unstage the volume' },
      invoke: {
        id: 'unstage',
        src: 'csi.unstage',
        input: ({ context }) => ({
          root: context.root,
          directory: placeOf(context).directory,
          block: placeOf(context).block,
          endpoint: context.driver.endpoint,
          handle: context.id.handle,
          isStaged: stages(context.capabilities),
        }),
        onDone: [
          { guard: 'isUsed', target: '#csiDevice.deciding', actions: s.assign({ tries: 0, mayBeStaged: false }) },
          { target: '#csiDevice.gone' },
        ],
        onError: { target: 'backingOff', actions: [logStuck, backOff] },
      },
    },
    backingOff: {
      always: { guard: 'isUsed', target: '#csiDevice.deciding' },
      after: { wait: 'connecting' },
    },
  },
});

export const csiDeviceMachine = s.createMachine({
  id: 'csiDevice',
  context: ({ input }) => ({
    ...input,
    publishContext: {},
    capabilities: [],
    secrets: {},
    failure: { step: '', message: '' },
    isNodeFull: false,
    tries: 0,
    untilMs: 0,
  }),
  initial: 'deciding',
  on: { 'device.known': { actions: updateOrder } },
  states: {
    deciding: {
      always: [
        { guard: 'isUnused', target: 'leaving' },
        { guard: 'isUnsynced', target: 'unsynced' },
        { guard: 'cannotAttach', target: 'failing', actions: s.assign({ failure: CANNOT_ATTACH }) },
        { guard: 'mustReport', target: 'reporting' },
        { guard: 'mustBeAttached', target: 'attaching' },
        { target: 'connecting' },
      ],
    },
    unsynced: unsyncedUntil('isUnused'),
    reporting: {
      meta: { waitsFor: 'the Node to list the volume as in use' },
      always: [
        { guard: 'isUnused', target: 'leaving' },
        { guard: 'isReported', target: 'deciding' },
        { guard: 'needsNoAttachment', target: 'deciding' },
      ],
    },
    attaching,
    detached: {
      meta: { waitsFor: 'the volume to be attached to this node' },
      always: [
        { guard: 'isUnused', target: 'leaving' },
        { guard: 'needsNoAttachment', target: 'deciding' },
      ],
      on: {
        'device.known': [
          { guard: becameAttached, target: 'attaching', actions: updateOrder },
          { actions: updateOrder },
        ],
      },
      after: { wait: 'attaching' },
    },
    connecting: {
      always: [
        { guard: 'isUnused', target: 'leaving' },
        { guard: 'isUnregistered', target: 'failing', actions: noteUnregistered },
        { target: 'asking' },
      ],
    },
    asking: {
      invoke: {
        ...askCapabilities,
        onDone: { target: 'choosing', actions: noteCapabilities },
        onError: { target: 'failing', actions: failing(stagingStep) },
      },
    },
    choosing: {
      always: [
        { guard: 'isUnused', target: 'leaving' },
        { guard: 'hasSecret', target: 'fetchingSecret' },
        { target: 'staging', actions: s.assign({ secrets: {} }) },
      ],
    },
    fetchingSecret: {
      always: { guard: 'isUnused', target: 'leaving' },
      invoke: {
        ...fetchSecret(({ volume }: Context) => volume?.stageSecret ?? null),
        onDone: { target: 'staging', actions: noteSecrets },
        onError: {
          target: 'failing',
          actions: failing(stagingStep, stageSecretError),
        },
      },
    },
    staging,
    staged: {
      entry: sendParent(
        ({ context }): DeviceReport => ({
          type: 'device.staged',
          key: context.key,
          device: {
            stagingPath: stages(context.capabilities) ? placeOf(context).staging : '',
            publishContext: context.publishContext,
          },
        }),
      ),
      always: { guard: 'isUnused', target: 'leaving' },
    },
    failing: { entry: [reportFailure, backOff], always: 'backingOff' },
    backingOff: {
      always: { guard: 'isUnused', target: 'leaving' },
      on: {
        'device.known': [{ guard: mayRetryAtOnce, target: 'deciding', actions: updateOrder }, { actions: updateOrder }],
      },
      after: { wait: 'deciding' },
    },
    leaving,
    gone: { type: 'final' },
  },
});
