/**
 * Rewrites journals: with redacted values, or with new decisions.
 *
 * Redacted: private texts are replaced by meaningless names, `redacted-` and ten digits. The same text has the same
 * name within one journal, and another name in the next, so that a list of likely values does not find them. With new
 * decisions: the machines of this build process the inputs, and their decisions are written by the normal writer, so
 * that checksums, digests and the chain are correct.
 *
 * Invariants: a private text of at least {@link SEARCHED_MIN} characters is replaced everywhere, also within other
 * texts, unless it also occurs as a public text by itself; a shorter one is replaced only at private places. References
 * to variables (`$(NAME)`) stay, because machines expand them. The cost is linear in the size of the input. An input
 * that no actor waits for ends the rewrite, because the answer of the world to another request is unknown.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { LAST_APPLIED } from '../actors/pod-values.ts';
import { JournalError } from '../kernel/journal/errors.ts';
import type { Journal } from '../kernel/journal/reader.ts';
import type { JournalWriter } from '../kernel/journal/writer.ts';
import { memberOf } from '../kernel/json.ts';
import { Kernel } from '../kernel/kernel.ts';
import { Matching } from '../kernel/matching.ts';
import type { HeaderRecord, InputRecord, JournalRecord, KernelRecord } from '../kernel/records.ts';
import { isInput } from '../kernel/records.ts';
import type { Unnumbered } from '../kernel/turn-recorder.ts';
import { kubeletMachine } from '../machines/startup/kubelet.ts';

/** A shorter text occurs in other texts by chance. */
const SEARCHED_MIN = 8;
const NAME_DIGITS = 10;
const REFERENCE = /(\${1,64}\([A-Za-z_][A-Za-z0-9_.-]{0,253}\))/;
/** The user name and password of a URL. */
const LOGIN = /:\/\/[^/@\s"]{1,1000}@/g;
/** Texts that are already handles of the journal. */
const HANDLES = /^(?:§[A-Za-z0-9_-]{22})+$/;

export class Redactor {
  readonly #key = randomBytes(32);
  /** Private texts by their first {@link SEARCHED_MIN} characters, longest first. */
  readonly #searched = new Map<string, string[]>();
  readonly #public = new Set<string>();
  /** Texts that machines derived from a replaced text, as in the log and as derived now: they recur in inputs. */
  readonly #derived = new Map<string, string>();
  readonly #values: readonly string[];

  /** `given`: texts that are private wherever they occur. */
  constructor(given: readonly string[] = []) {
    this.#values = given.filter((text) => text !== '');
  }

  /** Reads an input or header of the log, before any text of it is replaced. */
  learn(record: unknown): void {
    visitTexts(record, (text, keys) => {
      if (!isPrivate(keys)) this.#public.add(text);
    });
    visitTexts(record, (text, keys) => {
      if (isPrivate(keys)) for (const part of text.split(REFERENCE)) this.#search(part);
    });
  }

  #search(text: string): void {
    if (text.length < SEARCHED_MIN || REFERENCE.test(text) || HANDLES.test(text)) return;
    const start = text.slice(0, SEARCHED_MIN);
    const known = this.#searched.get(start) ?? [];
    if (known.includes(text)) return;
    this.#searched.set(
      start,
      [...known, text].sort((a, b) => b.length - a.length),
    );
  }

  redact<R>(record: R): R {
    return mapTexts(record, (text, keys) => (isPrivate(keys) ? this.#privately(text) : this.#publicly(text))) as R;
  }

  /** An input, including texts that machines derived from private ones. */
  redactInput<R>(record: R): R {
    return mapTexts(this.redact(record), (text) => this.#derived.get(text) ?? text) as R;
  }

  /**
   * Compares the requests of a turn in the log with those of the new turn: texts that differ were derived from private
   * ones.
   */
  learnRequests(logged: readonly JournalRecord[], made: readonly JournalRecord[]): void {
    const now = inputsOf(made);
    for (const [at, input] of inputsOf(logged).entries()) this.#learnDerived(input, now[at]);
  }

  #learnDerived(logged: unknown, now: unknown): void {
    if (typeof logged === 'string' && typeof now === 'string') {
      if (logged !== now && this.redact(logged) === logged) this.#derived.set(logged, now);
    } else if (typeof logged === 'object' && logged !== null && typeof now === 'object' && now !== null) {
      for (const [key, below] of Object.entries(logged)) {
        this.#learnDerived(below, memberOf(now, key));
      }
    }
  }

  /** Whether the text contains a private text. */
  isIn(text: string): boolean {
    return this.#replaced(text) !== text;
  }

  #privately(text: string): string {
    return text
      .split(REFERENCE)
      .map((part) => (part === '' || REFERENCE.test(part) || HANDLES.test(part) ? part : this.#nameOf(part)))
      .join('');
  }

  #publicly(text: string): string {
    return this.#replaced(text).replace(LOGIN, (login) => `://${this.#nameOf(login)}@`);
  }

  #replaced(text: string): string {
    let found = text;
    for (const given of this.#values) found = found.replaceAll(given, this.#nameOf(given));
    if (this.#public.has(text) || found.length < SEARCHED_MIN) return found;
    let out = '';
    let from = 0;
    for (let at = 0; at + SEARCHED_MIN <= found.length; at++) {
      const known = this.#searched.get(found.slice(at, at + SEARCHED_MIN));
      const match = known?.find((each) => !this.#public.has(each) && found.startsWith(each, at));
      if (match === undefined) continue;
      out += found.slice(from, at) + this.#nameOf(match);
      from = at + match.length;
      at = from - 1;
    }
    return out + found.slice(from);
  }

  #nameOf(text: string): string {
    return `redacted-${createHmac('sha256', this.#key).update(text).digest('hex').slice(0, NAME_DIGITS)}`;
  }
}

const inputsOf = (records: readonly JournalRecord[]): unknown[] =>
  records.flatMap((record) => (record.k === 'effect' ? [record.input] : []));

/** Every text below a value of these keys. */
const WHOLE: ReadonlySet<string> = new Set(['command', 'args', 'data', 'binaryData', 'stdout', 'stderr']);
/**
 * A message below these keys is the output of a program that ended; other messages are from the runtime and the agent.
 */
const ENDED: ReadonlySet<string> = new Set(['output', 'terminated']);
/** Lists of names and values. */
const PAIRS: ReadonlySet<string> = new Set(['env', 'envs', 'httpHeaders']);
/** Annotations that agents and runtimes write and read themselves. */
const OWN_ANNOTATION = /(^|\.)(kubernetes|k8s|containerd|cri-o)\.io(\/|\.|$)|^io\.kubernetes\./;

/**
 * Whether a text of a journal is private, by its place: texts that users write into pods and ConfigMaps, and the output
 * of programs. Names, images, addresses, paths and times stay, because a journal without them explains nothing; a user
 * who wants one of them removed names it. `keys` lead from the record to the text; items of lists have no key. They
 * alone decide, so the same rule holds for inputs, requests and messages.
 */
export function isPrivate(keys: readonly string[]): boolean {
  const last = keys.at(-1) ?? '';
  const above = keys.at(-2) ?? '';
  if (keys.some((key) => WHOLE.has(key)) || last === 'output') return true;
  if (last === 'message' && ENDED.has(above)) return true;
  if (last === 'value' && PAIRS.has(above)) return true;
  return above === 'annotations' && (last === LAST_APPLIED || !OWN_ANNOTATION.test(last));
}

/** Calls `visit` with each text of a value and the keys that lead to it. */
export function visitTexts(
  value: unknown,
  visit: (text: string, keys: readonly string[]) => void,
  keys: readonly string[] = [],
): void {
  if (typeof value === 'string') visit(value, keys);
  else if (Array.isArray(value)) for (const item of value) visitTexts(item, visit, keys);
  else if (typeof value === 'object' && value !== null) {
    for (const [key, below] of Object.entries(value)) visitTexts(below, visit, [...keys, key]);
  }
}

/** A copy of the value with each text replaced by the result of `change`. */
export function mapTexts(
  value: unknown,
  change: (text: string, keys: readonly string[]) => string,
  keys: readonly string[] = [],
): unknown {
  if (typeof value === 'string') return change(value, keys);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, change, keys));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, below]) => [key, mapTexts(below, change, [...keys, key])]),
  );
}

