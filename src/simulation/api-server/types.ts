/** Shapes that the parts of a simulated API server share. */

export type Value = null | boolean | number | string | Value[] | { [key: string]: Value };
export type Fields = { [key: string]: Value };

export interface Metadata {
  name: string;
  namespace?: string;
  generateName?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  creationTimestamp: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
}

/** An object as it is stored. Never changed in place: each write stores another one. */
export interface ApiObject {
  apiVersion: string;
  kind: string;
  metadata: Metadata;
  spec?: Fields;
  status?: Fields;
  [key: string]: unknown;
}

export interface User {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** Large integers stay exact: they are kept as the text that came. */
export function parseJson(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, context?: { source?: string }) => {
    const source = context?.source;
    if (typeof value !== 'number' || source === undefined) return value;
    return Number.isInteger(value) && !Number.isSafeInteger(value) ? rawJson(source) : value;
  });
}

const { rawJSON: rawJson, isRawJSON: isRawJson } = JSON as unknown as {
  readonly rawJSON: (text: string) => unknown;
  readonly isRawJSON: (value: unknown) => boolean;
};

/** The objects of a list in a field; none where there is no list. */
export function fieldsIn(fields: Fields | undefined, name: string): Fields[] {
  const list = fields?.[name];
  return Array.isArray(list) ? list.filter(isFields) : [];
}

/** A copy that shares nothing with the original. */
export function copy<T>(value: T): T {
  if (typeof value !== 'object' || value === null || isRawJson(value)) return value;
  if (Array.isArray(value)) return value.map((part: unknown) => copy(part)) as T;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, copy(part)])) as T;
}

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isRawJson(value);

export const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** A value that should be text; empty when it is something else. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** RFC 3339 in seconds, as metav1.Time. */
export const timestamp = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
