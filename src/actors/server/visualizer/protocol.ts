/**
 * The JSON messages from the visualizer's server to its page. Types only: the page imports them, too.
 *
 * Times are milliseconds of the kernel's clock, numbers `n` are those of the journal's records. Values are truncated:
 * the journal has them in full.
 */
import type { Address } from '../../../kernel/address.ts';
import type { OperationClass } from '../../../kernel/operation.ts';
import type { KernelRecord } from '../../../kernel/records.ts';

/** An open request of an actor: it waits for the answer, or receives items from a `stream`. */
export interface RequestView {
  readonly id: number;
  readonly name: string;
  readonly class: OperationClass;
  readonly since: number;
  readonly n: number;
}

/** An active state, and what it waits for if its machine defines that. */
export interface ActiveState {
  /** The chart's id of the state. */
  readonly id: string;
  /** Keys from the root of the chart; empty for the root itself. */
  readonly path: string;
  readonly since: number;
  readonly waitsFor?: string;
}

export interface ActorView {
  readonly address: Address;
  readonly machine: string;
  readonly value: unknown;
  readonly status: 'active' | 'done' | 'error' | 'stopped';
  readonly active: readonly ActiveState[];
  readonly requests: readonly RequestView[];
  /** Why it ended, if it failed. */
  readonly error?: string;
  /** The name of the pod whose uid is in its address, if its machine knows it. */
  readonly named?: NamedUid;
}

export interface NamedUid {
  readonly uid: string;
  readonly name: string;
}

/** The states of an actor: the value in its machine's notation, and all active states. */
export interface StatesView {
  readonly value: unknown;
  readonly active: readonly ActiveState[];
}

/** A record with its time, turn and cause. */
export interface ShownRecord {
  readonly n: number;
  readonly t: number;
  readonly turn: number;
  readonly cause?: number;
  readonly record: KernelRecord;
  /** With a `state` record: the states that are active from here on. */
  readonly active?: readonly ActiveState[];
  /** With a `state` record: the previous states; absent if the record starts the actor. */
  readonly was?: StatesView;
  /** With a `state` record that starts an actor or makes its name known. */
  readonly begins?: { readonly machine: string; readonly named?: NamedUid };
  /** The request that a `cancel` record cancels, or whose stream delivered an input. */
  readonly request?: { readonly asker: Address; readonly name: string };
}

export interface TreeView {
  readonly incarnation: string;
  readonly node: string;
  readonly root: Address;
  /** Number of the last record that this answer covers. */
  readonly n: number;
  readonly turn: number;
  /** The kernel's clock now, to count on from. */
  readonly now: number;
  readonly actors: readonly ActorView[];
}

export interface TimerView {
  readonly event: string;
  readonly due: number;
}

export interface ActorDetail {
  readonly actor: ActorView;
  /** Number of the record after which this was the state; absent: now. */
  readonly at?: number;
  /** JSON text, truncated at a limit. Absent if the actor has ended, or does not exist yet. */
  readonly context?: string;
  readonly timers: readonly TimerView[];
}

/** A period that the root actor spent in one of its states. */
export interface PhaseView {
  readonly id: string;
  readonly name: string;
  readonly depth: number;
  /** The rows of the documented start-up sequence that the phase covers: `S116-S120`. */
  readonly steps?: string;
  readonly waitsFor?: string;
  readonly entered: number;
  readonly enteredBy: number;
  readonly left?: number;
  readonly leftBy?: number;
}

/** The end of a failed start: the root's last message, and the failed phase. */
export interface FailureView {
  readonly n: number;
  readonly message: string;
  readonly phase?: string;
}

/** A pod, by the last log line that reported its status. */
export interface PodView {
  readonly uid: string;
  /** `namespace/name` */
  readonly pod: string;
  readonly phase: string;
  readonly ready: boolean;
  readonly restarts: number;
  readonly n: number;
  /** Time of the first such line. */
  readonly seen: number;
  /** When the pod first ran. */
  readonly running?: number;
  /** When the pod's actor ended. */
  readonly gone?: number;
  readonly claims?: ClaimWaitView;
}

export interface ClaimWaitView {
  readonly what: 'prepare' | 'unprepare';
  /** The current step: the API server is asked, the checkpoint is written, drivers are asked, the next try is due. */
  readonly step: 'reading' | 'recording' | 'calling' | 'pausing';
  readonly stepSince: number;
  /** `namespace/name`; empty: the pod's claims have no names yet. */
  readonly claims: readonly string[];
  /** None before the claims were read. */
  readonly drivers: readonly string[];
  /** Time of the first try. */
  readonly since: number;
  readonly failures: number;
  readonly error?: { readonly message: string; readonly t: number };
  /** Time of the next try, where one is due. */
  readonly nextTry?: number;
  /** The last record about it. */
  readonly n: number;
}

/** A resource driver of the node, and the claims that it prepares. */
export interface DriverView {
  readonly driver: string;
  readonly registrations: readonly {
    readonly endpoint: string;
    readonly service: string;
    readonly isConnected: boolean;
  }[];
  readonly claims: readonly {
    /** `namespace/name` */
    readonly claim: string;
    /** Uids. */
    readonly pods: readonly string[];
    readonly state: 'prepared' | 'unprepared' | 'ending';
    /** `pool/device` */
    readonly devices: readonly string[];
  }[];
}

/** An operation without an answer. */
export interface CallView {
  /** Number and time of the request, or of the failed answer. */
  readonly n: number;
  readonly t: number;
  /** Address of the requesting actor. */
  readonly at: string;
  readonly name: string;
  /** The subject of the operation: an endpoint, a file. */
  readonly target?: string;
}

/** An operation whose last answer was an error. */
export interface TroubleView extends CallView {
  readonly message: string;
  /** A stream that goes on and reports only errors: a port in use. */
  readonly isStream?: boolean;
  /** Consecutive errors. */
  readonly times: number;
}

export interface PhasesView {
  readonly started: number;
  readonly now: number;
  readonly phases: readonly PhaseView[];
  /** The newest is the last. */
  readonly troubles?: readonly TroubleView[];
  /** The oldest first. */
  readonly pending?: readonly CallView[];
  readonly failure?: FailureView;
  /** Why a started node is not Ready. */
  readonly notReady?: string;
}

export interface RecordsView {
  /** In the order of their numbers. */
  readonly records: readonly ShownRecord[];
  /** True if more kept records follow. */
  readonly more: boolean;
}

/** The health of a running node's kernel. */
export interface HealthFacts {
  /** Inputs in the queue. */
  readonly queue: number;
  /** Durations of the last turns in milliseconds, the newest last. */
  readonly turnsMs: readonly number[];
  readonly rssBytes: number;
  readonly heapBytes: number;
  readonly journalBytes?: number;
  readonly actors: number;
  readonly drivers: readonly DriverView[];
  readonly timers: number;
  readonly requests: number;
}

/** Data of the SSE event `turn`; its id is `n`. */
export interface TurnMessage {
  /** Number of the turn's last record. */
  readonly n: number;
  readonly turn: number;
  readonly t: number;
  readonly records: readonly ShownRecord[];
  /** Actors that this turn changed, in their present state. */
  readonly actors: readonly ActorView[];
  /** Actors that ended long ago and are no longer shown. */
  readonly gone: readonly Address[];
}

/** Data of the SSE event `hello`, the first of each connection. `resumed` is false if turns were missed. */
export interface HelloMessage {
  readonly incarnation: string;
  readonly resumed: boolean;
  readonly now: number;
}