/** After this many turns the writer gets time to write. */
const TURNS_AT_ONCE = 64;

export interface Changes {
  readonly header?: (header: HeaderRecord) => HeaderRecord;
  readonly input?: (record: InputRecord) => InputRecord;
  /** Receives each turn as in the log, and as produced now. */
  readonly onTurn?: (logged: readonly JournalRecord[], made: readonly KernelRecord[]) => void;
}

/** Closes the writer, also after a failure. */
export async function rewrite(journal: Journal, sink: JournalWriter, changes: Changes): Promise<void> {
  const rewriting = new Rewriting(sink, changes);
  try {
    let turn: JournalRecord[] = [];
    for (const record of journal.records) {
      turn.push(record);
      if (record.k !== 'end') continue;
      rewriting.take(turn);
      turn = [];
      if (record.turn % TURNS_AT_ONCE === 0) await new Promise((done) => setImmediate(done));
    }
  } finally {
    await sink.close();
  }
}

class Rewriting {
  readonly #sink: JournalWriter;
  readonly #changes: Changes;
  readonly #matching = new Matching(() => this.#kernel?.timers.list() ?? []);
  #kernel: Kernel | undefined;
  #newRecords: readonly KernelRecord[] = [];

  constructor(sink: JournalWriter, changes: Changes) {
    this.#sink = sink;
    this.#changes = changes;
  }

