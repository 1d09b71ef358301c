/**
 * Reads the lines of one segment and resolves their references.
 *
 * Owns: the records that a reference can reach, and the numbers of addresses.
 * Invariants:
 *   - a reference must name a complete, earlier value, or the line is rejected;
 *   - values are shared, not copied; their total expanded size is limited relative to the bytes read, and so is
 *     nesting, so a small file cannot expand without bound;
 *   - the cost is proportional to the line and to the members that references name.
 */

import { isContainer } from '../json.ts';
import {
  ADDRESS_FIELDS,
  ADDRESS_MAX_CHARS,
  ADDRESSES_MAX,
  BASE,
  BASE_MAX_MEMBERS,
  BLOB,
  CAUSED,
  NO_NUMBER,
  SIGN,
  SPLICED,
  unescaped,
  VALUE_FIELDS,
  WITHOUT,
  Window,
} from './references.ts';
import { NESTING_MAX } from './shape.ts';

/** Limits of the characters that references expand to: per byte read, and in total. */
const EXPANSION_MAX = 32;
const EXPANSION_FREE_CHARS = 16 * 1024 * 1024;
/** Characters of a pointer, including the names of members. */
const POINTER_MAX_CHARS = 64 * 1024;
/** Parsed pointers that are cached. */
const POINTERS_MAX = 1_024;
const DISTANCE_MAX_DIGITS = 5;
/** Characters counted per member in addition to its name and value. */
const MEMBER_CHARS = 16;
/** Characters counted for a number, boolean or null. */
const SCALAR_CHARS = 6;
const DIGITS = /^\d+$/;
const ADDRESS = /^(\d{1,5})=(?:(\d{1,5})(?=\/))?(.*)$/s;
const NAME = '__proto__';

const VALUES: ReadonlySet<string> = new Set(VALUE_FIELDS);
const ADDRESSES: ReadonlySet<string> = new Set(ADDRESS_FIELDS);

/** A line as JSON has it. */
export type RawLine = Readonly<Record<string, unknown>> & { readonly k: string };

/** Why a line is rejected. */
export class BadReference extends Error {}

export interface LoadedBlob {
  readonly value: unknown;
  readonly bytes: number;
}

/** The size of a value as text, and its depth. */
interface Extent {
  readonly chars: number;
  readonly levels: number;
}

type Container = Record<string, unknown>;

export class Decoder {
  readonly #loadBlob: (sha256: unknown) => LoadedBlob;
  readonly #window = new Window<Container>();
  #addresses: string[] = [];
  readonly #pointers = new Map<string, readonly string[]>();
  readonly #extents = new WeakMap<object, Extent>();
  /** The part of the record that was read so far. */
  #record: Container = {};
  /** Containers of the record that are still incomplete. */
  readonly #open = new Set<object>();
  #n = 0;
  #expanded = 0;
  #read = 0;

  constructor(loadBlob: (sha256: unknown) => LoadedBlob) {
    this.#loadBlob = loadBlob;
  }

  /** Decodes the record of a line of `bytes` bytes; `isLiteral` if the line contains no reference. */
  decode(raw: RawLine, bytes: number, isLiteral: boolean): Readonly<Record<string, unknown>> {
    this.#read += bytes;
    this.#expand(bytes);
    if (typeof raw['n'] !== 'number') return raw;
    this.#n = raw['n'];
    const record = raw.k === 'header' ? raw : this.#fields(raw, isLiteral);
    this.#window.add(this.#n, bytes, record);
    return record;
  }

