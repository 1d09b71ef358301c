/**
 * One volume of a CSI driver for one pod (`mount-<n>` below `csiVolumes`): published for as long as the pod wants it.
 *
 * Decides: when the driver is called and retried; which attributes of the pod it gets.
 * Owns: the secrets' and tokens' handles, the capabilities of the driver, the back-off; `expansion`, while the volume
 *   is too small; `sharing`, while changing the group of its files takes long.
 * Hears: `mount.known` of `csiVolumes`, whenever its order changed; `mount.deviceFailed`.
 * Asks: `kube.get` of the secret, `kube.create` of tokens; `csi.capabilities`, `csi.publish`, `csi.unpublish`.
 * Sends: `csiVolumes` `mount.published` and `mount.expanded`; `eventRecorder` each failure.
 * Invariants:
 *   U1 a persistent volume is published only while its device is staged.
 *   U2 a call to the driver is never abandoned: the next step waits for its answer or its deadline.
 *   U3 it ends only when the volume is unpublished and its record is removed.
 * Upstream: pkg/volume/csi/csi_mounter.go, pkg/volume/util/operationexecutor.
 */
import { type AnyActorRef, errorOf, line, now, outputOf, required, sendParent, to } from '../../../kernel/xstate.ts';
import type { MountReport } from '../../model/csi/messages.ts';
import { deviceIdOf, devicePlace, linkFolder, mapFolder, mountPlace } from '../../model/csi/paths.ts';
import { modeRefusal, notRegistered, ownershipOf, publishRequest, TAKEN, volumeData } from '../../model/csi/policy.ts';
import { labelConflict } from '../../model/csi/selinux.ts';
import type { IssuedToken } from '../../model/operations/csi.ts';
import type { Unshared } from '../../model/operations/volume.ts';
import { eventRecorded } from '../../model/pods/pod-messages.ts';
import { volumeEvents } from '../../model/reasons/reasons.ts';
import { mapValues } from '../../model/values/tables.ts';
import { SLOW_SHARING_MS } from '../volumes/sharing.ts';
import {
  afterFailure,
  askCapabilities,
  capabilitiesIn,
  failureEvent,
  fetchSecret,
  secretsIn,
  UNPROCESSED,
  unsyncedUntil,
} from './driver-calls.ts';
import type { ExpansionOrder, ExpansionResult } from './expansion.ts';
import type { Context, Known, TokenAnswer } from './mount-setup.ts';
import {
  cachedToken,
  dueTokens,
  publishSecretError,
  csiMountSetup as s,
  sharingInput,
  tokenRequestOf,
} from './mount-setup.ts';

const updateOrder = s.assign(({ event }) => {
  if (event.type !== 'mount.known') return {};
  const { type: _, ...known } = event;
  return known;
});

/** The step of setting the volume up, with upstream's name. */
const settingUp = ({ volume }: Context): string => (volume.isBlock ? 'MapVolume.MapPodDevice' : 'MountVolume.SetUp');

const MODE_CHECK = 'kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode';

const noteRefusal = s.assign(({ context }) => ({
  failure: {
    step: settingUp(context),
    message: `${MODE_CHECK}: ${modeRefusal(context.volume, context.driver.spec ?? null)}`,
  },
}));
const noteTaken = s.assign(({ context }) => ({
  failure: { step: context.volume.isBlock ? 'MapVolume.SetUpDevice' : settingUp(context), message: TAKEN },
}));
const noteConflict = s.assign(({ context: { volume, conflict } }) => ({
  failure: { step: UNPROCESSED, message: labelConflict(volume, conflict ?? '') },
}));
const noteUnregistered = s.assign(({ context }) => {
  const { isBlock, driver } = context.volume;
  const failure = `${isBlock ? 'blockMapper.MapPodDevice' : 'mounter.SetUpAt'} failed to get CSI client`;
  return { failure: { step: settingUp(context), message: `kubernetes.io/csi: ${failure}: ${notRegistered(driver)}` } };
});
const noteDeviceFailure = s.assign(({ event }) =>
  event.type === 'mount.deviceFailed' ? { failure: { step: event.step, message: event.message } } : {},
);
const failing = (prefix: (context: Context) => string = () => '') =>
  s.assign(({ context, event }) => ({
    failure: { step: settingUp(context), message: `${prefix(context)}${errorOf(event).message}` },
  }));
