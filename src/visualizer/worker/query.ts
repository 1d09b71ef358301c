/**
 * The language of searches among records: words, `field:value`, `-word`, `/regular expression/`. Pure.
 *
 *     kind:request actor:pods name:cri. -error        level:warn t:>1.5 turn:<40        input.image:nginx /time.?out/
 *
 * All terms must hold. Fields are those of the table (`n`, `t` in seconds, `turn`, `kind`, `actor`, `level`) and paths
 * into a record. Expressions run on an engine whose cost is linear in the text (RE2): none can hold up the page. A
 * search looks for certain words before it parses a record: every matching text has one of them. For an expression they
 * are its longest run of plain characters, and for an alternative of plain words all of these: `/cri\.(stop|start)/`
 * has `cri.stop` and `cri.start`.
 */
import type { ShownRecord } from '../../actors/server/visualizer/protocol.ts';
import { messageOf } from '../../kernel/thrown.ts';
import { isUid, kindName, kindText, recordText, whoOf } from '../words.ts';
import { KINDS, type Row } from './record-pages.ts';

/** The limit of such words; an expression with more alternatives is searched without them. */
const WORDS_MAX = 8;
/** Escapes that stand for other characters than the next one. */
const UNREAD_ESCAPES = /\\[xpPQEC\d]/;
/** A part of an expression: an escape, a class, a group, or a character, with its repetition. */
const PARTS = /(\\.|\[\^?\]?(?:\\.|[^\\\]])*\]|\((?:\\.|[^()\\])*\)|[^\\[\]()])([*?+]|\{[^{}]*\})?/gsy;
const PLAIN = /^[\w.-]$/;
const GROUP = /^\((?:\?:)?((?:[\w-]|\\\.)+(?:\|(?:[\w-]|\\\.)+)*)\)$/;

/** The certain words of a word or an expression; a plain word is its own. Empty for none. */
export function certainWords(word: string): readonly string[] {
  const [, pattern] = /^\/(.+)\/$/s.exec(word) ?? [];
  if (pattern === undefined) return [word];
  if (UNREAD_ESCAPES.test(pattern)) return [];
  const parts = [...pattern.matchAll(PARTS)];
  // Nested groups, flags, and invalid expressions are not read.
  if (parts.map(([text]) => text).join('') !== pattern || pattern.includes('(?') !== pattern.includes('(?:')) return [];
  const runs: (readonly string[])[] = [];
  let run: readonly string[] = [''];
  for (const [, part = '', times] of parts) {
    if (part === '|') return [];
    const choices = times === undefined || times === '+' ? textsOf(part) : undefined;
    if (choices && choices.length * run.length <= WORDS_MAX)
      run = run.flatMap((text) => choices.map((end) => text + end));
    else {
      runs.push(run);
      run = choices ?? [''];
    }
    if (times === '+') {
      runs.push(run);
      run = [''];
    }
  }
  return longest([...runs, run]);
}

/** The plain texts that a part stands for; undefined: it is not plain. */
function textsOf(part: string): readonly string[] | undefined {
  if (part === '.') return undefined;
  if (PLAIN.test(part)) return [part];
  if (part.startsWith('\\')) return /^[.-]$/.test(part.slice(1)) ? [part.slice(1)] : undefined;
  const [, inside] = GROUP.exec(part) ?? [];
  return inside?.replaceAll('\\.', '.').split('|');
}

const shortest = (run: readonly string[]): number => Math.min(...run.map((text) => text.length));

function longest(runs: readonly (readonly string[])[]): readonly string[] {
  const found = runs.reduce((one, other) => (shortest(other) > shortest(one) ? other : one), ['']);
  return found.includes('') ? [] : found;
}

/** The limit of characters of a search, which has to fit into an address. */
const QUERY_MAX_CHARS = 500;
/** The limit of characters of an expression: its program grows with it. */
const PATTERN_MAX_CHARS = 200;
const TERMS_MAX = 20;

export interface Query {
  /** True for every row that may match; unknown fields exclude nothing. */
  readonly mayMatch: (row: Row) => boolean;
  /** Whether a record of this kind with this JSON may match, without parsing it. Absent: every record may. */
  readonly mayMatchText?: (json: string, kind: Row['kind']) => boolean;
  /** Absent: the row says all. */
  readonly matches?: (shown: ShownRecord) => boolean;
  /** Why the search cannot be made. */
  readonly error?: string;
}

export interface Names {
  /** A text with names in place of uids. */
  readonly named: (text: string) => string;
  /** The names. */
  readonly names: ReadonlyMap<string, string>;
  readonly started: number;
}

