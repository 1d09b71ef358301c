/**
 * A journal read once, as a story: what happened when, to whom and why, without the payloads.
 *
 * Owns: the moments with their causes, the operations with their times, the visits of the supervisor's phases, the pods
 * and their status. Hears: the records of one incarnation, in order. Invariants: nothing is run, so that a journal of
 * any build can be read; a state that this build's charts do not have is a phase without explanation, never an error;
 * after a gap in the journal the states from before the gap are forgotten.
 */

import {
  actorOf,
  type CauseSource,
  entryArming,
  History,
  streamError,
  streamOf,
} from '../../actors/server/visualizer/history.ts';
import { failureIn, type Phase, Phases } from '../../actors/server/visualizer/phases.ts';
import { Claims } from '../../actors/server/visualizer/pods.ts';
import type { FailureView, PhaseView } from '../../actors/server/visualizer/protocol.ts';
import type { Journal, StoredCheckpoint } from '../../kernel/journal/reader.ts';
import { memberOf } from '../../kernel/json.ts';
import type { OperationClass } from '../../kernel/operation.ts';
import type {
  GapRecord,
  HeaderRecord,
  InRecord,
  JournalRecord,
  KernelRecord,
  PersistedSnapshot,
} from '../../kernel/records.ts';
import type { DraCall } from '../../machines/model/operations/dra.ts';
import { decoded, lastOf, recordText, stateText } from '../../visualizer/words.ts';
import { PHASES, ROOT } from './supervisor.ts';

export { ROOT };

/** One record without its payload. */
export interface Moment {
  readonly n: number;
  readonly t: number;
  readonly k: KernelRecord['k'];
  /** The actor; for requests and their results, the actor that made the request. */
  readonly actor: string;
  /** The type of the event, name of the operation, text of the log line, or value of the state. */
  readonly what: string;
  /** The record as one line. */
  readonly text: string;
  readonly cause: number | undefined;
  /** The status of an actor that has ended; absent for active ones. */
  readonly status?: string;
  /** The number of the request, for requests and their results. */
  readonly request?: number;
}

export interface Operation {
  readonly id: number;
  readonly name: string;
  /** The address of the actor that requested it. */
  readonly at: string;
  readonly class: OperationClass;
  /** The endpoint, URL, image or path that its input names. */
  readonly target?: string;
  readonly began: number;
  readonly n: number;
  readonly ended?: number;
  /** A stream that has emitted an item. */
  readonly hasReported?: boolean;
  /** A stream whose last item is a failure: the number of failures in a row, and the time of the last one. */
  readonly failing?: { readonly error: string; readonly times: number; readonly t: number };
  readonly end?: 'done' | 'failed' | 'cancelled';
  readonly error?: string;
}

export interface ActorState {
  readonly value: unknown;
  readonly status: string;
  /** The time of its first record. */
  readonly began: number;
  /** By path, when each active state was entered, and by which record. */
  readonly since: ReadonlyMap<string, { readonly t: number; readonly n: number }>;
}

export interface PodStory {
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  phase: string;
  status: Readonly<Record<string, unknown>>;
  running: { readonly t: number; readonly n: number } | undefined;
  ready: { readonly t: number; readonly n: number } | undefined;
  readonly firstSeen: number;
}

/** The parts of a journal that a story reads. */
export type StorySource = Pick<Journal, 'header' | 'checkpoint' | 'records' | 'checkpointAfter'>;

/** Whether the story has everything that a report needs; reading then stops. */
export type IsEnough = (story: Story) => boolean;

/** The number of texts that are stored once; some thousand texts of a node recur. */
const WORDS_MAX = 20_000;
/** A journal has millions of records; after this many, the reader checks again whether they are enough. */
const ASKED_EVERY = 1_024;

export class Story implements CauseSource {
  readonly header: HeaderRecord;
  /** The first record that the journal still has; 0 if the journal begins with its incarnation. */
  readonly begins: number;
  readonly started: number;
  /** The time of the last record, or the current time. */
  ended: number;
  readonly moments = new Map<number, Moment>();
  readonly operations = new Map<number, Operation>();
  readonly actors = new Map<string, ActorState>();
  readonly pods = new Map<string, PodStory>();
  readonly claims = new Claims();
  healthz: { readonly t: number; readonly n: number } | undefined;
  failure: (FailureView & { readonly t: number }) | undefined;
  /** Records that the journal never stored. */
  readonly gaps: GapRecord[] = [];
  /** The record at which reading stopped. */
  readonly endsBefore: number | undefined;
  private readonly checkpointAfter: StorySource['checkpointAfter'];
  private readonly phaseVisits = new Phases();
  private readonly words = new Map<string, string>();
  /** The causes within the current turn. */
  private history = new History(this);

