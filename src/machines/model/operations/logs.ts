/**
 * What the node agent asks for the logs of containers. Implemented by `src/actors/logs/container-logs.ts`.
 *
 * Invariants: everything lies below `root`, the folder of all pods' logs, but for the links; a path that is not a plain
 * file is left alone, whichever process made it.
 */
import { idempotent, query, stream } from '../../../kernel/xstate.ts';

/** The log of one instance that runs. */
export interface KeptLog {
  readonly root: string;
  readonly path: string;
  /** Where older log collectors expect it; empty: nowhere. */
  readonly link: string;
  /** Size at which it is rotated; negative: never. */
  readonly maxBytes: number;
  /** Files of one log, the one that is written included. */
  readonly maxFiles: number;
  readonly periodMs: number;
  /** Logs of this node that are rotated at once. */
  readonly workers: number;
}

export interface PodLogs {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

export const logOperations = {
  /**
   * Makes the link, and reads the size every `periodMs`. A log that is too large is moved aside, the older ones are
   * compressed or removed; then the runtime has to reopen it. Reports a missing log once, and
   * again after ever longer waits.
   */
  'logs.keep': stream<
    KeptLog,
    /** `aside`: what the log is called now. */
    | { readonly type: 'log.rotated'; readonly aside: string }
    | { readonly type: 'log.missing' }
    | { readonly type: 'log.failed'; readonly message: string }
  >(),
  /** The runtime did not open it anew: it gets its name back. */
  'logs.restore': idempotent<{ root: string; path: string; aside: string }, null>(),
  /** Removes all that an instance has written, and its link. */
  'logs.remove': idempotent<{ root: string; path: string; link: string }, null>(),
  /**
   * Removes links below `links` that lead into `folder`: a pod's, by the pod's name; with `dangling` those of all pods
   * that lead nowhere.
   */
  'logs.unlink': idempotent<{ links: string; folder: string; dangling: boolean }, null>(),
  /** Pods of which there are logs below `root`. */
  'logs.podFolders': query<{ root: string }, { pods: readonly PodLogs[] }>(),
};
