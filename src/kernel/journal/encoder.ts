/**
 * Writes the records of one segment as JSON, with references to values that the segment already contains.
 *
 * Owns: the values of the segment by content, with their positions.
 * Invariants:
 *   - values are equal if their JSON is equal, so a recreated object is found as well;
 *   - a reference is shorter than its value and reaches no further back than {@link Window}; total expansion is limited
 *     relative to the characters written, so that it stays within the limits of a reader;
 *   - a written object is never mutated afterwards: lookup is by identity first.
 */
import { hash } from 'node:crypto';
import type { Address } from '../address.ts';
import { jsonText } from '../json.ts';
import type { JournalRecord } from '../records.ts';
import { AddressNumbers } from './addresses.ts';
import {
  type Collection,
  Collections,
  differenceText,
  type Edit,
  editBetween,
  ITEMS_MIN,
  type Members,
  subjectOf,
} from './edits.ts';
import {
  ADDRESS_FIELDS,
  BASE,
  BASE_MAX_MEMBERS,
  BLOB,
  CAUSED,
  REACH,
  RESERVED,
  SIGN,
  VALUE_FIELDS,
  Window,
} from './references.ts';
import { jsonStep, type Shape, Shapes } from './shapes.ts';

/** The shortest text that is kept for references: a reference to a shorter text would save nothing. */
const TEXT_MIN_CHARS = 16;
/** The shortest JSON of an object or list that is worth a reference. */
const CONTAINER_MIN_CHARS = 24;
/** Values longer than this many characters get a file of their own. */
const BLOB_MIN_CHARS = 64 * 1024;
/** Values kept in each of two generations. */
const KEPT_MAX = 4_096;
/** Characters of the contents kept in each of two generations. */
const KEPT_MAX_CHARS = 1024 * 1024;
/** Strings of a record's own fields whose JSON is cached. */
const WORDS_MAX = 1_024;
/** The shortest JSON of a container that is looked up by identity. */
const IDENTITY_MIN_CHARS = 64;
/** Half of the reader's limits: characters that lines expand to, per character written and in total. */
const EXPANSION_MAX = 16;
const EXPANSION_FREE_CHARS = 8 * 1024 * 1024;

/** The position of a value in the segment. */
interface Place {
  readonly id: number;
  /** Characters of its JSON, without references. */
  readonly chars: number;
  /** The contents of an object's members. */
  readonly members: readonly string[];
  /**
   * Record number and JSON pointer, as written in a line: those of the occurrence with the shortest pointer, or of the
   * newest.
   */
  n: number;
  path: string;
}

const VALUES: ReadonlySet<string> = new Set(VALUE_FIELDS);
const ADDRESSES: ReadonlySet<string> = new Set(ADDRESS_FIELDS);
const NO_MEMBERS: readonly string[] = [];

export class Encoder {
  readonly #storeBlob: (sha256: string, json: string) => void;
  readonly #window = new Window<undefined>();
  #recent = new Map<string, Place>();
  #older = new Map<string, Place>();
  #recentChars = 0;
  #byIdentity = new WeakMap<object, Place>();
  readonly #collections = new Collections<Place>();
  readonly #shapes = new Shapes<Place>();
  readonly #addresses = new AddressNumbers();
  /** Cached JSON of strings that repeat. */
  #words = new Map<string, string>();
  #lastId = 0;
  #n = 0;
  /** The record being written. */
  #record: JournalRecord | undefined;
  /** New positions of values in the record being written; they become effective with the next record. */
  #moved: [Place, string][] = [];
  #expanded = 0;
  #written = 0;
  /** The value written last: its identifying text, and the characters of its JSON. */
  #content = '';
  #chars = 0;

  /** `storeBlob` receives the values that get a file of their own. */
  constructor(storeBlob: (sha256: string, json: string) => void) {
    this.#storeBlob = storeBlob;
  }

