/**
 * One volume of a CSI driver for one pod (`mount-<n>` below `csiVolumes`): published for as long as the pod wants it.
 *
 * Decides: when the driver is asked, and asked again; what it is told of the pod.
 * Owns: the secrets' and tokens' handles, what the driver can do, the back-off.
 * Hears: `mount.known` of `csiVolumes`, whenever something of it changed; `mount.deviceFailed`.
 * Asks: `kube.get` of the secret, `kube.create` of tokens; `csi.capabilities`, `csi.publish`, `csi.unpublish`.
 * Tells: `csiVolumes` `mount.published`; `eventRecorder` each failure.
 * Invariants:
 *   U1 a persistent volume is published only while its device is staged.
 *   U2 a call to the driver is never given up half-way: what follows waits for its answer or its deadline.
 *   U3 it ends only when the volume is unpublished and its record is gone.
 * Upstream: pkg/volume/csi/csi_mounter.go, pkg/volume/util/operationexecutor.
 */
import { line, now, type PlainError, pick, random, sendParent, setup, to } from '../../kernel/xstate.ts';
import { csiOperations, type IssuedToken } from '../operations/csi.ts';
import { kubeOperations } from '../operations/kube.ts';
import type { Content } from '../operations/volume.ts';
import { type Ended, eventRecorded } from '../pods/messages.ts';
import { podEvents } from '../reasons.ts';
import { RETRY_BASE_MS, RETRY_MAX_MS } from './device.ts';
import type { CSIFailure, CSIPod, CSIVolume, MountOrder, MountReport } from './messages.ts';
import {
  type Capabilities,
  modeRefusal,
  notRegistered,
  ownershipOf,
  publishRequest,
  TAKEN,
  targetPath,
  volumeData,
  volumeFolder,
} from './policy.ts';
import { dueTokens, type HeldTokens, heldToken, type TokenAnswer, tokenRequestOf } from './tokens.ts';

/** With `requiresRepublish` a volume is published again so often, up to half of it later; as upstream syncs a pod. */
const REPUBLISH_MS = 60_000;

type Secrets = Readonly<Record<string, Content>>;
type Known = Omit<Extract<MountOrder, { type: 'mount.known' }>, 'type'>;

export interface MountInput extends Known {
  readonly id: string;
  readonly root: string;
  readonly nodeName: string;
  readonly podDirectory: string;
  readonly pod: CSIPod;
  readonly volume: CSIVolume;
  /** An agent before this one, or an actor, may have published it. */
  readonly mayBePublished: boolean;
}

interface Context extends MountInput {
  readonly capabilities: Capabilities;
  readonly secrets: Secrets;
  readonly tokens: HeldTokens;
  /** Audiences that need a new token before the driver is asked. */
  readonly due: readonly string[];
  /** It was published by this agent, or found so. */
  readonly isPublished: boolean;
  readonly failure: CSIFailure;
  readonly tries: number;
  readonly untilMs: number;
}

const s = setup({
  types: { input: {} as MountInput, context: {} as Context, events: {} as MountOrder | Ended },
  actors: {
    ...pick(csiOperations, 'csi.capabilities', 'csi.publish', 'csi.unpublish'),
    ...pick(kubeOperations, 'kube.get', 'kube.create'),
  },
  guards: {
    isReleased: ({ context }) => context.isReleased,
    isUntouched: ({ context }) => !context.mayBePublished,
    isUnsynced: ({ context }) => context.driver.spec === undefined,
    isSynced: ({ context }) => context.driver.spec !== undefined,
    isRefused: ({ context }) => modeRefusal(context.volume, context.driver.spec ?? null) !== '',
    isTaken: ({ context }) => context.isTaken,
    lacksDevice: ({ context }) => !context.volume.isEphemeral && context.device === null,
    hasDevice: ({ context }) => context.device !== null,
    isUnregistered: ({ context }) => context.driver.endpoint === null,
    isRegistered: ({ context }) => context.driver.endpoint !== null,
    hasSecret: ({ context }) => context.volume.publishSecret !== null,
    lacksToken: ({ context }) => context.due.length > 0,
    republishes: ({ context }) => context.driver.spec?.requiresRepublish === true,
  },
  delays: {
    wait: (args) => Math.max(0, args.context.untilMs - now(args)),
    republish: (args) => REPUBLISH_MS * (1 + random(args) / 2),
  },
});

