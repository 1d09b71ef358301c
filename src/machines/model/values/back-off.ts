/**
 * How long to wait before a retry: twice as long each time, up to a limit, and longer by chance where many retries
 * would come at once. Pure.
 */
export interface BackOff {
  /** The pause after the first failure. */
  readonly baseMs: number;
  readonly maxMs: number;
  /** The largest share by which chance lengthens a pause. */
  readonly jitter?: number;
}

/** Operations on one volume or one plugin. Upstream's bounds: pkg/util/goroutinemap/exponentialbackoff. */
export const OPERATION_BACK_OFF: BackOff = { baseMs: 500, maxMs: 122_000 };
/** The Node and its Lease. Upstream's bounds. */
export const NODE_BACK_OFF: BackOff = { baseMs: 100, maxMs: 7_000 };
/** Reads of objects that pods use. */
export const READ_BACK_OFF: BackOff = { baseMs: 1_000, maxMs: 30_000, jitter: 1 };
/** Statuses and mirror pods: a server that refuses is asked rarely, and one that is back is found soon. */
export const WRITE_BACK_OFF: BackOff = { baseMs: 500, maxMs: 30_000, jitter: 0.5 };
/** A status write without an answer: never longer than upstream's period of syncing all statuses. */
export const STATUS_BACK_OFF: BackOff = { baseMs: 500, maxMs: 8_000, jitter: 0.25 };
/** Actors that crashed: at the limit a crash loop is slow enough to be read and fast enough to heal by itself. */
export const RESPAWN_BACK_OFF: BackOff = { baseMs: 1_000, maxMs: 60_000 };

/**
 * @param before how often it has failed before this failure
 * @param chance from 0 to 1, for what has `jitter`
 */
export const pauseMs = ({ baseMs, maxMs, jitter = 0 }: BackOff, before: number, chance = 0): number =>
  Math.min(maxMs, baseMs * 2 ** before) * (1 + jitter * chance);

/** The pause after one of `beforeMs`, for callers that keep the pause and not the number of failures. */
export const doubledMs = ({ maxMs }: BackOff, beforeMs: number): number => Math.min(beforeMs * 2, maxMs);
