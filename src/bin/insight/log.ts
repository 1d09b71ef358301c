/**
 * The records of a journal that pass all filters, in order. Pure.
 *
 * Invariants: a filter that matches no record gives an empty result and no error, except for a pod that does not exist;
 * payloads are searched as JSON, by plain text.
 */
import type { JournalRecord, KernelRecord, LogLevel } from '../../kernel/records.ts';
import { duration } from '../../visualizer/words.ts';
import { podNamed } from './critical-chain.ts';
import { actorName, type Moment, type Story } from './story.ts';

export interface LogFilters {
  /** The actor's address, or its name as other verbs print it; records of its descendants match, too. */
  readonly actor?: string;
  /** The kind of the record, the type of its event, or the name of its operation; `*` at the end matches any rest. */
  readonly type?: string;
  readonly pod?: string;
  /** The number of a record: shows this record and its consequences. */
  readonly cause?: string;
  /** Shows log lines of this level and above. */
  readonly level?: string;
  /** Seconds, or with a unit `ms`, `s`, `m`, `h`, after the start. */
  readonly since?: string;
  readonly until?: string;
  /** A text that the JSON of the record contains. */
  readonly grep?: string;
}

export interface LogEntry {
  readonly atMs: number;
  /** Absent for an input, or if the cause is unknown. */
  readonly cause?: number;
  readonly text: string;
  readonly actor: string;
  readonly record: KernelRecord;
}

type RecordTest = (moment: Moment, record: KernelRecord) => boolean;

const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'fatal'];
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const TIME = /^\+?(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h)?$/;

/** Parses `1.5s`, `200ms`, `3m` or `2` (seconds) as milliseconds; `undefined` for any other text. */
export function millisecondsOf(text: string): number | undefined {
  const [, amount, unit = 's'] = TIME.exec(text) ?? [];
  return amount === undefined ? undefined : Number(amount) * (UNITS[unit] ?? 1);
}

/** The error in a filter, checked before any journal is read. */
export function wrongFilter({ cause, level, since, until }: LogFilters): string | undefined {
  if (cause !== undefined && !/^\d{1,15}$/.test(cause)) {
    return `--cause is the number of a record, not ${JSON.stringify(cause)}`;
  }
  if (level !== undefined && !LEVELS.some((each) => each === level)) {
    return `--level is ${LEVELS.join(', ')}, not ${JSON.stringify(level)}`;
  }
  const time = [since, until].find((each) => each !== undefined && millisecondsOf(each) === undefined);
  return time === undefined ? undefined : `a time after the start is like 1.5s, not ${JSON.stringify(time)}`;
}

/** A string result says that the pod does not exist. {@link wrongFilter} has accepted the filters. */
export function logOf(story: Story, records: Iterable<JournalRecord>, filters: LogFilters): LogEntry[] | string {
  const tests: RecordTest[] = [];
  for (const make of FILTER_BUILDERS) {
    const test = make(story, filters);
    if (typeof test === 'string') return test;
    if (test) tests.push(test);
  }
  const entries: LogEntry[] = [];
  for (const record of records) {
    const moment = story.moments.get(record.n);
    if (!moment || record.k === 'gap' || record.k === 'dropped') continue;
    if (tests.every((test) => test(moment, record))) entries.push(entryOf(moment, record, story));
  }
  return entries;
}

function entryOf({ t, cause, text, actor }: Moment, record: KernelRecord, story: Story): LogEntry {
  const known = { atMs: t - story.started, text, actor: actorName(actor, story), record };
  return cause === undefined ? known : { ...known, cause };
}

type FilterBuilder = (story: Story, filters: LogFilters) => RecordTest | string | undefined;

const byActor: FilterBuilder = (story, { actor }) => {
  if (actor === undefined) return undefined;
  const isIt = (name: string): boolean => name === actor || name.startsWith(`${actor}/`);
  return (moment) => isIt(moment.actor) || isIt(actorName(moment.actor, story));
};

const byType: FilterBuilder = (_story, { type }) => {
  if (type === undefined) return undefined;
  const start = type.endsWith('*') ? type.slice(0, -1) : undefined;
  const isIt = (what: string): boolean => (start === undefined ? what === type : what.startsWith(start));
  return ({ k, what }) => isIt(k) || isIt(what);
};

const byPod: FilterBuilder = (story, { pod }) => {
  if (pod === undefined) return undefined;
  const found = podNamed(story, pod);
  if (typeof found === 'string') return found;
  return (_moment, record) => JSON.stringify(record).includes(found.uid);
};

/** Causes come before their consequences, so that one pass finds all. */
const byCause: FilterBuilder = (_story, { cause }) => {
  if (cause === undefined) return undefined;
  const led = new Set([Number(cause)]);
  return (moment) => {
    if (moment.cause !== undefined && led.has(moment.cause)) led.add(moment.n);
    return led.has(moment.n);
  };
};

const byLevel: FilterBuilder = (_story, { level }) => {
  if (level === undefined) return undefined;
  const least = LEVELS.findIndex((each) => each === level);
  return (_moment, record) => record.k === 'log' && LEVELS.indexOf(record.level) >= least;
};

const byTime =
  (option: 'since' | 'until'): FilterBuilder =>
  (story, filters) => {
    const given = filters[option];
    if (given === undefined) return undefined;
    const t = story.started + (millisecondsOf(given) ?? 0);
    return option === 'since' ? (moment) => moment.t >= t : (moment) => moment.t <= t;
  };

const byText: FilterBuilder = (_story, { grep }) =>
  grep === undefined ? undefined : (_moment, record) => JSON.stringify(record).includes(grep);

/** The filter by cause is the first, because it must receive every record. */
const FILTER_BUILDERS: readonly FilterBuilder[] = [
  byCause,
  byActor,
  byType,
  byPod,
  byLevel,
  byTime('since'),
  byTime('until'),
  byText,
];

export const describeLog = (entries: readonly LogEntry[]): string =>
  entries.map(({ atMs, actor, text, record }) => `+${duration(atMs)}  ${record.n}  ${actor}: ${text}\n`).join('');