  /** Makes later lines refer to nothing that was written before. */
  forget(): void {
    this.#window.clear();
    this.#recent = new Map();
    this.#older = new Map();
    this.#recentChars = 0;
    this.#byIdentity = new WeakMap();
    this.#collections.clear();
    this.#shapes.clear();
    this.#addresses.clear();
  }

  encode(record: JournalRecord): string {
    if (this.#expanded > EXPANSION_MAX * this.#written + EXPANSION_FREE_CHARS) this.forget();
    this.#n = record.n;
    this.#record = record;
    const json = record.k === 'header' ? this.#header(record) : this.#fields(record);
    for (const [place, path] of this.#moved) {
      place.n = this.#n;
      place.path = path;
    }
    this.#moved = [];
    this.#written += json.length;
    this.#window.add(record.n, Buffer.byteLength(json), undefined);
    return json;
  }

  /** The header is written in full, and later lines may refer to it. */
  #header(record: JournalRecord): string {
    const json = JSON.stringify(record);
    if (record.k === 'header') this.#value(record.input, '/input');
    return json;
  }

  #fields(record: JournalRecord): string {
    const isCaused = CAUSED.has(record.k);
    let text = '';
    for (const name in record) {
      const value = (record as unknown as Record<string, unknown>)[name];
      if (value === undefined || (isCaused && name === 'cause')) continue;
      text += `${text === '' ? '' : ','}"${name}":${this.#field(name, value)}`;
    }
    if (isCaused) {
      const cause = ('cause' in record ? record.cause : undefined) ?? this.#n;
      if (cause !== this.#n - 1) text += `,"cause":${this.#n - cause}`;
    }
    return `{${text}}`;
  }