const tokenError = (): string => 'kubernetes.io/csi: mounter.SetUpAt failed to get service accoount token attributes: ';

const reportFailure = s.enqueueActions(({ context, enqueue }) => {
  const { failure, pod, volume } = context;
  const { serviceAccount: _, ...ref } = pod;
  const event = failureEvent(volume, failure);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, event));
  enqueue(line('warn', [event.message, { pod: `${pod.namespace}/${pod.name}`, driver: volume.driver }]));
});

const backOff = s.assign((args) => afterFailure(args));

/** A failure due to a missing driver, or because of the volume's other pods, is retried at once. */
const mayRetryAtOnce = ({ context, event }: { context: Context; event: Known }): boolean => {
  const { driver, isTaken, conflict } = event;
  const isFree = (context.isTaken && !isTaken) || (context.conflict !== null && conflict === null);
  return driver.endpoint !== context.driver.endpoint || isFree;
};

const noteCapabilities = s.assign(({ event }) => capabilitiesIn(event));
const noteSecrets = s.assign(({ event }) => secretsIn(event));
const noteDue = s.assign((args) => ({ due: dueTokens(args.context, now(args)) }));
const noteToken = s.assign((args) => {
  const { context, event } = args;
  const [audience = '', ...due] = context.due;
  const output = outputOf<TokenAnswer>(event);
  return { due, tokens: { ...context.tokens, [audience]: cachedToken(output, now(args)) } };
});
/** Tokens whose values are lost, leaving only handles, are requested again. */
const dropLostTokens = s.assign(({ context, event }) => ({
  tokens: errorOf(event).code === 'SECRET_NOT_HELD' ? {} : context.tokens,
}));
const notePublished = s.assign({ isPublished: true, tries: 0 });

const logUnshared = s.enqueueActions(({ event, enqueue }) => {
  const output = outputOf<Unshared | null>(event);
  if (output === null) return;
  const { text, ...fields } = output;
  enqueue(line('error', [text, fields]));
});

/** Records the path of a block device once. */
const sendMapped = s.enqueueActions(({ context, enqueue }) => {
  const { block } = mountPlace(context, context.volume);
  if (block === null || context.isPublished) return;
  const { serviceAccount: _, ...pod } = context.pod;
  const { spec } = context.volume;
  const texts = [
    volumeEvents.mapped(spec, 'globalMapPath', mapFolder(block)),
    volumeEvents.mapped(spec, 'volumeMapPath', linkFolder(block)),
  ];
  for (const text of texts) enqueue.sendTo(to('eventRecorder'), eventRecorded(pod, text));
});

const logStuck = s.enqueueActions(({ context, event, enqueue }) => {
  const err = errorOf(event).message;
  const { volume, pod } = context;
  enqueue(line('error', ['UnmountVolume.TearDown failed', { volume: volume.spec, uid: pod.uid, err }]));
});

const issuedTokens = ({ tokens }: Context): Readonly<Record<string, IssuedToken>> =>
  mapValues(tokens, ({ issued }) => issued);

function publishInput({ context }: { context: Context }) {
  const { root, volume, driver, capabilities, nodeName, isPublished, label } = context;
  const spec = driver.spec ?? null;
  const { directory, target, block } = mountPlace(context, volume);
  return {
    root,
    directory,
    block,
    endpoint: driver.endpoint,
    data: volumeData(volume, nodeName, label),
    again: isPublished,
    request: publishRequest(volume, target, { ...context, spec }),
    tokens: issuedTokens(context),
    tokensIn: spec?.serviceAccountTokenInSecrets === true ? ('secrets' as const) : ('volume_context' as const),
    ownership: ownershipOf(volume, spec, capabilities),
  };
}

