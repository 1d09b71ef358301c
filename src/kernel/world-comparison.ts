/**
 * Defines what a replay guarantees always, and what only while machines are unchanged since the recording. Pure.
 *
 * Always guaranteed is everything visible to the world: operations and log lines, in order for each subject, and the
 * deadlines of timers. Messages, states and digests are internal to machines: if a participating machine has changed, a
 * different message or state is only a note.
 */
import type { Address } from './address.ts';
import { isObject } from './json.ts';
import type { EffectRecord, JournalRecord } from './records.ts';

/** Whether an actor's machine is unchanged since the recording. */
export type IsUnchanged = (address: Address) => boolean;

/** Subject and content of a record that is visible to the world; `undefined` for an invisible one. */
type Seen = { readonly subject: string; readonly content: string } | undefined;

/** Keys that identify the subject of an operation or line; the first found is used. */
const SUBJECTS = ['uid', 'containerId', 'podSandboxId', 'container', 'pod', 'object', 'image', 'path'] as const;
/** Levels of an input in which a subject is searched. */
const SUBJECT_DEPTH = 4;

export interface Requests {
  /** A request of the log that is still open. */
  requestOf(id: number): EffectRecord | undefined;
}

/** Whether both sides of a turn show the world the same for each subject. */
export class WorldComparison {
  readonly #differing: ReadonlySet<string>;
  readonly #requests: Requests;
  readonly #own = new Map<number, EffectRecord>();

  constructor(expected: readonly JournalRecord[], actual: readonly JournalRecord[], requests: Requests) {
    this.#requests = requests;
    for (const record of [...expected, ...actual]) if (record.k === 'effect') this.#own.set(record.id, record);
    const [logged, today] = [this.#bySubject(expected), this.#bySubject(actual)];
    const subjects = new Set([...logged.keys(), ...today.keys()]);
    this.#differing = new Set([...subjects].filter((subject) => logged.get(subject) !== today.get(subject)));
  }

  isSame(record: JournalRecord): boolean {
    const seen = this.#seen(record);
    return seen === undefined || !this.#differing.has(seen.subject);
  }

  #bySubject(records: readonly JournalRecord[]): Map<string, string> {
    const seen = records.flatMap((record) => this.#seen(record) ?? []);
    const groups = Map.groupBy(seen, ({ subject }) => subject);
    return new Map([...groups].map(([subject, all]) => [subject, all.map(({ content }) => content).join('\n')]));
  }

  #seen(record: JournalRecord): Seen {
    if (record.k === 'effect') return { subject: subjectOf(record), content: `${record.name} ${jsonOf(record.input)}` };
    if (record.k === 'log') {
      const { level, text, fields } = record;
      return { subject: subjectIn(fields, 1) ?? text, content: jsonOf([level, text, fields]) };
    }
    if (record.k !== 'cancel') return undefined;
    const request = this.#own.get(record.id) ?? this.#requests.requestOf(record.id);
    return request && { subject: subjectOf(request), content: `cancel ${request.name}` };
  }
}

const jsonOf = (value: unknown): string => JSON.stringify(value);

const subjectOf = ({ name, input }: EffectRecord): string => subjectIn(input, SUBJECT_DEPTH) ?? name;

/** The nearest value of the first key that occurs at all. */
function subjectIn(value: unknown, depth: number): string | undefined {
  let level: readonly unknown[] = [value];
  for (let left = depth; left > 0 && level.length > 0; left--) {
    const objects = level.filter((each) => isObject(each));
    for (const key of SUBJECTS) {
      const found = objects.map((each) => each[key]).find((each) => typeof each === 'string');
      if (found !== undefined) return `${key} ${found}`;
    }
    level = objects.flatMap((each) => Object.values(each));
  }
  return undefined;
}