  #field(name: string, value: unknown): string {
    if (VALUES.has(name) && !(name === 'event' && typeof value === 'string')) {
      const text = this.#value(value, `/${name}`);
      this.#expanded += this.#chars;
      return text;
    }
    if (ADDRESSES.has(name)) return this.#addresses.textOf(value as Address);
    return typeof value === 'string' ? this.#word(value) : JSON.stringify(value);
  }

  #word(word: string): string {
    let json = this.#words.get(word);
    if (json === undefined) {
      json = JSON.stringify(word);
      if (this.#words.size < WORDS_MAX) this.#words.set(word, json);
    }
    return json;
  }

  #value(value: unknown, path: string): string {
    if (typeof value === 'string') return this.#text(value, path);
    if (typeof value === 'object' && value !== null) return this.#container(value, path);
    const text = typeof value === 'boolean' ? String(value) : (jsonText(value) ?? 'null');
    this.#content = text;
    this.#chars = text.length;
    return text;
  }

  #text(value: string, path: string): string {
    const quoted = JSON.stringify(value.startsWith(SIGN) ? SIGN + value : value);
    this.#content = quoted;
    this.#chars = quoted.length;
    if (value.length < TEXT_MIN_CHARS) return quoted;
    const known = this.#find(quoted);
    if (known) return this.#reference(known, path, quoted);
    this.#keep(quoted, path, NO_MEMBERS);
    return quoted.length > BLOB_MIN_CHARS ? this.#blob(JSON.stringify(value)) : quoted;
  }

  #container(value: object, path: string): string {
    const same = this.#byIdentity.get(value);
    if (same && this.#window.has(same.n)) {
      this.#content = contentOf(same);
      this.#chars = same.chars;
      return this.#reference(same, path, undefined);
    }
    if ('toJSON' in value) return this.#value(JSON.parse(JSON.stringify(value)), path);
    if (Array.isArray(value)) {
      return value.length < ITEMS_MIN ? this.#list(value, path) : this.#collection({ value, names: undefined }, path);
    }
    const members = value as Members;
    if (RESERVED.some((name) => Object.hasOwn(members, name))) return this.#literal(value);
    const names = Object.keys(members).filter((name) => isJson(members[name]));
    return names.length < ITEMS_MIN
      ? this.#object(members, names, path)
      : this.#collection({ value: members, names }, path);
  }

  /** A collection: as its difference to the one before at the same position of such a record, or in full. */
  #collection(collection: Collection, path: string): string {
    const { value, names } = collection;
    const position = `${subjectOf(this.#record)}${path}`;
    const last = this.#collections.lastAt(position);
    const edit = last && this.#isReachable(last.place) ? editBetween(last, collection) : undefined;
    let text: string;
    if (last && edit) text = this.#edited(last, collection, edit, path);
    else if (names) text = this.#object(value as Members, names, path);
    else text = this.#list(value as readonly unknown[], path);
    const place = this.#byIdentity.get(value);
    if (place) this.#collections.add(position, { value, names, place, isEdit: edit !== undefined });
    return text;
  }

  /** The content of an edited value is not compared with that of others: it has a number. */
  #edited(base: Collection & { readonly place: Place }, { value }: Collection, edit: Edit, path: string): string {
    let { chars } = base.place;
    const part = (step: string, prefix: string, member: unknown): string => {
      const text = prefix + this.#value(member, isPlaced(member) ? `${path}/${step}` : '');
      chars += prefix.length + this.#chars + 1;
      return text;
    };
    const parts =
      'at' in edit
        ? (value as readonly unknown[]).slice(edit.at, edit.end).map((item, at) => part(`${edit.at + at}`, '', item))
        : edit.given.map((name) => part(jsonStep(name), `${JSON.stringify(name)}:`, (value as Members)[name]));
    const isSame = parts.length === 0 && ('at' in edit ? edit.removed : edit.removed.length) === 0;
    const place = isSame ? base.place : { id: ++this.#lastId, chars, members: NO_MEMBERS, n: this.#n, path };
    this.#byIdentity.set(value, place);
    this.#content = contentOf(place);
    this.#chars = place.chars;
    if (isSame) return this.#reference(place, path, undefined);
    const text = `{"${BASE}":"${this.#pointer(base.place)}"${differenceText(edit, parts)}}`;
    return text.length > BLOB_MIN_CHARS ? this.#blob(JSON.stringify(value)) : text;
  }

  #list(value: readonly unknown[], path: string): string {
    let [text, content, chars] = ['', '', 1 + Math.max(1, value.length)];
    for (let at = 0; at < value.length; at++) {
      const childText = this.#value(value[at], `${path}/${at}`);
      text = at === 0 ? childText : `${text},${childText}`;
      content = at === 0 ? this.#content : `${content},${this.#content}`;
      chars += this.#chars;
    }
    return this.#placed(value, path, { text: `[${text}]`, content: `[${content}]`, chars, members: NO_MEMBERS });
  }

  #object(value: Members, names: readonly string[], path: string): string {
    const members: string[] = [];
    const texts: string[] = [];
    let [text, content, chars, shape] = ['', '', 1, this.#shapes.root];
    for (const name of names) {
      const member = value[name];
      shape = shape.next.get(name) ?? this.#shapes.add(shape, name);
      const childText = this.#value(member, isPlaced(member) ? path + shape.step : '');
      const comma = chars === 1 ? '' : ',';
      text += comma + shape.name + childText;
      // A value that contains no reference is identified by its text.
      if (content !== '' || childText !== this.#content) {
        if (content === '') content = text.slice(0, text.length - childText.length) + this.#content;
        else content += comma + shape.name + this.#content;
      }
      chars += shape.name.length + this.#chars + 1;
      members.push(this.#content);
      texts.push(shape.name + childText);
    }
    const whole = { text: `{${text}}`, content: `{${content || text}}`, chars: Math.max(2, chars), members };
    return this.#placed(value, path, whole, { shape, texts });
  }

  /** A value whose parts are written: as a reference, as its difference to an object of the same shape, or in full. */
  #placed(value: object, path: string, whole: EncodedObject, like?: SimilarObject): string {
    const { content, text, chars, members } = whole;
    this.#content = content;
    this.#chars = chars;
    if (content.length < CONTAINER_MIN_CHARS) return text;
    const known = this.#find(content);
    const place = known ?? this.#keep(content, path, members);
    if (chars >= IDENTITY_MIN_CHARS) this.#byIdentity.set(value, place);
    this.#content = contentOf(place);
    if (known) return this.#reference(known, path, text);
    if (text.length > BLOB_MIN_CHARS) return this.#blob(JSON.stringify(value));
    if (!like) return text;
    const base = like.shape.last;
    like.shape.last = place;
    return this.#difference(base, place, like.texts, text);
  }

  /** The members that differ from an object with the same member names, or the full text if that is shorter. */
  #difference(base: Place | undefined, place: Place, texts: readonly string[], text: string): string {
    if (!base || texts.length > BASE_MAX_MEMBERS || !this.#isReachable(base)) return text;
    let difference = `{"${BASE}":"${this.#pointer(base)}"`;
    for (let at = 0; at < texts.length && difference.length < text.length; at++) {
      if (place.members[at] !== base.members[at]) difference += `,${texts[at]}`;
    }
    return difference.length + 1 < text.length ? `${difference}}` : text;
  }

  #literal(value: object): string {
    const json = JSON.stringify(value);
    this.#content = LITERAL + json;
    this.#chars = json.length;
    return this.#blob(json);
  }

  #blob(json: string): string {
    const sha256 = hash('sha256', json);
    this.#storeBlob(sha256, json);
    this.#written += json.length;
    return JSON.stringify({ [BLOB]: sha256, bytes: Buffer.byteLength(json) });
  }

  #find(content: string): Place | undefined {
    const recent = this.#recent.get(content);
    const place = recent ?? this.#older.get(content);
    if (!place || !this.#isReachable(place)) return undefined;
    if (!recent) this.#enter(content, place);
    return place;
  }

  #isReachable(place: Place): boolean {
    return place.n === this.#n || this.#window.has(place.n);
  }

  #keep(content: string, path: string, members: readonly string[]): Place {
    const place = { id: ++this.#lastId, chars: this.#chars, members, n: this.#n, path };
    this.#enter(content, place);
    return place;
  }

  #enter(content: string, place: Place): void {
    this.#recent.set(content, place);
    this.#recentChars += content.length;
    if (this.#recent.size < KEPT_MAX && this.#recentChars < KEPT_MAX_CHARS) return;
    this.#older = this.#recent;
    this.#recent = new Map();
    this.#recentChars = 0;
  }

  /** The reference, or the text itself if that is shorter. */
  #reference(place: Place, path: string, text: string | undefined): string {
    const reference = `"${SIGN}${this.#pointer(place)}"`;
    const isNearer = path.length <= place.path.length || this.#n - place.n > REACH / 2;
    if (place.n !== this.#n && isNearer) this.#moved.push([place, path]);
    return text !== undefined && text.length <= reference.length ? text : reference;
  }

  #pointer({ n, path }: Place): string {
    return `${this.#n - n}${path}`;
  }
}

interface SimilarObject {
  readonly shape: Shape<Place>;
  /** Members as they stand in the line. */
  readonly texts: readonly string[];
}

interface EncodedObject {
  readonly text: string;
  readonly content: string;
  readonly chars: number;
  readonly members: readonly string[];
}

/** A prefix that no JSON starts with. */
const LITERAL = '=';
const contentOf = (place: Place): string => `#${place.id}`;

/** Whether later values may refer to this value. */
const isPlaced = (value: unknown): boolean =>
  typeof value === 'string' ? value.length >= TEXT_MIN_CHARS : typeof value === 'object' && value !== null;

const isJson = (value: unknown): boolean =>
  value !== undefined && typeof value !== 'function' && typeof value !== 'symbol';
