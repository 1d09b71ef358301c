/** Shared by the charts of devices, mounts and expansions: preparing a driver, and waiting after a failure. */
import { now, outputOf } from '../../../kernel/xstate.ts';
import type { SecretReference } from '../../model/api/pod.ts';
import type { CSIFailure, CSIVolume, DeviceOrder, Driver } from '../../model/csi/messages.ts';
import type { DeviceId } from '../../model/csi/paths.ts';
import { type Capabilities, isAttachable, PLUGIN, type Secrets } from '../../model/csi/policy.ts';
import type { KubeTarget } from '../../model/operations/kube.ts';
import { type EventText, podEvents, volumeEvents } from '../../model/reasons/reasons.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import { OPERATION_BACK_OFF, pauseMs } from '../../model/values/time.ts';

/** The back-off state of a chart: failures since the last success, and the time of the next attempt. */
interface Retrying {
  readonly tries: number;
  readonly untilMs: number;
}
/** Before the first failure. */
export const NO_FAILURE: Retrying & { readonly failure: CSIFailure } = {
  failure: { step: '', message: '' },
  tries: 0,
  untilMs: 0,
};

interface Turn {
  readonly context: Retrying;
  readonly system: object;
}

export const afterFailure = (args: Turn): Retrying => ({
  tries: args.context.tries + 1,
  untilMs: now(args) + pauseMs(OPERATION_BACK_OFF, args.context.tries),
});

export const retryDelays = {
  wait: (args: Turn): number => Math.max(0, args.context.untilMs - now(args)),
};

interface Driven {
  readonly context: { readonly driver: Driver };
}

/** Synced: it is known whether the driver has a CSIDriver object. Registered: it has an endpoint on this node. */
export const driverGuards = {
  isUnsynced: ({ context }: Driven): boolean => context.driver.spec === undefined,
  isSynced: ({ context }: Driven): boolean => context.driver.spec !== undefined,
  /** The agent attaches volumes itself, which no CSI driver lets it do. */
  cannotAttach: ({ context: { driver } }: Driven): boolean => driver.attachesItself === true && isAttachable(driver),
  isUnregistered: ({ context }: Driven): boolean => context.driver.endpoint === null,
  isRegistered: ({ context }: Driven): boolean => context.driver.endpoint !== null,
};

export const CANNOT_ATTACH: CSIFailure = {
  step: 'AttachVolume.Attach',
  message: 'attaching volumes from the kubelet is not supported',
};

/** Instead of the step that failed: the volume is not set up at all. */
export const UNPROCESSED = '';

/** The event of a volume that could not be attached, mounted or mapped. */
export function failureEvent({ name, spec, isBlock }: CSIVolume, { step, message }: CSIFailure): EventText {
  if (step === UNPROCESSED) return podEvents.unprocessedVolumes([name], [message]);
  if (step === CANNOT_ATTACH.step) return volumeEvents.failedAttach(spec, message, step);
  return (isBlock ? volumeEvents.failedMap : podEvents.failedMount)(spec, message, step);
}

/** Waits until the CSIDriver objects are known, or the volume is no longer needed. */
export const unsyncedUntil = <Guard extends string>(isOver: Guard) =>
  ({
    meta: { waitsFor: 'the CSIDriver objects of the cluster' },
    always: [
      { guard: isOver, target: 'leaving' },
      { guard: 'isSynced', target: 'deciding' },
    ],
  }) as const;

/** Asks the driver for its capabilities. The driver has to be registered. */
export const askCapabilities = {
  id: 'capabilities',
  src: 'csi.capabilities',
  input: ({ context }: { context: { readonly driver: Driver } }) => ({ endpoint: context.driver.endpoint }),
} as const;

export const capabilitiesIn = (event: unknown): { capabilities: Capabilities } =>
  outputOf<{ capabilities: Capabilities }>(event);

/** Gets the secret that this reference names. There has to be a reference. */
export const fetchSecret = <Context>(refOf: (context: Context) => SecretReference | null) =>
  ({
    id: 'secret',
    src: 'kube.get',
    input: ({ context }: { context: Context }): KubeTarget => ({
      client: 'kube',
      apiVersion: 'v1',
      resource: 'secrets',
      namespace: refOf(context)?.namespace ?? '',
      name: refOf(context)?.name ?? '',
    }),
  }) as const;

export const secretsIn = (event: unknown): { secrets: Secrets } => ({
  secrets: outputOf<{ data?: Secrets }>(event).data ?? {},
});

interface Behaving {
  readonly behavior: number;
}

export const reportsAsKubelet = (context: Behaving): boolean => hasBehavior(context, 'csiFailuresAsKubelet');

/** Upstream's text before the API server's error. */
export const secretLookup = (context: Behaving, ref: SecretReference | null): string =>
  reportsAsKubelet(context)
    ? `${PLUGIN}: failed to find the secret ${ref?.name} in the namespace ${ref?.namespace} with error: `
    : '';

/** Upstream's text: `fetching NodeStageSecretRef default/key failed: ` */
export const secretError = (context: Behaving, kind: string, ref: SecretReference | null): string =>
  `fetching ${kind} ${ref?.namespace}/${ref?.name} failed: ${secretLookup(context, ref)}`;

/** What the actor of a device, or of a disk, begins with. */
export interface DeviceInput extends Omit<DeviceOrder, 'type'> {
  readonly key: string;
  readonly root: string;
  readonly nodeName: string;
  readonly behavior: number;
  readonly id: DeviceId;
  /** An earlier agent, or a crashed actor, may have staged the volume. */
  readonly mayBeStaged: boolean;
}

/** The order that replaces an earlier one. Without a volume that of the earlier order stays. */
export function orderIn(order: DeviceOrder, { volume }: Pick<DeviceInput, 'volume'>) {
  const { type: _, ...known } = order;
  return { ...known, volume: known.volume ?? volume };
}
