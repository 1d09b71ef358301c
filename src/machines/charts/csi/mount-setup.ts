/** The vocabulary of `csiMount`: what one volume of one pod knows. The chart is in `mount.ts`. */
import { pick, random, setup } from '../../../kernel/xstate.ts';
import type { CSIFailure, CSIPod, CSIVolume, Expansion, MountOrder } from '../../model/csi/messages.ts';
import { mountPlace } from '../../model/csi/places.ts';
import { type Capabilities, modeRefusal, ownershipOf, type Secrets } from '../../model/csi/policy.ts';
import { csiOperations } from '../../model/operations/csi.ts';
import { kubeOperations } from '../../model/operations/kube.ts';
import type { Ended } from '../../model/pods/messages.ts';
import { type SharingInput, sharingMachine } from '../volumes/sharing.ts';
import { driverGuards, retryDelays } from './driver-calls.ts';
import { csiExpansionMachine } from './expansion.ts';
import type { HeldTokens } from './tokens.ts';

/** With `requiresRepublish` a volume is published again so often, up to half of it later; as upstream syncs a pod. */
const REPUBLISH_MS = 60_000;

export type Known = Omit<Extract<MountOrder, { type: 'mount.known' }>, 'type'>;

interface MountInput extends Known {
  readonly id: string;
  readonly root: string;
  readonly nodeName: string;
  readonly podDirectory: string;
  readonly pod: CSIPod;
  readonly volume: CSIVolume;
  /** An agent before this one, or an actor, may have published it. */
  readonly mayBePublished: boolean;
}

export interface Context extends MountInput {
  readonly capabilities: Capabilities;
  readonly secrets: Secrets;
  readonly tokens: HeldTokens;
  /** Audiences that need a new token before the driver is asked. */
  readonly due: readonly string[];
  /** It was published by this agent, or found so. */
  readonly isPublished: boolean;
  /** Containers may use it. */
  readonly isUsable: boolean;
  /** What it was too small for when that could not be changed; `null`: nothing. */
  readonly declined: (Pick<Expansion, 'to'> & { readonly status: string | null }) | null;
  readonly failure: CSIFailure;
  readonly tries: number;
  readonly untilMs: number;
}

export const csiMountSetup = setup({
  types: { input: {} as MountInput, context: {} as Context, events: {} as MountOrder | Ended },
  actors: {
    ...pick(csiOperations, 'csi.capabilities', 'csi.publish', 'csi.unpublish'),
    ...pick(kubeOperations, 'kube.get', 'kube.create'),
    expansion: csiExpansionMachine,
    sharing: sharingMachine,
  },
  guards: {
    ...driverGuards,
    isReleased: ({ context }) => context.isReleased,
    isUntouched: ({ context }) => !context.mayBePublished,
    isRefused: ({ context }) => modeRefusal(context.volume, context.driver.spec ?? null) !== '',
    isTaken: ({ context }) => context.isTaken,
    lacksDevice: ({ context }) => !context.volume.isEphemeral && context.device === null,
    hasDevice: ({ context }) => context.device !== null,
    hasSecret: ({ context }) => context.volume.publishSecret !== null,
    lacksToken: ({ context }) => context.due.length > 0,
    mustExpand: ({ context: { expansion, declined } }) =>
      expansion !== null &&
      (expansion.to !== declined?.to || (declined.status !== null && declined.status !== expansion.status)),
    shares: ({ context: { volume, driver, capabilities } }) =>
      ownershipOf(volume, driver.spec ?? null, capabilities) !== null,
    republishes: ({ context }) => context.driver.spec?.requiresRepublish === true,
  },
  delays: {
    ...retryDelays,
    republish: (args) => REPUBLISH_MS * (1 + random(args) / 2),
  },
});

/** The event of a volume whose files take long to be given to the pod's group. */
export function sharingInput({ context }: { context: Context }): SharingInput {
  const { serviceAccount: _, ...ref } = context.pod;
  return { ref, directory: mountPlace(context, context.volume).directory };
}