function expansionInput({ context }: { context: Context }) {
  const { driver, isReleased, nodeName, behavior, pod, volume, expansion, root, isUsable } = context;
  return {
    driver,
    isReleased,
    nodeName,
    behavior,
    pod,
    volume,
    expansion: required(expansion, 'the expansion of the volume'),
    target: mountPlace(context, volume).target,
    stagingPath: devicePlace(root, deviceIdOf(volume)).staging,
    isInUse: isUsable,
  };
}

/** Asks the driver for its capabilities, fetches the secret and the tokens, and calls the driver. */
const publishing = s.createStateConfig({
  initial: 'asking',
  states: {
    asking: {
      invoke: {
        ...askCapabilities,
        onDone: [
          { guard: 'hasSecret', target: 'fetchingSecret', actions: noteCapabilities },
          { target: 'tokens', actions: noteCapabilities },
        ],
        onError: { target: '#csiMount.failing', actions: failing() },
      },
    },
    fetchingSecret: {
      invoke: {
        ...fetchSecret(({ volume, pod }: Context) => ({ namespace: pod.namespace, ...volume.publishSecret })),
        onDone: { target: 'tokens', actions: noteSecrets },
        onError: { target: '#csiMount.failing', actions: failing(publishSecretError) },
      },
    },
    tokens: { entry: noteDue, always: 'next' },
    fetchingToken: {
      invoke: {
        id: 'token',
        src: 'kube.create',
        input: ({ context: { pod, driver, due } }) => ({
          client: 'kube',
          apiVersion: 'v1',
          resource: 'serviceaccounts',
          namespace: pod.namespace,
          name: pod.serviceAccount,
          subresource: 'token',
          body: tokenRequestOf(driver.spec ?? null, due[0] ?? '', pod),
        }),
        onDone: { target: 'next', actions: noteToken },
        onError: { target: '#csiMount.failing', actions: failing(tokenError) },
      },
    },
    next: {
      always: [
        { guard: 'isReleased', target: '#csiMount.leaving' },
        { guard: 'lacksToken', target: 'fetchingToken' },
        { target: 'calling' },
      ],
    },
    calling: {
      meta: { waitsFor: 'the CSI driver to publish the volume' },
      entry: s.assign({ mayBePublished: true }),
      invoke: {
        id: 'publish',
        src: 'csi.publish',
        input: publishInput,
        onDone: { target: '#csiMount.published', actions: [logUnshared, sendMapped, notePublished] },
        onError: { target: '#csiMount.failing', actions: [failing(), dropLostTokens] },
      },
      initial: 'working',
      states: {
        working: { always: { guard: 'shares', target: 'sharing' } },
        sharing: { after: { [SLOW_SHARING_MS]: 'overdue' } },
        overdue: { invoke: { id: 'sharing', src: 'sharing', input: sharingInput, onError: 'sharing' } },
      },
    },
  },
});

const sendExpansion = s.enqueueActions(({ context: { driver, isReleased }, enqueue }) => {
  const order: ExpansionOrder = { type: 'expansion.known', driver, isReleased };
  enqueue.sendTo<AnyActorRef>('expansion', order);
});

const resultIn = (event: unknown): ExpansionResult => outputOf<ExpansionResult>(event);

/** Reports the size of the expansion; a larger size requested in the meantime stays requested. */
const sendSize = s.enqueueActions(({ context: { id, expansion }, event, enqueue }) => {
  const { to: size } = resultIn(event);
  enqueue.sendParent({ type: 'mount.expanded', id, size } satisfies MountReport);
  if (expansion?.to === size) enqueue.assign({ expansion: null });
});
const decline = s.assign(({ context: { expansion }, event }) => {
  const { outcome, to: size } = resultIn(event);
  return { declined: { to: size, status: outcome === 'inUse' ? null : (expansion?.status ?? '') } };
});