const errorOf = (event: unknown): PlainError => (event as { error: PlainError }).error;

const takeOrder = s.assign(({ event }) => {
  if (event.type !== 'mount.known') return {};
  const { type: _, ...known } = event;
  return known;
});

const SETTING_UP = 'MountVolume.SetUp';

const noteRefusal = s.assign(({ context }) => ({
  failure: {
    step: 'MountVolume.NewMounter initialization',
    message: modeRefusal(context.volume, context.driver.spec ?? null),
  },
}));
const noteTaken = s.assign({ failure: { step: SETTING_UP, message: TAKEN } });
const noteUnregistered = s.assign(({ context }) => {
  const what = 'kubernetes.io/csi: mounter.SetUpAt failed to get CSI client';
  return { failure: { step: SETTING_UP, message: `${what}: ${notRegistered(context.volume.driver)}` } };
});
const noteDeviceFailure = s.assign(({ event }) =>
  event.type === 'mount.deviceFailed' ? { failure: { step: event.step, message: event.message } } : {},
);
const failing = (prefix: (context: Context) => string = () => '') =>
  s.assign(({ context, event }) => ({
    failure: { step: SETTING_UP, message: `${prefix(context)}${errorOf(event).message}` },
  }));
const secretError = ({ volume: { publishSecret } }: Context): string =>
  `fetching NodePublishSecretRef ${publishSecret?.namespace}/${publishSecret?.name} failed: `;
const tokenError = (): string => 'kubernetes.io/csi: mounter.SetUpAt failed to get service accoount token attributes: ';

const tellFailure = s.enqueueActions(({ context, enqueue }) => {
  const { failure, pod, volume } = context;
  const { serviceAccount: _, ...ref } = pod;
  const event = podEvents.failedMount(volume.spec, failure.message, failure.step);
  enqueue.sendTo(to('eventRecorder'), eventRecorded(ref, event));
  enqueue(line('warn', [event.message, { pod: `${pod.namespace}/${pod.name}`, driver: volume.driver }]));
});

const backOff = s.assign((args) => {
  const delayMs = Math.min(RETRY_MAX_MS, RETRY_BASE_MS * 2 ** args.context.tries);
  return { tries: args.context.tries + 1, untilMs: now(args) + delayMs };
});

/** What failed for want of the driver, or because another pod had the volume, need not wait any longer. */
const becameFree = ({ context, event }: { context: Context; event: unknown }): boolean => {
  const { driver, isTaken } = event as Known;
  return driver.endpoint !== context.driver.endpoint || (context.isTaken && !isTaken);
};

const noteCapabilities = s.assign(
  ({ event }) => (event as unknown as { output: { capabilities: Capabilities } }).output,
);
const noteSecrets = s.assign(({ event }) => ({
  secrets: (event as unknown as { output: { data?: Secrets } }).output.data ?? {},
}));
const noteDue = s.assign((args) => {
  const { context } = args;
  return { due: dueTokens(context.driver.spec ?? null, context.tokens, now(args)) };
});
const noteToken = s.assign((args) => {
  const { context, event } = args;
  const [audience = '', ...due] = context.due;
  const { output } = event as unknown as { output: TokenAnswer };
  return { due, tokens: { ...context.tokens, [audience]: heldToken(output, now(args)) } };
});
/** Tokens of which only the handles are left are asked for again. */
const dropForgotten = s.assign(({ context, event }) => ({
  tokens: errorOf(event).code === 'SECRET_NOT_HELD' ? {} : context.tokens,
}));
const notePublished = s.assign({ isPublished: true, tries: 0 });

const sayStuck = s.enqueueActions(({ context, event, enqueue }) => {
  const err = errorOf(event).message;
  const { volume, pod } = context;
  enqueue(line('error', ['UnmountVolume.TearDown failed', { volume: volume.spec, uid: pod.uid, err }]));
});

const issuedTokens = ({ tokens }: Context): Readonly<Record<string, IssuedToken>> =>
  Object.fromEntries(Object.entries(tokens).map(([audience, { issued }]) => [audience, issued]));

