/**
 * Operations on the API server. Implemented by `src/actors/kube`.
 *
 * Eight verbs on one addressing scheme, as in kubectl; the journal shows object and body. Values of Secrets and tokens
 * cross this boundary as handles only (`src/kernel/journal/secrets.ts`). A rejection is a PlainError whose `code` is
 * the `reason` of the server's Status (`NotFound`, `Conflict`, `AlreadyExists`, `TooManyRequests`, `Expired`,
 * `Invalid`, `Forbidden`, ...) or the system's (`ECONNREFUSED`, `ETIMEDOUT`); `retriable` tells whether the same
 * request may succeed later, `retryAfterMs` is the delay that the server asked for.
 */
import type { Json } from '../../../kernel/json.ts';
import { idempotent, once, query, stream } from '../../../kernel/xstate.ts';

/**
 * The client whose limits apply to a request (S056 to S063): `kube` has the configured QPS and burst, `event` its own,
 * `heartbeat` none, and the timeout of the lease. `bootstrap` has the identity of the bootstrap kubeconfig.
 */
export type KubeClient = 'kube' | 'event' | 'heartbeat' | 'bootstrap';

/** The code of an error of `kube.connect` about the client, and not about the file of the kubeconfig. */
export const CLIENT_REFUSED = 'CLIENT_REFUSED';

/** The configuration's part of the input of `kube.connect`. */
export interface KubeSettings {
  readonly kubeconfig: string;
  /** The clients to create: the bootstrap identity has only one. */
  readonly role: 'node' | 'bootstrap';
  /** Requests per second, and at once; 0: the limits of client-go. */
  readonly qps: number;
  readonly burst: number;
  /** Events per second; 0: no limit. */
  readonly eventQps: number;
  readonly eventBurst: number;
  readonly heartbeatTimeoutMs: number;
  readonly userAgent: string;
  /**
   * PEM file with certificate and key that replaces the kubeconfig's certificate once it exists. Until then, files
   * named by the kubeconfig may be missing as well if `isBootstrapping` is true: they are being requested.
   */
  readonly certificateFile: string | null;
  readonly isBootstrapping: boolean;
}

/** One object, or a collection without `name`. `apiVersion` as in the object: `v1`, `apps/v1`. */
export interface KubeTarget {
  readonly client: KubeClient;
  readonly apiVersion: string;
  /** Plural, lower case: `pods`, `nodes`, `leases`. */
  readonly resource: string;
  readonly namespace?: string;
  readonly name?: string;
  /** `status`, `token`, `approval`. */
  readonly subresource?: string;
}

export interface KubeSelection {
  readonly fieldSelector?: string;
  readonly labelSelector?: string;
}

/**
 * An object as the server sent it: fields that this version does not know are kept, `metadata.managedFields` are not.
 * An integer beyond 2^53 is decimal text. In a Secret each value of `data` is `{ text: handle }`, or `{ base64: handle,
 * variable: handle }` where the bytes are no text.
 */
export type KubeObject = Readonly<Record<string, Json>> & {
  readonly metadata: Readonly<Record<string, Json>> & { readonly name: string; readonly resourceVersion?: string };
};

export type PatchType =
  | 'application/strategic-merge-patch+json'
  | 'application/merge-patch+json'
  | 'application/json-patch+json';

export interface KubeDeletePreconditions {
  readonly uid?: string;
  readonly resourceVersion?: string;
}

export type WatchItem = {
  readonly type: 'watch.changed';
  readonly change: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: KubeObject;
};

export const kubeOperations = {
  /**
   * Loads a kubeconfig and creates the clients of a role from it; sends nothing yet. Fails with client-go's text if the
   * file is invalid. Connecting again replaces the clients.
   */
  'kube.connect': idempotent<KubeSettings, { readonly server: string }>(),
  /** Closes the connections of every client: the next request dials again, with the current credentials. */
  'kube.closeConnections': idempotent<Record<string, never>, null>(),
  /** Asks the server's `/healthz`, for at most a second. */
  'kube.checkHealth': query<Pick<KubeTarget, 'client'>, null>(),
  'kube.get': query<KubeTarget, KubeObject>(),
  /** One page. `resourceVersion: '0'`: the server may answer from its cache; `continue`: the token of the next page. */
  'kube.list': query<
    KubeTarget &
      KubeSelection & { readonly limit?: number; readonly continue?: string; readonly resourceVersion?: string },
    { readonly items: readonly KubeObject[]; readonly resourceVersion: string; readonly continue: string }
  >(),
  /**
   * Emits each change. Bookmarks stay in the port, because they change nothing: the output has the newest observed
   * version, from which the next watch resumes. `expired`: the server no longer has that version.
   */
  'kube.watch': stream<
    KubeTarget & KubeSelection & { readonly resourceVersion: string; readonly timeoutSeconds?: number },
    WatchItem,
    { readonly reason: 'closed' | 'expired'; readonly resourceVersion: string }
  >(),
  /** Of an event, the output has its name only. */
  'kube.create': once<KubeTarget & { readonly body: Json }, KubeObject>(),
  'kube.update': idempotent<KubeTarget & { readonly body: Json }, KubeObject>(),
  /** Of `pods/status`, the output has the status and, of the metadata, names, uid, version and time of deletion. */
  'kube.patch': idempotent<KubeTarget & { readonly patchType: PatchType; readonly body: Json }, KubeObject>(),
  'kube.delete': idempotent<
    KubeTarget & { readonly gracePeriodSeconds?: number; readonly preconditions?: KubeDeletePreconditions },
    null
  >(),
  'kube.deleteCollection': idempotent<KubeTarget & KubeSelection, null>(),
};