interface Term {
  readonly isNegated: boolean;
  readonly mayMatch?: (row: Row) => boolean;
  readonly matches?: (shown: ShownRecord) => boolean;
  /** The JSON of every matching record contains one of these. */
  readonly parts?: readonly Part[];
}

/** A certain word in lower case. The path of a state is a text in the table's line, but nested objects in JSON. */
interface Part {
  readonly word: string;
  readonly steps: readonly string[];
}

export type Expressions = typeof import('./expressions.ts');

/** The engine of expressions, if the text of a search may have one. It is loaded with the first search of any kind. */
export async function expressionsOf(text: string): Promise<Expressions | undefined> {
  if (text === '') return undefined;
  const expressions = import('./expressions.ts').catch(() => undefined);
  return text.includes('/') ? expressions : undefined;
}

/** `expressions`: as {@link expressionsOf} the text. */
export function queryOf(text: string, names: Names, expressions?: Expressions): Query {
  if (text.length > QUERY_MAX_CHARS) return failed(`a search has at most ${QUERY_MAX_CHARS} characters`);
  const words = wordsOf(text);
  if (words.length > TERMS_MAX) return failed(`a search has at most ${TERMS_MAX} words`);
  try {
    const terms = words.map((word) => termOf(word, names, expressions));
    const slow = terms.flatMap(({ matches, isNegated }) => (matches ? [{ matches, isNegated }] : []));
    const parts = terms.flatMap(({ parts: own, isNegated }) => (own === undefined || isNegated ? [] : [own]));
    return {
      mayMatch: (row) =>
        row.kind !== 'end' && terms.every((term) => !term.mayMatch || term.mayMatch(row) !== term.isNegated),
      ...(slow.length > 0 && {
        matches: (shown) => slow.every(({ matches, isNegated }) => matches(shown) !== isNegated),
      }),
      ...(parts.length > 0 && { mayMatchText: (json, kind) => hasAll(json.toLowerCase(), kind, parts) }),
    };
  } catch (error) {
    return failed(messageOf(error));
  }
}

const failed = (error: string): Query => ({ mayMatch: () => false, error });

/** `a "b c" /d e/ -f:"g h"` in its four parts. */
function wordsOf(text: string): string[] {
  const words = text.match(/\s*-?(?:[\w.[\]-]+:)?(?:"[^"]*"?|\/(?:[^/\\]|\\.)+\/|[^\s"]+)/gy) ?? [];
  return words.map((word) => word.trimStart());
}

function termOf(word: string, names: Names, expressions: Expressions | undefined): Term {
  const testerOf = (value: string) => tester(value, expressions);
  const isNegated = word.length > 1 && word.startsWith('-');
  const rest = isNegated ? word.slice(1) : word;
  const [, field, value = ''] = /^([A-Za-z_][\w.[\]-]*):(.+)$/s.exec(rest) ?? [];
  if (field === undefined) {
    const parts = partsOfJson(certainWords(rest), names);
    return { isNegated, matches: textTerm(testerOf(rest), names), ...(parts && { parts }) };
  }
  return { isNegated, ...fieldTerm(field, value, names, testerOf) };
}

const hasAll = (text: string, kind: Row['kind'], parts: readonly (readonly Part[])[]): boolean =>
  parts.every((any) =>
    any.some(({ word, steps }) =>
      kind === 'state' ? steps.every((step) => text.includes(step)) : text.includes(word),
    ),
  );

/** Words of the table's lines that the JSON of a record lacks. */
const WORDS_OF_LINES = [
  'start input timer result message request cancel state incarnation of node begins from answered failed',
  'is done started after in min cancelled turn digest (no states)',
].join(' ');
/** The limit of uids that are searched in place of a name. */
const UIDS_MAX = 20;

/**
 * The text in the JSON of a record that corresponds to one of these words in its line of the table: the word itself, or
 * the uid behind a name. Undefined if unknown, because a word may come from the page or be written differently.
 */
function partsOfJson(words: readonly string[], { names }: Names): readonly Part[] | undefined {
  const parts: Part[] = [];
  for (const word of words.map((each) => each.toLowerCase())) {
    // A shorter word, or one with a decimal point, may be part of a duration.
    if (!/^[a-z\d_.-]{3,}$/.test(word) || /\d\.|\.\d/.test(word) || WORDS_OF_LINES.includes(word)) return undefined;
    const steps = word.split('.');
    const isNamed = (name: string): boolean => steps.some((step) => step !== '' && hasPartOf(step, name));
    const named = [...names].filter(([uid, name]) => isUid(uid) && isNamed(name.toLowerCase()));
    if (named.length > UIDS_MAX) return undefined;
    parts.push({ word, steps: steps.filter((step) => !WORDS_OF_LINES.includes(step)) });
    parts.push(...named.map(([uid]) => ({ word: uid.toLowerCase(), steps: [uid.toLowerCase()] })));
  }
  return parts.length === 0 ? undefined : parts;
}

