/**
 * Operations on credentials for image pulls, and on records of earlier pulls. Implemented by `src/actors/image`.
 *
 * Invariants: credentials and their hashes are handles; only a port resolves them. Paths lie below `root`, the
 * `--root-dir`.
 */
import { idempotent, query, type SecretHandle } from '../../../kernel/xstate.ts';
import type { ConfigObject } from './volume.ts';

/** An object of the API server that credentials came from. */
export interface SourceCoordinates {
  readonly namespace: string;
  readonly name: string;
  /** Empty for a Secret from a file. */
  readonly uid: string;
}

/** A pull secret, or the service account whose token a plugin used. */
export type CredentialSource = SourceCoordinates & { readonly kind: 'Secret' | 'ServiceAccount' };

/** One credential that a registry may accept. */
export interface PullCredential {
  /** A handle for an AuthConfig of CRI as JSON. */
  readonly auth: SecretHandle;
  /** A handle for the hash that identifies the credential in a pull record. */
  readonly hash: SecretHandle;
  /** `null`: a credential of the node itself: every pod may use images pulled with it. */
  readonly source: CredentialSource | null;
}

/** The credentials with which an image was pulled, under one name of its repository. */
export interface PulledCredentials {
  /** The image was pulled without a credential, or with one of the node. */
  readonly nodePodsAccessible: boolean;
  readonly secrets: readonly (SourceCoordinates & { readonly hash: SecretHandle })[];
  /** Service accounts whose pods may use the image; absent: none. */
  readonly accounts?: readonly SourceCoordinates[];
}

/** The record of an image. `null`: this agent has not pulled it, or has not finished. */
export interface PullRecord {
  readonly intended: boolean;
  /** Credentials by repository name, without tag or digest. */
  readonly record: Readonly<Record<string, PulledCredentials>> | null;
}

export interface PullingPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The name in the pod: empty for a static pod. */
  readonly serviceAccount: string;
}

interface RecordPlace {
  readonly root: string;
  /** The name of the image in the pod. */
  readonly image: string;
}

export const imageOperations = {
  /**
   * Reads the configuration of credential provider plugins (a file, or a folder of them) and keeps it for
   * `images.credentials`. Fails with upstream's text if it is invalid or a plugin is missing. With both paths empty all
   * plugins are forgotten. `tokens`: plugins may get service account tokens; `usesAccounts`: one does.
   */
  'images.registerProviders': idempotent<
    { config: string; binDir: string; tokens: boolean },
    { readonly usesAccounts: boolean }
  >(),
  /**
   * Credentials for a repository in the order of attempts: pull secrets, the docker configuration of the node, plugins.
   * Fails if a pull secret cannot be decoded. `pod`: the pod whose service account plugins may use.
   */
  'images.credentials': query<
    { root: string; repository: string; secrets: readonly ConfigObject[]; pod: PullingPod | null },
    { credentials: readonly PullCredential[] }
  >(),
  'images.pullRecord': query<RecordPlace & { imageRef: string }, PullRecord>(),
  'images.recordIntent': idempotent<RecordPlace, null>(),
  /** Turns the intent into a record, or adds to an existing record. `null` credentials: unknown. */
  'images.recordPulled': idempotent<
    RecordPlace & { imageRef: string; repository: string; credentials: PulledCredentials | null },
    null
  >(),
  'images.forgetIntent': idempotent<RecordPlace, null>(),
  /** Images whose pull an earlier agent started and did not finish. `unread`: why some intents cannot be read. */
  'images.listIntents': query<{ root: string }, { images: readonly string[]; unread?: readonly string[] }>(),
  /** Removes the records of images that no longer exist, except those written after `untilMs`. */
  'images.pruneRecords': idempotent<{ root: string; keep: readonly string[]; untilMs: number }, null>(),
};
