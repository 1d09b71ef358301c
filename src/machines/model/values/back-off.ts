/**
 * Exponential back-off: the pause doubles with each failure up to a limit, with jitter where many retries would
 * coincide. Pure.
 */
export interface BackOff {
  /** The pause after the first failure. */
  readonly baseMs: number;
  readonly maxMs: number;
  /** The largest relative jitter of a pause. */
  readonly jitter?: number;
}

/** Operations on one volume or one plugin. Upstream's limits: pkg/util/goroutinemap/exponentialbackoff. */
export const OPERATION_BACK_OFF: BackOff = { baseMs: 500, maxMs: 122_000 };
/** The Node and its Lease. Upstream's limits. */
export const NODE_BACK_OFF: BackOff = { baseMs: 100, maxMs: 7_000 };
/** Reads of objects that pods use. */
export const READ_BACK_OFF: BackOff = { baseMs: 1_000, maxMs: 30_000, jitter: 1 };
/** Statuses and mirror pods: a failing server is asked rarely, and a recovered one is found soon. */
export const WRITE_BACK_OFF: BackOff = { baseMs: 500, maxMs: 30_000, jitter: 0.5 };
/** A status write without an answer: never longer than upstream's period of syncing all statuses. */
export const STATUS_BACK_OFF: BackOff = { baseMs: 500, maxMs: 8_000, jitter: 0.25 };
/** A pod whose sync failed. Upstream's pause: pkg/kubelet/pod_workers.go. */
export const SYNC_BACK_OFF: BackOff = { baseMs: 10_000, maxMs: 10_000, jitter: 0.5 };
/** Crashed actors: at the limit a crash loop is slow enough to be read and fast enough to recover by itself. */
export const RESPAWN_BACK_OFF: BackOff = { baseMs: 1_000, maxMs: 60_000 };

/**
 * @param before the number of earlier failures
 * @param chance from 0 to 1, for `jitter`
 */
export const pauseMs = ({ baseMs, maxMs, jitter = 0 }: BackOff, before: number, chance = 0): number =>
  Math.min(maxMs, baseMs * 2 ** before) * (1 + jitter * chance);

/** The pause after one of `beforeMs`, for callers that store the pause instead of the number of failures. */
export const doubledMs = ({ maxMs }: BackOff, beforeMs: number): number => Math.min(beforeMs * 2, maxMs);