  /** `now` for a running node: actors that wait at the end of the journal still wait. */
  constructor(journal: StorySource, now = 0, isEnough: IsEnough = () => false) {
    const { header, checkpoint, records } = journal;
    this.checkpointAfter = (n) => journal.checkpointAfter(n);
    this.header = header;
    this.begins = checkpoint ? checkpoint.after + 1 : 0;
    this.started = header.t;
    this.ended = header.t;
    if (checkpoint) this.adopt(checkpoint);
    for (const record of records) {
      this.take(record);
      if (record.n % ASKED_EVERY !== 0 || !isEnough(this)) continue;
      this.endsBefore = record.n + 1;
      return;
    }
    this.ended = Math.max(this.ended, now);
  }

  get phases(): readonly PhaseView[] {
    return this.phaseVisits.list();
  }

  private adopt({ after, state }: StoredCheckpoint): void {
    this.ended = state.t;
    const seed = (address: string, snapshot: PersistedSnapshot): void => {
      if (snapshot.value !== undefined) this.entered(address, snapshot.value, snapshot.status, state.t, after);
      for (const [id, child] of Object.entries(snapshot.children ?? {})) seed(`${address}/${id}`, child.snapshot);
    };
    seed(ROOT, state.root);
    for (const { id, name, at, class: cls } of state.effects) {
      if (!this.operations.has(id)) this.operations.set(id, { id, name, at, class: cls, began: state.t, n: after });
    }
  }

  /** The end of an actor or operation within the gap is unknown. */
  private cross(gap: GapRecord): void {
    this.gaps.push(gap);
    const checkpoint = gap.upto === undefined ? undefined : this.checkpointAfter(gap.upto);
    if (checkpoint === undefined) return;
    const open = new Set(checkpoint.state.effects.map(({ id }) => id));
    for (const { id, end } of this.operations.values())
      if (end === undefined && !open.has(id)) this.operations.delete(id);
    this.actors.clear();
    this.history = new History(this);
    this.adopt(checkpoint);
  }

  /** Takes the next record, of a journal that is read elsewhere. */
  take(record: JournalRecord): void {
    if (record.k === 'gap') return this.cross(record);
    if (record.k === 'dropped') return;
    if ('t' in record) this.ended = record.t;
    if (record.k === 'end') {
      this.history = new History(this);
      return;
    }
    const { cause } = this.history.read(record, 0, this.ended, ROOT);
    this.moments.set(record.n, this.momentOf(record, cause));
    this.learn(record);
  }

  private momentOf(record: KernelRecord, cause: number | undefined): Moment {
    const actor = actorOf(record) ?? ROOT;
    const before = record.k === 'state' ? this.actors.get(record.at)?.value : undefined;
    const id = record.k === 'cancel' ? record.id : record.k === 'in' ? streamOf(record) : undefined;
    const operation = id === undefined ? undefined : this.operations.get(id)?.name;
    const request = record.k === 'effect' || record.k === 'result' ? { request: record.id } : {};
    const status = record.k === 'state' && record.status !== undefined ? { status: record.status } : {};
    const moment = {
      n: record.n,
      t: this.ended,
      k: record.k,
      actor,
      what: this.once(whatOf(record)),
      cause,
      ...request,
      ...status,
    };
    return { ...moment, text: this.once(recordText(record, { before, operation })) };
  }

  /** Returns one shared instance of equal texts, to save memory. */
  private once(text: string): string {
    const known = this.words.get(text);
    if (known !== undefined) return known;
    if (this.words.size === WORDS_MAX) this.words.clear();
    this.words.set(text, text);
    return text;
  }

  private learn(record: KernelRecord): void {
    this.claims.take(record, this.ended, ROOT);
    if (record.k === 'state') this.entered(record.at, record.value, record.status ?? 'active', this.ended, record.n);
    else if (record.k === 'effect') {
      const { id, name, at, class: cls, n } = record;
      const target = targetOf(record.input);
      this.operations.set(id, { id, name, at, class: cls, ...(target ? { target } : {}), began: this.ended, n });
    } else if (record.k === 'result') {
      const failed = record.error ? { error: record.error.message } : {};
      this.settle(record.id, { end: record.error ? 'failed' : 'done', ...failed });
    } else if (record.k === 'cancel') this.settle(record.id, { end: 'cancelled' });
    else if (record.k === 'in') this.streamReported(record);
    else if (record.k === 'message') this.messageReceived(record.to, record.event, record.n);
    else if (!this.failure) this.failed(failureIn(record, ROOT));
  }

  private failed(failure: FailureView | undefined): void {
    if (failure) this.failure = { ...failure, t: this.ended };
  }

  private settle(id: number, end: Pick<Operation, 'end' | 'error'>): void {
    const operation = this.operations.get(id);
    if (operation) this.operations.set(id, { ...operation, ...end, ended: this.ended });
  }

  private streamReported(record: InRecord): void {
    const id = streamOf(record);
    const operation = id === undefined ? undefined : this.operations.get(id);
    if (!operation) return;
    const error = streamError(record);
    if (error === undefined && operation.hasReported && !operation.failing) return;
    const { failing, ...others } = operation;
    const again = error === undefined ? {} : { failing: { error, times: (failing?.times ?? 0) + 1, t: record.t } };
    this.operations.set(operation.id, { ...others, hasReported: true, ...again });
  }

