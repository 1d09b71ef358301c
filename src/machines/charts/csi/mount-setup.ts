/**
 * Types of `csiMount`: its context, and the service account tokens that its driver requests (`tokenRequests` of its
 * CSIDriver). The chart is in `mount.ts`.
 */

import { type Ended, pick, random, type SecretHandle, setup, typed } from '../../../kernel/xstate.ts';
import type { CSIDriverSpec } from '../../model/api/pod.ts';
import type { CSIFailure, CSIPod, CSIVolume, Expansion, MountOrder } from '../../model/csi/messages.ts';
import { mountPlace } from '../../model/csi/paths.ts';
import { type Capabilities, modeRefusal, ownershipOf, type Secrets } from '../../model/csi/policy.ts';
import { csiOperations, type IssuedToken } from '../../model/operations/csi.ts';
import { kubeOperations } from '../../model/operations/kube.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import { serviceAccountTokenRequest } from '../../model/volumes/credentials.ts';
import { type SharingInput, sharingMachine } from '../volumes/sharing.ts';
import { driverGuards, retryDelays, secretError, secretLookup } from './driver-calls.ts';
import { csiExpansionMachine } from './expansion.ts';

/**
 * With `requiresRepublish` a volume is republished after this time, plus up to half of it; upstream's period of syncing
 * a pod.
 */
const REPUBLISH_MS = 60_000;

export type Known = Omit<Extract<MountOrder, { type: 'mount.known' }>, 'type'>;

export interface MountInput extends Known {
  readonly id: string;
  readonly root: string;
  readonly nodeName: string;
  readonly behavior: number;
  readonly podDirectory: string;
  readonly pod: CSIPod;
  readonly volume: CSIVolume;
  /** An earlier agent, or a crashed actor, may have published the volume. */
  readonly mayBePublished: boolean;
}

export interface Context extends MountInput {
  readonly capabilities: Capabilities;
  readonly secrets: Secrets;
  readonly tokens: CachedTokens;
  /** Audiences for which a new token is needed before the driver is called. */
  readonly due: readonly string[];
  /** The volume was published by this agent, or was found published. */
  readonly isPublished: boolean;
  /** Containers may use the volume. */
  readonly isUsable: boolean;
  /** The last expansion that was not possible; `null` for none. */
  readonly declined: (Pick<Expansion, 'to'> & { readonly status: string | null }) | null;
  readonly failure: CSIFailure;
  readonly tries: number;
  readonly untilMs: number;
}

export const csiMountSetup = setup({
  types: typed<{ input: MountInput; context: Context; events: MountOrder | Ended }>(),
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
    isConflicting: ({ context }) => context.conflict !== null,
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

export function publishSecretError({ volume: { isBlock, publishSecret: ref }, behavior }: Context): string {
  if (!isBlock) return secretError({ behavior }, 'NodePublishSecretRef', ref);
  const failure = 'kubernetes.io/csi: blockMapper.publishVolumeForBlock failed to get NodePublishSecretRef';
  return `${failure} ${ref?.namespace}/${ref?.name}: ${secretLookup({ behavior }, ref)}`;
}

/** The input of the actor that reports the change of the volume's group. */
export function sharingInput({ context }: { context: Context }): SharingInput {
  const { serviceAccount: _, ...ref } = context.pod;
  return { ref, directory: mountPlace(context, context.volume).directory };
}

/** Upstream's default if the driver gives no expiration. */
const EXPIRATION_SECONDS = 3_600;
/** The share of a token's lifetime after which a new one is requested; and the longest time that one is kept. */
const REFRESH_SHARE = 0.8;
const REFRESH_MAX_MS = 24 * 3_600_000;

/** Tokens by audience; the empty audience is that of the API server itself. */
export type CachedTokens = Readonly<Record<string, { readonly issued: IssuedToken; readonly refreshMs: number }>>;

type Spec = CSIDriverSpec | null;

/** Audiences without a token, or whose token is too old. The driver of a block device gets no tokens, as upstream. */
export function dueTokens({ driver, volume, tokens, behavior }: Context, nowMs: number): readonly string[] {
  if (volume.isBlock && hasBehavior({ behavior }, 'blockDevicesAsKubelet')) return [];
  return (driver.spec?.tokenRequests ?? [])
    .map(({ audience }) => audience)
    .filter((audience) => (tokens[audience]?.refreshMs ?? 0) <= nowMs);
}

export function tokenRequestOf(spec: Spec, audience: string, pod: CSIPod) {
  const request = (spec?.tokenRequests ?? []).find((each) => each.audience === audience);
  return serviceAccountTokenRequest(pod, {
    audience,
    expirationSeconds: request?.expirationSeconds ?? EXPIRATION_SECONDS,
  });
}

export interface TokenAnswer {
  readonly status: { readonly token: SecretHandle; readonly expirationTimestamp: string };
}

export function cachedToken(
  { status: { token, expirationTimestamp } }: TokenAnswer,
  nowMs: number,
): CachedTokens[string] {
  const lifeMs = Date.parse(expirationTimestamp) - nowMs;
  const issued = { token: { $secret: token.$secret, len: token.len }, expirationTimestamp };
  return { issued, refreshMs: nowMs + Math.min(lifeMs * REFRESH_SHARE, REFRESH_MAX_MS) };
}
