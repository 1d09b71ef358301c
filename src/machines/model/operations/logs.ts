/**
 * Operations on the logs of containers. Implemented by `src/actors/logs/container-logs.ts`.
 *
 * Invariants: everything is below `root`, the folder of all pods' logs, except the links; a path that is not a regular
 * file is not touched.
 */
import { idempotent, query, stream } from '../../../kernel/xstate.ts';

/** The log of one running instance. */
export interface KeptLog {
  readonly root: string;
  readonly path: string;
  /** The link for legacy log collectors; empty for none. */
  readonly link: string;
  /** The size at which the log is rotated; negative: never. */
  readonly maxBytes: number;
  /** The number of files of one log, including the current one. */
  readonly maxFiles: number;
  readonly periodMs: number;
  /** The number of logs of this node that are rotated at once. */
  readonly workers: number;
}

export interface PodLogs {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

export const logOperations = {
  /**
   * Creates the link, and checks the size every `periodMs`. A log that is too large is renamed, older files are
   * compressed or removed; then the runtime has to reopen the log. Reports a missing log once, and again after
   * increasing pauses.
   */
  'logs.keep': stream<
    KeptLog,
    /** `aside`: the path of the rotated log. */
    | { readonly type: 'log.rotated'; readonly aside: string }
    | { readonly type: 'log.missing' }
    | { readonly type: 'log.failed'; readonly message: string }
  >(),
  /** The runtime did not reopen the log: it is renamed back. */
  'logs.restore': idempotent<{ root: string; path: string; aside: string }, null>(),
  /** Removes all logs of an instance, and the link. */
  'logs.remove': idempotent<{ root: string; path: string; link: string }, null>(),
  /**
   * Removes links below `links` that lead into `folder`: the links of one pod, by its name; with `dangling`, all broken
   * links.
   */
  'logs.unlink': idempotent<{ links: string; folder: string; dangling: boolean }, null>(),
  /** Pods with logs below `root`. */
  'logs.podFolders': query<{ root: string }, { pods: readonly PodLogs[] }>(),
};