  private entered(address: string, value: unknown, status: string, t: number, n: number): void {
    const former = this.actors.get(address);
    const since = new Map(pathsOf(value).map((path) => [path, former?.since.get(path) ?? { t, n }] as const));
    this.actors.set(address, { value, status, began: former?.began ?? t, since });
    if (address === ROOT) this.phaseVisits.nowIn(status === 'active' ? phasesIn(value) : [], t, n);
  }

  private messageReceived(to: string, event: Readonly<Record<string, unknown>>, n: number): void {
    const at = { t: this.ended, n };
    if (to === ROOT && event['type'] === 'healthz.serving') this.healthz ??= at;
    if (to !== `${ROOT}/status` || event['type'] !== 'status.changed') return;
    const { pod, status } = event as unknown as StatusChanged;
    const unseen = { ...pod, phase: '', status, running: undefined, ready: undefined, firstSeen: this.ended };
    const known: PodStory = this.pods.get(pod.uid) ?? unseen;
    known.phase = String(status['phase']);
    known.status = status;
    if (known.phase === 'Running') known.running ??= at;
    if (isReady(status)) known.ready ??= at;
    this.pods.set(pod.uid, known);
  }

  armedBy(address: string, event: string): number | undefined {
    return entryArming(this.actors.get(address)?.since, event)?.n;
  }

  requestedBy(id: number): number | undefined {
    return this.operations.get(id)?.n;
  }
}

/** Keys of an input that name the subject of an operation. */
const TARGETS = ['endpoint', 'server', 'url', 'address', 'image', 'path'] as const;

function targetOf(input: unknown): string | undefined {
  const target = TARGETS.map((key) => memberOf(input, key)).find((value) => typeof value === 'string' && value !== '');
  const drivers = driversIn(input);
  if (drivers !== undefined) return drivers;
  const port = memberOf(input, 'port');
  if (typeof target !== 'string') return typeof port === 'number' ? `port ${port}` : undefined;
  return typeof port === 'number' ? `${target}:${port}` : target;
}

/** The drivers of a call that prepares or releases claims, with the claims. */
function driversIn(input: unknown): string | undefined {
  const calls = memberOf(input, 'calls');
  if (!Array.isArray(calls)) return undefined;
  const all = (calls as readonly DraCall[]).map(({ driver, claims }) => {
    return `${driver} (${claims.map(({ namespace, name }) => `${namespace}/${name}`).join(', ')})`;
  });
  return all.join(', ');
}

const isReady = ({ conditions }: { readonly conditions?: unknown }): boolean =>
  Array.isArray(conditions) &&
  conditions.some((each) => memberOf(each, 'type') === 'Ready' && memberOf(each, 'status') === 'True');

interface StatusChanged {
  readonly pod: { readonly uid: string; readonly name: string; readonly namespace: string };
  readonly status: Readonly<Record<string, unknown>>;
}

function whatOf(record: KernelRecord): string {
  switch (record.k) {
    case 'in':
    case 'message':
      return record.event.type;
    case 'timer':
      return record.event;
    case 'effect':
    case 'result':
      return record.name;
    case 'log':
      return record.text;
    case 'state':
      return stateText(record.value);
    default:
      return record.k;
  }
}

/** Every active state by its path, parents before children. */
function pathsOf(value: unknown, prefix = ''): string[] {
  if (typeof value === 'string') return [prefix + value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, below]) => [prefix + key, ...pathsOf(below, `${prefix}${key}.`)]);
}

/** The phases among the active states of the supervisor: those in this build's chart, and unknown ones. */
function phasesIn(value: unknown): Phase[] {
  return pathsOf(value).flatMap((path) => {
    const phase = PHASES[path];
    return phase === undefined ? [{ id: `${ROOT}.${path}`, name: path, depth: 0 }] : phase === null ? [] : [phase];
  });
}

/** A line for each gap: causes of records around it may be missing. */
export const describeGaps = (gaps: readonly GapRecord[]): string =>
  gaps
    .map(({ n, upto, why }) => {
      const lost =
        upto === undefined ? `Nothing from record ${n} on was kept` : `Records ${n} to ${upto} were not kept`;
      return `${lost}: journaling was suspended (${why}).\n`;
    })
    .join('');

/** Replaces `pod-<uid>` and `container-<name>` by the names of the pod and the container. */
export function actorName(address: string, { pods }: Pick<Story, 'pods'>): string {
  const steps = address.split('/').slice(1);
  const named = steps.map((step) => {
    const pod = step.startsWith('pod-') ? pods.get(step.slice('pod-'.length)) : undefined;
    return pod ? `pod/${pod.name}` : step.replace(/^container-/, '');
  });
  const from = named.findIndex((step) => step.startsWith('pod/'));
  return named.slice(Math.max(from, 0)).map(decoded).join('/') || lastOf(address);
}
