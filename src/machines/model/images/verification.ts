/**
 * Decides which pods may use an image that is already on the node (`imagePullCredentialsVerificationPolicy`). Pure.
 *
 * Invariant: another pod's pull does not give access to a pod without a credential that a registry accepted for this
 * image; every pod may use an image that was pulled with the node's own credentials.
 */

import type { PullCredential, PulledCredentials, PullRecord, SourceCoordinates } from '../operations/image.ts';
import { type Decider, hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { nameOf } from '../spec/image.ts';
import { valueIn } from '../values/tables.ts';

export type VerificationSettings = NonNullable<NodeSettings['imagePullVerification']>;

/** An image as its actor knows it. */
export interface KnownImage extends Decider {
  readonly repository: string;
  readonly place: { readonly image: string };
}

/** The name of an image in records and in the allowlist: as pods write it, without tag and digest. */
export const recordName = (image: KnownImage): string =>
  hasBehavior(image, 'imageDetailsAsKubelet') ? nameOf(image.place.image) : image.repository;

/** Whether a pod needs a credential for the image of this {@link recordName} at all. */
export function mustVerify({ policy, allowlist }: VerificationSettings, name: string, known: PullRecord): boolean {
  switch (policy) {
    case 'AlwaysVerify':
      return true;
    case 'NeverVerifyPreloadedImages':
      return known.intended || known.record !== null;
    case 'NeverVerifyAllowlistedImages':
      return !allowlist.some((pattern) => isListed(pattern, name));
    default:
      return false;
  }
}

const isListed = (pattern: string, name: string): boolean =>
  pattern.endsWith('/*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;

/** Whether a pod may use the image, as far as that is known without its credentials; `null`: the credentials decide. */
export function admittedByRecord(settings: VerificationSettings, name: string, known: PullRecord): boolean | null {
  if (!mustVerify(settings, name, known)) return true;
  const pulled = valueIn(known.record, name);
  if (pulled === undefined) return false;
  if (pulled.nodePodsAccessible) return true;
  return pulled.secrets.length + (pulled.accounts ?? []).length === 0 ? false : null;
}

/**
 * As {@link admittedByRecord} while the image is pulled: the intent is on disk, so that without a record the
 * origin of the image is unknown.
 */
export const admittedDuringPull = (
  settings: VerificationSettings | null,
  name: string,
  known: PullRecord | null,
): boolean =>
  settings === null || (known !== null && admittedByRecord(settings, name, { ...known, intended: true }) === true);

export interface Admission {
  readonly admitted: boolean;
  /** The credential to add to the record, so that the same secret is recognized next time; `null` for none. */
  readonly learnt: PulledCredentials | null;
}

/**
 * The maximum number of credentials that are added to a record without a pull, so that short-lived namespaces do not
 * fill the disk.
 */
const SECRETS_MAX = 100;

type KnownSecret = PulledCredentials['secrets'][number];

/**
 * Admits a pod if one of its credentials, or the secret that held it, was accepted before; or its service account,
 * because a plugin's credentials for it change each time.
 */
export function admission(pulled: PulledCredentials, credentials: readonly PullCredential[]): Admission {
  for (const { hash, source } of credentials) {
    if (source === null) continue;
    if (source.kind === 'ServiceAccount') {
      const isKnown = (pulled.accounts ?? []).some((known) => placeOf(known) === placeOf(source));
      if (isKnown) return { admitted: true, learnt: null };
      continue;
    }
    const isSamePlace = (known: KnownSecret) => placeOf(known) === placeOf(source);
    const isSameHash = (known: KnownSecret) => known.hash.$secret === hash.$secret;
    const match = pulled.secrets.find((known) => isSameHash(known) || isSamePlace(known));
    if (match === undefined) continue;
    const isKnown = pulled.secrets.some((known) => isSameHash(known) && isSamePlace(known));
    const isRecorded = !isKnown && pulled.secrets.length < SECRETS_MAX;
    return { admitted: true, learnt: isRecorded ? recordOf({ hash, source }) : null };
  }
  return { admitted: false, learnt: null };
}

const placeOf = ({ namespace, name, uid }: SourceCoordinates): string => JSON.stringify([namespace, name, uid]);

/**
 * The record of a pull with this credential; after a pull without one, or with the node's own, every pod may use the
 * image.
 */
export function recordOf(used: Pick<PullCredential, 'hash' | 'source'> | undefined): PulledCredentials {
  if (!used || used.source === null) return { nodePodsAccessible: true, secrets: [] };
  const { kind, namespace, name, uid } = used.source;
  if (kind === 'ServiceAccount') {
    return { nodePodsAccessible: false, secrets: [], accounts: [{ namespace, name, uid }] };
  }
  return { nodePodsAccessible: false, secrets: [{ namespace, name, uid, hash: used.hash }] };
}
