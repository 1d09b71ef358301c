/** Types of the simulated API server. */

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

/** A stored object. It is never changed in place: each write stores a new one. */
export interface ApiObject {
  apiVersion: string;
  kind: string;
  metadata: Metadata;
  spec?: Fields;
  status?: Fields;
  [key: string]: unknown;
}

export type { User } from '../../actors/server/http/endpoint.ts';

/** Parses JSON; large integers stay exact as text. */
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

/** The objects of the list in a field; empty if the field has no list. */
export function fieldsIn(fields: Fields | undefined, name: string): Fields[] {
  const list = fields?.[name];
  return Array.isArray(list) ? list.filter(isFields) : [];
}

/** A deep copy. */
export function copy<T>(value: T): T {
  if (typeof value !== 'object' || value === null || isRawJson(value)) return value;
  if (Array.isArray(value)) return value.map((part: unknown) => copy(part)) as T;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, copy(part)])) as T;
}

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isRawJson(value);

export const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The value if it is a text, otherwise an empty text. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** RFC 3339 in seconds, as metav1.Time. */
export const timestamp = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