/** Whether the word is in a step of an address that ends with the name: `pod-<name>`. */
function hasPartOf(word: string, name: string): boolean {
  if (name.includes(word)) return true;
  const ends = word.split('-').map((_, at, steps) => steps.slice(at + 1).join('-'));
  return ends.some((end) => end !== '' && (name.startsWith(end) || end.startsWith(name)));
}

/** A test whether a text contains the value, or matches it as an expression. */
function tester(value: string, expressions: Expressions | undefined): (text: string) => boolean {
  const pattern = /^\/(.+)\/$/s.exec(value)?.[1];
  if (pattern !== undefined) {
    if (pattern.length > PATTERN_MAX_CHARS)
      throw new Error(`an expression has at most ${PATTERN_MAX_CHARS} characters`);
    if (!expressions) throw new Error('the engine of expressions is not loaded');
    return expressions.expressionTest(pattern);
  }
  const wanted = value.replace(/^"|"$/g, '').toLowerCase();
  return (text) => text.toLowerCase().includes(wanted);
}

function textTerm(isIn: (text: string) => boolean, names: Names): (shown: ShownRecord) => boolean {
  return (shown) => isIn(lineOf(shown, names)) || isIn(JSON.stringify(shown.record));
}

/** The line that the table shows for a record. */
function lineOf(shown: ShownRecord, { named }: Names): string {
  const { record, was, request } = shown;
  const text = recordText(record, { before: was?.value, operation: request?.name });
  return named(`${kindText(record)} ${whoOf(shown)} ${text}`);
}

function fieldTerm(
  field: string,
  value: string,
  names: Names,
  testerOf: (value: string) => (text: string) => boolean,
): Pick<Term, 'mayMatch' | 'matches'> {
  switch (field) {
    case 'n':
    case 'turn':
      return { mayMatch: numberTest(field, value, (row) => row[field]) };
    case 't':
      return { mayMatch: numberTest(field, value, (row) => (row.t - names.started) / 1_000) };
    case 'actor': {
      const isIn = testerOf(value);
      const known = new Map<string, boolean>();
      const test = (who: string): boolean => {
        const found = known.get(who) ?? (isIn(who) || isIn(names.named(who)));
        known.set(who, found);
        return found;
      };
      return { mayMatch: ({ who, from }) => test(who) || (from !== '' && test(from)) };
    }
    case 'kind':
      return kindTerm(value);
    default: {
      const isIn = testerOf(value);
      return { matches: ({ record }) => textsAt(record, field).some(isIn) };
    }
  }
}

/** A kind by its name in the table or in the journal. The level of a log line is not part of its row. */
function kindTerm(value: string): Pick<Term, 'mayMatch' | 'matches'> {
  const wanted = value.toLowerCase();
  const kind = KINDS.find((each) => each === wanted || kindName(each) === wanted);
  if (kind !== undefined) return { mayMatch: (row) => row.kind === kind };
  return { matches: ({ record }) => kindText(record) === wanted };
}

function numberTest(field: string, value: string, of: (row: Row) => number): (row: Row) => boolean {
  const [, sign = '', digits] = /^([<>]=?|=)?(-?\d+(?:\.\d+)?)$/.exec(value) ?? [];
  if (digits === undefined) throw new Error(`${field} is a number, as in ${field}:>10, not ${JSON.stringify(value)}`);
  const limit = Number(digits);
  const tests: Readonly<Record<string, (is: number) => boolean>> = {
    '': (is) => is === limit,
    '=': (is) => is === limit,
    '<': (is) => is < limit,
    '<=': (is) => is <= limit,
    '>': (is) => is > limit,
    '>=': (is) => is >= limit,
  };
  const test = tests[sign] ?? (() => false);
  return (row) => test(of(row));
}

/**
 * The values at a path of a record: `input.image`; the prefixes `event`, `input`, `output` and `fields` are optional.
 */
function textsAt(record: object, path: string): string[] {
  const steps = path.split('.');
  const whole = record as Readonly<Record<string, unknown>>;
  const tops = [whole, ...['event', 'input', 'output', 'fields', 'error'].map((name) => whole[name])];
  return tops
    .flatMap((top) => valueAt(top, steps))
    .map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
}

/** A list stands for each of its items. */
function valueAt(value: unknown, steps: readonly string[]): unknown[] {
  if (steps.length === 0) return value === undefined ? [] : [value];
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((item) => valueAt(item, steps));
  const [step = '', ...rest] = steps;
  return Object.hasOwn(value, step) ? valueAt(Reflect.get(value, step), rest) : [];
}