  take(turn: readonly JournalRecord[]): void {
    const [first] = turn;
    if (!first) return;
    if (first.k === 'header') this.#kernel = this.#begin(first);
    else if (this.#kernel && isInput(first)) this.#feed(this.#kernel, first);
    else throw this.#unusable(first, 'a turn does not begin with an input');
    this.#matching.inLogNames(turn, this.#newRecords);
    this.#changes.onTurn?.(turn, this.#newRecords);
  }

  #begin(logged: HeaderRecord): Kernel {
    const { n: _n, k: _k, t, ...header } = this.#changes.header?.(logged) ?? logged;
    const { incarnation } = this.#sink;
    return new Kernel({
      machine: kubeletMachine,
      header: { ...header, incarnation },
      sink: this.#sink,
      onTurn: (records) => void (this.#newRecords = records),
      onStopped: () => {},
    }).boot(t);
  }

  #feed(kernel: Kernel, logged: InputRecord): void {
    const { n: _n, ...draft }: InputRecord = this.#matching.today(this.#changes.input?.(logged) ?? logged);
    if (!isAwaited(kernel, draft)) throw this.#unusable(logged, `this build does not wait for ${namesOf(logged)}`);
    kernel.input(draft);
  }

  #unusable({ n }: JournalRecord, why: string): JournalError {
    return new JournalError('unusable', { file: this.#sink.directory, n }, `${why}; record a new journal`);
  }
}

type Draft = Unnumbered<InputRecord>;

function isAwaited(kernel: Kernel, input: Draft): boolean {
  if (input.k === 'result') return kernel.outbox.requestOf(input.id) !== undefined;
  return input.k === 'timer' ? kernel.timers.take(input.id) !== undefined : kernel.snapshotOf(input.to) !== undefined;
}

const namesOf = (record: InputRecord): string =>
  record.k === 'result' ? `the result of ${record.name}` : record.k === 'timer' ? record.event : record.event.type;