  #fields(raw: RawLine, isLiteral: boolean): Container {
    const record: Container = {};
    this.#record = record;
    this.#open.clear();
    for (const name of Object.keys(raw)) {
      const value = raw[name];
      if (ADDRESSES.has(name)) record[name] = this.#address(value);
      else if (VALUES.has(name) && !isLiteral) this.#put(record, name, value, 1);
      else if (name !== 'cause') record[name] = value;
    }
    if (CAUSED.has(raw.k)) {
      const { cause = 1 } = raw;
      if (typeof cause !== 'number' || !Number.isSafeInteger(cause)) throw new BadReference('its cause is no distance');
      if (cause !== 0) record['cause'] = this.#n - cause;
    }
    return record;
  }

  #address(value: unknown): unknown {
    if (typeof value === 'number') {
      const known = this.#addresses[value];
      if (known === undefined) throw new BadReference(`no address has the number ${value}`);
      return known;
    }
    const [, number, parent, rest] = (typeof value === 'string' && ADDRESS.exec(value)) || [];
    if (rest === undefined) return value;
    if (Number(number) === NO_NUMBER) return `${parent ?? ''}${rest}`;
    const above = parent === undefined ? '' : this.#addresses[Number(parent)];
    const isNext = Number(number) <= Math.max(1, this.#addresses.length) && Number(number) <= ADDRESSES_MAX;
    if (above === undefined || !isNext || above.length + rest.length > ADDRESS_MAX_CHARS)
      throw new BadReference(`it gives a number to an address that cannot have it`);
    if (Number(number) === 1) this.#addresses = [''];
    this.#addresses[Number(number)] = above + rest;
    return above + rest;
  }

  /** Stores a value in its container before its parts are read. */
  #put(into: Container, name: string, value: unknown, level: number): void {
    if (level > NESTING_MAX) throw new BadReference(TOO_DEEP);
    if (typeof value === 'string') set(into, name, value.startsWith(SIGN) ? this.#text(value, level) : value);
    else if (Array.isArray(value)) this.#list(into, name, value, level);
    else if (!isContainer(value)) set(into, name, value);
    else if (Object.hasOwn(value, BLOB)) set(into, name, this.#blob(value));
    else if (Object.hasOwn(value, BASE)) this.#like(into, name, value, level);
    else this.#object(into, name, value, level);
  }

  #text(value: string, level: number): unknown {
    if (value.startsWith(SIGN, SIGN.length)) return value.slice(SIGN.length);
    const found = this.#find(value.slice(SIGN.length));
    this.#share(found, level);
    return found;
  }

  #list(into: Container, name: string, value: readonly unknown[], level: number): void {
    const list: unknown[] = [];
    set(into, name, list);
    this.#open.add(list);
    for (let at = 0; at < value.length; at++) this.#put(list as never, at as never, value[at], level + 1);
    this.#open.delete(list);
  }

  #object(into: Container, name: string, value: Container, level: number): void {
    const object: Container = {};
    set(into, name, object);
    this.#open.add(object);
    for (const member of Object.keys(value)) this.#put(object, member, value[member], level + 1);
    this.#open.delete(object);
  }

  /** An object or list that is written as its difference to an earlier one. */
  #like(into: Container, name: string, value: Container, level: number): void {
    const reference = value[BASE];
    const base = typeof reference === 'string' ? this.#find(reference) : undefined;
    if (Array.isArray(base) && SPLICED in value) return this.#spliced(into, name, base, value[SPLICED], level);
    if (!isContainer(base) || Array.isArray(base)) throw new BadReference('it takes the members of what is no object');
    const object: Container = {};
    set(into, name, object);
    this.#open.add(object);
    const members = Object.keys(base);
    requireSize(members.length);
    const removed = removedFrom(base, value[WITHOUT]);
    let newMembers = Object.keys(value).length - 1 - Number(removed !== undefined);
    for (const member of members) {
      if (removed?.has(member)) continue;
      if (!Object.hasOwn(value, member)) this.#keep(object, member, base[member], level + 1, member.length);
      else {
        this.#put(object, member, value[member], level + 1);
        newMembers--;
      }
    }
    if (newMembers > 0) this.#append(object, value, level);
    this.#open.delete(object);
  }

  /** Stores the members that the base does not have, or not at the end. */
  #append(into: Container, value: Container, level: number): void {
    for (const member of Object.keys(value)) {
      const isNew = member !== BASE && member !== WITHOUT && !Object.hasOwn(into, member);
      if (isNew) this.#put(into, member, value[member], level + 1);
    }
  }

  /** Stores a value of the base; `nameChars` are the characters of its name. */
  #keep(into: Container, name: string, kept: unknown, level: number, nameChars = 0): void {
    this.#share(kept, level);
    this.#expand(nameChars + MEMBER_CHARS);
    set(into, name, kept);
  }

  /** The items of another list, of which those from an index on are replaced by others. */
  #spliced(into: Container, name: string, base: readonly unknown[], change: unknown, level: number): void {
    const [at, removed, ...items] = Array.isArray(change) ? (change as readonly unknown[]) : [];
    if (!isCount(at, base.length) || !isCount(removed, base.length - at))
      throw new BadReference('it changes items that the list which it is like has not');
    requireSize(base.length);
    const list: unknown[] = [];
    set(into, name, list);
    this.#open.add(list);
    const keep = (item: unknown): void => this.#keep(list as never, list.length as never, item, level + 1);
    for (const item of base.slice(0, at)) keep(item);
    for (const item of items) this.#put(list as never, list.length as never, item, level + 1);
    for (const item of base.slice(at + removed)) keep(item);
    this.#open.delete(list);
  }

  #blob(handle: Container): unknown {
    const { value, bytes } = this.#loadBlob(handle[BLOB]);
    this.#read += bytes;
    this.#expand(bytes);
    return value;
  }

  #find(reference: string): unknown {
    const slash = reference.indexOf('/');
    const distance = slash > 0 && slash <= DISTANCE_MAX_DIGITS ? reference.slice(0, slash) : '';
    if (!DIGITS.test(distance)) throw new BadReference('a text begins with the sign of a reference and is none');
    const n = this.#n - Number(distance);
    let value: unknown = distance === '0' ? this.#record : this.#window.get(n);
    if (value === undefined) throw new BadReference(`it refers to record ${n}, which is out of reach`);
    const names = this.#namesOf(reference.slice(slash + 1));
    if (!VALUES.has(names[0] ?? '')) throw new BadReference(`it refers to what is no value of record ${n}`);
    for (const name of names) value = memberOf(value, name);
    if (value === undefined || (distance === '0' && this.#open.has(value as object)))
      throw new BadReference(`it refers to what record ${n} does not have`);
    return value;
  }

  /** The names in a pointer, cached because pointers repeat. */
  #namesOf(pointer: string): readonly string[] {
    const known = this.#pointers.get(pointer);
    if (known) return known;
    if (pointer.length > POINTER_MAX_CHARS) throw new BadReference('it refers to what is too far inside a record');
    if (this.#pointers.size === POINTERS_MAX) this.#pointers.clear();
    const names = pointer.split('/').map(unescaped);
    this.#pointers.set(pointer, names);
    return names;
  }

  #share(value: unknown, level: number): void {
    if (typeof value === 'string') return this.#expand(value.length);
    const { chars, levels } = this.#extentOf(value);
    if (level + levels > NESTING_MAX) throw new BadReference(TOO_DEEP);
    this.#expand(chars);
  }

  #expand(chars: number): void {
    this.#expanded += chars;
    if (this.#expanded > EXPANSION_MAX * this.#read + EXPANSION_FREE_CHARS)
      throw new BadReference(`its references stand for more than ${EXPANSION_MAX} times what was read`);
  }

  #extentOf(value: unknown): Extent {
    if (typeof value === 'string') return { chars: value.length, levels: 0 };
    if (typeof value !== 'object' || value === null) return SCALAR;
    const known = this.#extents.get(value);
    if (known) return known;
    let [chars, levels] = [0, 0];
    for (const [name, part] of Object.entries(value)) {
      const partExtent = this.#extentOf(part);
      chars += name.length + partExtent.chars;
      levels = Math.max(levels, partExtent.levels);
    }
    const extent = { chars, levels: levels + 1 };
    this.#extents.set(value, extent);
    return extent;
  }
}

const TOO_DEEP = `with what it refers to it is nested deeper than ${NESTING_MAX} levels`;
const SCALAR: Extent = { chars: SCALAR_CHARS, levels: 0 };

const isCount = (value: unknown, most: number): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= most;

function requireSize(items: number): void {
  if (items > BASE_MAX_MEMBERS) throw new BadReference('the object that it is like has too many members');
}

/** The names of members that the base has, and the value does not have at their place. */
function removedFrom(base: Container, names: unknown): ReadonlySet<unknown> | undefined {
  if (names === undefined) return undefined;
  if (!Array.isArray(names) || !names.every((name) => typeof name === 'string' && Object.hasOwn(base, name)))
    throw new BadReference('it is without members that the object which it is like has not');
  return new Set(names);
}

/** Sets a member, also one named `__proto__`. */
function set(into: Container, name: string, value: unknown): void {
  if (name === NAME) Object.defineProperty(into, name, { value, enumerable: true, configurable: true, writable: true });
  else into[name] = value;
}

function memberOf(value: unknown, name: string): unknown {
  if (!isContainer(value) || !Object.hasOwn(value, name)) return undefined;
  return Array.isArray(value) && name === 'length' ? undefined : value[name];
}