function publishInput({ context }: { context: Context }) {
  const { root, podDirectory, volume, driver, capabilities, nodeName, isPublished } = context;
  const spec = driver.spec ?? null;
  return {
    root,
    directory: volumeFolder(podDirectory, volume.spec),
    endpoint: driver.endpoint!,
    data: volumeData(volume, nodeName),
    again: isPublished,
    request: publishRequest(volume, targetPath(podDirectory, volume.spec), { ...context, spec }),
    tokens: issuedTokens(context),
    tokensIn: spec?.serviceAccountTokenInSecrets === true ? ('secrets' as const) : ('volume_context' as const),
    ownership: ownershipOf(volume, spec, capabilities),
  };
}

/** What the driver needs to know first, then the driver itself. */
const publishing = s.createStateConfig({
  initial: 'asking',
  states: {
    asking: {
      invoke: {
        id: 'capabilities',
        src: 'csi.capabilities',
        input: ({ context }) => ({ endpoint: context.driver.endpoint! }),
        onDone: [
          { guard: 'hasSecret', target: 'fetchingSecret', actions: noteCapabilities },
          { target: 'tokens', actions: noteCapabilities },
        ],
        onError: { target: '#csiMount.failing', actions: failing() },
      },
    },
    fetchingSecret: {
      invoke: {
        id: 'secret',
        src: 'kube.get',
        input: ({ context: { volume, pod } }) => ({
          client: 'kube',
          apiVersion: 'v1',
          resource: 'secrets',
          namespace: volume.publishSecret?.namespace ?? pod.namespace,
          name: volume.publishSecret?.name ?? '',
        }),
        onDone: { target: 'tokens', actions: noteSecrets },
        onError: { target: '#csiMount.failing', actions: failing(secretError) },
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
        onDone: { target: '#csiMount.published', actions: notePublished },
        onError: { target: '#csiMount.failing', actions: [failing(), dropForgotten] },
      },
    },
  },
});

/** From the end of the pod until nothing is left. */
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
        input: ({ context: { root, podDirectory, volume, driver } }) => ({
          root,
          podDirectory,
          directory: volumeFolder(podDirectory, volume.spec),
          endpoint: driver.endpoint!,
          handle: volume.handle,
        }),
        onDone: '#csiMount.gone',
        onError: { target: 'backingOff', actions: [sayStuck, backOff] },
      },
    },
    backingOff: {
      on: {
        'mount.known': [{ guard: becameFree, target: 'connecting', actions: takeOrder }, { actions: takeOrder }],
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
    failure: { step: '', message: '' },
    tries: 0,
    untilMs: 0,
  }),
  initial: 'deciding',
  on: { 'mount.known': { actions: takeOrder } },
  states: {
    deciding: {
      always: [
        { guard: 'isReleased', target: 'leaving' },
        { guard: 'isUnsynced', target: 'unsynced' },
        { guard: 'isRefused', target: 'failing', actions: noteRefusal },
        { guard: 'isTaken', target: 'failing', actions: noteTaken },
        { guard: 'lacksDevice', target: 'awaitingDevice' },
        { guard: 'isUnregistered', target: 'failing', actions: noteUnregistered },
        { target: 'publishing' },
      ],
    },
    unsynced: {
      meta: { waitsFor: 'the CSIDriver objects of the cluster' },
      always: [
        { guard: 'isReleased', target: 'leaving' },
        { guard: 'isSynced', target: 'deciding' },
      ],
    },
    awaitingDevice: {
      meta: { waitsFor: 'the volume to be attached and staged' },
      always: [
        { guard: 'isReleased', target: 'leaving' },
        { guard: 'hasDevice', target: 'deciding' },
      ],
      on: { 'mount.deviceFailed': { actions: [noteDeviceFailure, tellFailure] } },
    },
    publishing,
    published: {
      entry: sendParent(({ context }): MountReport => ({ type: 'mount.published', id: context.id })),
      always: { guard: 'isReleased', target: 'leaving' },
      initial: 'lasting',
      states: {
        lasting: { always: { guard: 'republishes', target: 'aging' } },
        /** Waits for the time to publish it again. */
        aging: { after: { republish: '#csiMount.deciding' } },
      },
    },
    failing: { entry: [tellFailure, backOff], always: 'backingOff' },
    backingOff: {
      always: { guard: 'isReleased', target: 'leaving' },
      on: {
        'mount.known': [{ guard: becameFree, target: 'deciding', actions: takeOrder }, { actions: takeOrder }],
      },
      after: { wait: 'deciding' },
    },
    leaving,
    gone: { type: 'final' },
  },
});
