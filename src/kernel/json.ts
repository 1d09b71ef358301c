/**
 * Plain JSON, the only data that crosses the boundary between machines and world, and its comparison.
 *
 * 64-bit integers travel as decimal strings, bytes as base64 or as the hash of a blob, times as RFC 3339 text or as
 * milliseconds of the kernel's clock, errors as {@link PlainError}.
 */

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

export type JsonObject = { readonly [key: string]: Json | undefined };

/** Whether the value is an object, neither a list nor `null`. */
export function isObject(value: Json | undefined): value is JsonObject;
export function isObject(value: unknown): value is Readonly<Record<string, unknown>>;
export function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A member of an object; `undefined` for a value without members. */
export const memberOf = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;

declare global {
  /** ECMAScript 2025, which TypeScript's library does not declare yet. */
  interface JSON {
    rawJSON(text: string): object;
    isRawJSON(value: unknown): boolean;
  }
}

/** The JSON text of a value; `undefined` if it has none, which TypeScript's type of `JSON.stringify` omits. */
export const jsonText: (value: unknown) => string | undefined = JSON.stringify;

/** A copy, as a journal would return it. */
export const jsonCopy = <Value>(value: Value): Value => JSON.parse(JSON.stringify(value));

/** An event in the form of the journal. */
export interface JsonEvent {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** An error as machines and journal represent it: without stack, never an instance. */
export interface PlainError {
  readonly name: string;
  readonly message: string;
  /** gRPC code name (`NOT_FOUND`), errno name (`ENOENT`) or HTTP status (`409`), if the error has one. */
  readonly code?: string;
  /** True when the same request may succeed later without any change. */
  readonly retriable: boolean;
  /** The delay that the server asked for, in milliseconds. */
  readonly retryAfterMs?: number;
}

/** An error of a port that knows its code and whether a retry can help. */
export class OperationError extends Error {
  readonly code: string | undefined;
  readonly retriable: boolean;
  readonly retryAfterMs: number | undefined;
  constructor(
    message: string,
    details: { name?: string; code?: string; retriable?: boolean; retryAfterMs?: number | undefined } = {},
  ) {
    super(message);
    this.name = details.name ?? 'OperationError';
    this.code = details.code;
    this.retriable = details.retriable ?? false;
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** Converts any thrown value into the form of machines and journal. */
export function toPlainError(thrown: unknown): PlainError {
  if (!(thrown instanceof Error)) return { name: 'Error', message: String(thrown), retriable: false };
  const [code, retryAfterMs] = [memberOf(thrown, 'code'), memberOf(thrown, 'retryAfterMs')];
  return {
    name: thrown.name,
    message: thrown.message,
    ...(typeof code === 'string' || typeof code === 'number' ? { code: String(code) } : {}),
    retriable: memberOf(thrown, 'retriable') === true,
    ...(typeof retryAfterMs === 'number' ? { retryAfterMs } : {}),
  };
}

/** Pairs that were found equal, by identity. Valid because values of a log and of machines are never mutated. */
const equal = new WeakMap<object, object>();

/** Only pairs with at least this many members are cached. */
const CACHED_MIN_MEMBERS = 4;

/**
 * Whether two values have the same JSON, including the order of members, without serializing them. `logged` comes from
 * JSON; `made` may contain values outside JSON.
 */
export function isSameJson(logged: unknown, made: unknown): boolean {
  if (logged === made) return true;
  if (!isContainer(logged) || !isContainer(made) || 'toJSON' in made)
    return JSON.stringify(logged) === JSON.stringify(made);
  if (equal.get(logged) === made) return true;
  return Array.isArray(logged) || Array.isArray(made) ? isSameList(logged, made) : haveSameMembers(logged, made);
}

type Container = Readonly<Record<string, unknown>>;
export const isContainer = (value: unknown): value is Container => typeof value === 'object' && value !== null;

function haveSameMembers(logged: Container, made: Container): boolean {
  const [names, madeNames] = [Object.keys(logged), Object.keys(made)];
  // Reading lists of values is faster than reading members by name.
  const [values, madeValues] = [Object.values(logged), Object.values(made)];
  let at = 0;
  for (let madeAt = 0; madeAt < madeNames.length; madeAt++) {
    const value = madeValues[madeAt];
    if (value === undefined || typeof value === 'function' || typeof value === 'symbol') continue;
    if (names[at] !== madeNames[madeAt] || !isSameJson(values[at], value)) return false;
    at++;
  }
  if (at !== names.length) return false;
  if (at >= CACHED_MIN_MEMBERS) equal.set(logged, made);
  return true;
}

function isSameList(logged: unknown, made: unknown): boolean {
  if (!Array.isArray(logged) || !Array.isArray(made) || logged.length !== made.length) return false;
  const others: readonly unknown[] = made;
  return logged.every((part, at) => isSameJson(part, others[at] ?? null));
}
