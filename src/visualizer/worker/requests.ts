/** The requests of the page to its worker, and the notices of the worker. Types only. */
import type {
  ActorDetail,
  ActorView,
  PhasesView,
  PodView,
  ShownRecord,
} from '../../actors/server/visualizer/protocol.ts';
import type { Lane } from '../lanes.ts';
import type { PodEvent } from '../pod-answer.ts';
import type { Content } from './node/fs.ts';
import type { Comparison, HealthView, StartView } from './reports.ts';

/** Where the page gets its node from. */
export type Opening =
  /** The daemon that serves the page. */
  | { readonly from: 'daemon' }
  /** The journal whose files the server of the page has. */
  | { readonly from: 'server'; readonly incarnation?: string }
  /** Files that the user opened, or that are in the page; of several starts the named one, else the newest. */
  | { readonly from: 'files'; readonly files: ReadonlyMap<string, Content>; readonly incarnation?: string };

export interface Facts {
  readonly connection: 'connecting' | 'live' | 'lost' | 'journal' | 'failed';
  readonly incarnation: string;
  readonly node: string;
  readonly root: string;
  /** Times of the first and last record, milliseconds of the kernel's clock. */
  readonly started: number;
  readonly t: number;
  /** The clock of a running node when this was sent. */
  readonly now: number;
  readonly n: number;
  readonly turn: number;
  readonly records: number;
  /** Records in the holes between those that are kept. */
  readonly missed: number;
  /** A journal is not at its end yet. */
  readonly isReading?: boolean;
  /** Why the journal is shown incompletely, or not at all. */
  readonly note?: string;
  /** The replay has reached this record: data from contexts are absent after it. Absent: the replay is complete. */
  readonly ranTo?: number;
  /** From this record on the machines do not run, because this build decides otherwise: contexts are unknown. */
  readonly recordedFrom?: number;
  /** The machines run in the worker: contexts of the past are known. */
  readonly runs: boolean;
  /** Starts in the journal that is open. */
  readonly incarnations: readonly string[];
}

export interface Found {
  readonly search: number;
  readonly found: number;
  readonly scanned: number;
  readonly isDone: boolean;
  readonly error?: string;
  /** The first rows, once for each search, to be drawn at once. */
  readonly first?: readonly ShownRecord[];
}

/** The reports that the worker sends by itself, several times a second. */
export interface Notice {
  readonly facts: Facts;
  /** Another journal, or another start: the page drops everything. */
  readonly isNew?: boolean;
  /** The actors that changed. */
  readonly actors?: readonly ActorView[];
  /** Addresses of actors that ended long ago and are not shown any more. */
  readonly gone?: readonly string[];
  readonly phases?: PhasesView;
  readonly pods?: readonly PodView[];
  readonly found?: Found;
}

export interface Moment {
  /** The last record of the turn. */
  readonly n: number;
  readonly turn: number;
  readonly t: number;
  /** All actors are listed; otherwise only those that differ from the named moment. */
  readonly isWhole: boolean;
  readonly actors: readonly ActorView[];
  /** Addresses of actors that existed at the named moment and do not exist now. */
  readonly gone: readonly string[];
}

/** A member of a context before and after a turn. */
export interface ContextChange {
  readonly path: string;
  readonly before?: string;
  readonly after?: string;
}

export interface Inspection {
  readonly shown: ShownRecord;
  /** From the first listed cause to the record itself. */
  readonly chain: readonly ShownRecord[];
  /** Further causes before these. */
  readonly more: number;
  /** The cause of the first record, when it is not kept. */
  readonly forgotten?: number;
  /** Numbers of the consequences. */
  readonly followed: readonly number[];
  /** Messages of the turn, before the record and after it. */
  readonly messages: readonly ShownRecord[];
  /** How many the turn has. */
  readonly messagesInTurn: number;
  /** The changes of the turn to the context of the record's actor; absent: the machines do not run here. */
  readonly changes?: readonly ContextChange[];
}

/** A transition that was considered, in the order of consideration. */
export interface EdgeView {
  readonly source: string;
  readonly targets: readonly string[];
  readonly event: string;
  /** The guard as named in the machine; absent if the transition has none. */
  readonly guard?: string;
  readonly result: 'taken' | 'no' | 'not reached';
}

/** An actor's last step: its event and its decision. */
export interface StepView {
  /** The record that the actor received. */
  readonly n: number;
  readonly event: string;
  readonly edges: readonly EdgeView[];
  readonly before: readonly string[];
  readonly after: readonly string[];
}

export interface HistoryEntry {
  readonly n: number;
  readonly t: number;
  readonly view: Pick<ActorView, 'value' | 'status'>;
}

export interface PodStory {
  /** The pod at the chosen moment; absent: now. */
  readonly pod?: PodView;
  readonly lanes: readonly Lane[];
  readonly events: readonly PodEvent[];
}

export interface Group {
  readonly key: string;
  readonly count: number;
  readonly first: number;
}

export type GroupBy = 'actor' | 'kind' | 'turn' | 'what';

export type Other = ReadonlyMap<string, Content> | string | null;

export interface Requests {
  open(opening: Opening): Promise<null>;
  search(asked: { readonly text: string; readonly actor?: string }): Promise<number>;
  rows(asked: { readonly search: number; readonly from: number; readonly to: number }): Promise<readonly ShownRecord[]>;
  /** The position of a record among the results, or the position that it would have. */
  rowOf(asked: { readonly search: number; readonly n: number }): Promise<number>;
  groups(asked: { readonly search: number; readonly by: GroupBy }): Promise<readonly Group[]>;
  /** The record so many records, or turns, away. */
  near(asked: { readonly n: number; readonly by: 'record' | 'turn'; readonly steps: number }): Promise<number>;
  /** `since`: the end of a moment whose actors the page has. */
  moment(asked: { readonly n: number; readonly since?: number }): Promise<Moment | null>;
  inspect(asked: { readonly n: number }): Promise<Inspection | null>;
  /** The first records that followed from one. */
  consequences(asked: { readonly n: number }): Promise<readonly ShownRecord[]>;
  detail(asked: { readonly address: string; readonly at?: number }): Promise<ActorDetail | null>;
  history(asked: { readonly address: string; readonly at?: number }): Promise<readonly HistoryEntry[]>;
  step(asked: { readonly address: string; readonly at?: number }): Promise<StepView | null>;
  pod(asked: { readonly uid: string; readonly at?: number }): Promise<PodStory>;
  /** The messages between some actors and the world, around a record. */
  between(asked: { readonly actors: readonly string[]; readonly at?: number }): Promise<readonly ShownRecord[]>;
  /** The longest time between two records, in each of so many equal stretches of them. */
  pauses(asked: { readonly bins: number }): Promise<readonly number[]>;
  start(asked: null): Promise<StartView | null>;
  /**
   * Compares with another start of the same journal, by its name or `null` for the last good one; or with another
   * journal.
   */
  compare(asked: { readonly with: Other }): Promise<Comparison>;
  health(asked: null): Promise<HealthView>;
}

export type RequestName = keyof Requests;

export type ToWorker = { readonly id: number; readonly name: RequestName; readonly asked: unknown };
export type FromWorker =
  | { readonly id: number; readonly answer: unknown }
  | { readonly id: number; readonly error: string }
  | { readonly notice: Notice };
