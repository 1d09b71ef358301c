/**
 * What the node agent asks about the right to use an image: who may pull it with which credentials, and who has shown
 * that right before. Implemented by `src/actors/image`.
 *
 * Invariants: credentials and their hashes are handles; what they stand for is opened in a port and nowhere else. Paths
 * lie below `root`, the `--root-dir`.
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

/** A pull secret, or the service account with whose token a plugin got them. */
export type CredentialSource = SourceCoordinates & { readonly kind: 'Secret' | 'ServiceAccount' };

/** One credential that a registry may accept. */
export interface PullCredential {
  /** Stands for an AuthConfig of CRI as JSON. */
  readonly auth: SecretHandle;
  /** Stands for the hash by which a record of an earlier pull knows it again. */
  readonly hash: SecretHandle;
  /** `null`: from the node itself, so that every pod may have what it opens. */
  readonly source: CredentialSource | null;
}

/** Who pulled an image successfully, for one repository name of it. */
export interface PulledCredentials {
  /** It was pulled without a credential, or with one of the node. */
  readonly nodePodsAccessible: boolean;
  readonly secrets: readonly (SourceCoordinates & { readonly hash: SecretHandle })[];
  /** Service accounts whose pods may have it; absent: none. */
  readonly accounts?: readonly SourceCoordinates[];
}

/** The record of an image. `null` record: this agent has not pulled it, or has only begun to. */
export interface PullRecord {
  readonly intended: boolean;
  /** By repository name, without tag or digest. */
  readonly record: Readonly<Record<string, PulledCredentials>> | null;
}

/** A pod for which an image is pulled. */
export interface PullingPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** As the pod says it: empty for a static pod. */
  readonly serviceAccount: string;
}

interface RecordPlace {
  readonly root: string;
  /** As the pod names it. */
  readonly image: string;
}

export const imageOperations = {
  /**
   * Reads the configuration of credential provider plugins (a file, or a folder of them) and remembers it for
   * `images.credentials`. Fails with upstream's text where it is wrong or a plugin is missing. Doing it with both paths
   * empty forgets all plugins. `tokens`: plugins may be given tokens of service accounts; `usesAccounts`: one is.
   */
  'images.registerProviders': idempotent<
    { config: string; binDir: string; tokens: boolean },
    { readonly usesAccounts: boolean }
  >(),
  /**
   * What may be tried for a repository, in the order in which it is tried: pull secrets, the docker configuration of
   * the node, plugins. Fails when a pull secret cannot be decoded. `pod`: whose service account plugins may get.
   */
  'images.credentials': query<
    { root: string; repository: string; secrets: readonly ConfigObject[]; pod: PullingPod | null },
    { credentials: readonly PullCredential[] }
  >(),
  'images.pullRecord': query<RecordPlace & { imageRef: string }, PullRecord>(),
  'images.recordIntent': idempotent<RecordPlace, null>(),
  /** Turns the intent into a record, or adds to the one that is there. `null` credentials: not known. */
  'images.recordPulled': idempotent<
    RecordPlace & { imageRef: string; repository: string; credentials: PulledCredentials | null },
    null
  >(),
  'images.forgetIntent': idempotent<RecordPlace, null>(),
  /** Images whose pull was begun by an agent that did not live to see its end. */
  'images.listIntents': query<{ root: string }, { images: readonly string[] }>(),
  /** Drops the records of images that are gone, but those written after `untilMs`. */
  'images.pruneRecords': idempotent<{ root: string; keep: readonly string[]; untilMs: number }, null>(),
};