/** The driver has published the volume, until the end of the pod; a volume that is too small is expanded first. */
const published = s.createStateConfig({
  initial: 'fitting',
  states: {
    fitting: {
      always: [
        { guard: 'isReleased', target: '#csiMount.leaving' },
        { guard: 'mustExpand', target: 'expanding' },
        { target: 'usable' },
      ],
    },
    expanding: {
      meta: { waitsFor: 'the volume to be expanded' },
      on: { 'mount.known': { actions: [updateOrder, sendExpansion] } },
      invoke: {
        id: 'expansion',
        src: 'expansion',
        input: expansionInput,
        onDone: [
          { guard: ({ event }) => resultIn(event).outcome === 'expanded', target: 'usable', actions: sendSize },
          { target: 'usable', actions: decline },
        ],
        onError: { target: '#csiMount.failing', actions: failing() },
      },
    },
    usable: {
      entry: [
        s.assign({ isUsable: true }),
        sendParent(({ context }): MountReport => ({ type: 'mount.published', id: context.id })),
      ],
      always: [
        { guard: 'isReleased', target: '#csiMount.leaving' },
        { guard: 'mustExpand', target: 'expanding' },
      ],
      initial: 'lasting',
      states: {
        lasting: { always: { guard: 'republishes', target: 'aging' } },
        /** Waits until the volume has to be republished. */
        aging: { after: { republish: '#csiMount.deciding' } },
      },
    },
  },
});

/** The pod has ended: the volume is unpublished and its record is removed. */
const leaving = s.createStateConfig({
  initial: 'connecting',
  states: {
    connecting: {
      meta: { waitsFor: 'the CSI driver to register' },
      always: [
        { guard: 'isUntouched', target: '#csiMount.gone' },
        { guard: 'isRegistered', target: 'unpublishing' },
      ],
    },
    unpublishing: {
      meta: { waitsFor: 'the CSI driver to unpublish the volume' },
      invoke: {
        id: 'unpublish',
        src: 'csi.unpublish',
        input: ({ context }) => {
          const { root, podDirectory, volume, driver } = context;
          const { directory, block } = mountPlace(context, volume);
          return { root, podDirectory, directory, block, endpoint: driver.endpoint, handle: volume.handle };
        },
        onDone: '#csiMount.gone',
        onError: { target: 'backingOff', actions: [logStuck, backOff] },
      },
    },
    backingOff: {
      on: {
        'mount.known': [
          { guard: mayRetryAtOnce, target: 'connecting', actions: updateOrder },
          { actions: updateOrder },
        ],
      },
      after: { wait: 'connecting' },
    },
  },
});

export const csiMountMachine = s.createMachine({
  id: 'csiMount',
  context: ({ input }) => ({
    ...input,
    capabilities: [],
    secrets: {},
    tokens: {},
    due: [],
    isPublished: false,
    isUsable: false,
    declined: null,
    failure: { step: '', message: '' },
    tries: 0,
    untilMs: 0,
  }),
  initial: 'deciding',
  on: { 'mount.known': { actions: updateOrder } },
  states: {
    deciding: {
      always: [
        { guard: 'isReleased', target: 'leaving' },
        { guard: 'isUnsynced', target: 'unsynced' },
        { guard: 'isTaken', target: 'failing', actions: noteTaken },
        { guard: 'isConflicting', target: 'failing', actions: noteConflict },
        { guard: 'lacksDevice', target: 'awaitingDevice' },
        { guard: 'isUnregistered', target: 'failing', actions: noteUnregistered },
        { guard: 'isRefused', target: 'failing', actions: noteRefusal },
        { target: 'publishing' },
      ],
    },
    unsynced: unsyncedUntil('isReleased'),
    awaitingDevice: {
      meta: { waitsFor: 'the volume to be attached and staged' },
      always: [
        { guard: 'isReleased', target: 'leaving' },
        { guard: 'hasDevice', target: 'deciding' },
      ],
      on: { 'mount.deviceFailed': { actions: [noteDeviceFailure, reportFailure] } },
    },
    publishing,
    published,
    failing: { entry: [reportFailure, backOff], always: 'backingOff' },
    backingOff: {
      always: { guard: 'isReleased', target: 'leaving' },
      on: {
        'mount.known': [{ guard: mayRetryAtOnce, target: 'deciding', actions: updateOrder }, { actions: updateOrder }],
      },
      after: { wait: 'deciding' },
    },
    leaving,
    gone: { type: 'final' },
  },
});
