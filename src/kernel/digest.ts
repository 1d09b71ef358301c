/**
 * A digest of what a turn changed in each actor, a few characters long.
 *
 * The digest covers what an event log does not show: changes of context. Equal inputs must give equal digests; replay
 * compares them. Only the difference between the snapshots before and after the turn is digested, down to the values
 * that changed, so the cost is proportional to the change.
 * Invariants: values in a context are never mutated, only replaced; a digest depends on the content of the contexts
 * before and after the turn, not on how they were built or on the order of their members.
 */
import { hash } from 'node:crypto';
import { jsonText } from './json.ts';

/** The part of a snapshot that is digested. */
export interface Digested {
  readonly context?: unknown;
  readonly output?: unknown;
  readonly error?: unknown;
}

/** 36 bits in base64 for each actor of a turn: one change in 70 billion goes unnoticed, and the line stays short. */
const DIGEST_LENGTH = 6;
const NOTHING: Digested = {};

/** The digest of one actor, empty if nothing changed; `state` is the text of its state if that changed. */
export function digestOf(before: Digested = NOTHING, after: Digested, state: string | undefined): string {
  const context = difference(before.context, after.context);
  const isSameEnd = before.output === after.output && before.error === after.error;
  const end = isSameEnd ? undefined : difference([before.output, before.error], [after.output, after.error]);
  if (context === undefined && end === undefined && state === undefined) return '';
  return hash('sha1', `${state ?? ''}\n${context ?? ''}\n${end ?? ''}`, 'base64').slice(0, DIGEST_LENGTH);
}

/** The number of leading digests of a turn that are equal in the log and in the replay. */
export function sameDigests(logged: string, today: string): number {
  let at = 0;
  while (at < logged.length && logged.slice(at, at + DIGEST_LENGTH) === today.slice(at, at + DIGEST_LENGTH))
    at += DIGEST_LENGTH;
  return at / DIGEST_LENGTH;
}

type Container = Readonly<Record<string, unknown>>;

const isContainer = (value: unknown): value is Container =>
  typeof value === 'object' && value !== null && !('toJSON' in value);

/** The changed parts as text, members of objects ordered by name. */
function difference(before: unknown, after: unknown): string | undefined {
  if (before === after) return undefined;
  if (typeof before === 'string' && typeof after === 'string') return JSON.stringify(after);
  if (!isContainer(before) || !isContainer(after) || Array.isArray(before) !== Array.isArray(after)) {
    const text = jsonText(after);
    return text === JSON.stringify(before) ? undefined : (text ?? 'nothing');
  }
  const parts =
    Array.isArray(after) && Array.isArray(before) ? partsOfList(before, after) : partsOfObject(before, after);
  if (parts.length === 0) return undefined;
  return `{${(parts.length === 1 ? parts : parts.sort()).join()}}`;
}

function partsOfList(before: readonly unknown[], after: readonly unknown[]): string[] {
  const parts: string[] = [];
  for (let at = 0; at < after.length; at++) {
    if (before[at] === after[at]) continue;
    const childText = difference(before[at], after[at]);
    if (childText !== undefined) parts.push(`"${at}":${childText}`);
  }
  for (let at = after.length; at < before.length; at++) if (before[at] !== undefined) parts.push(`"${at}":nothing`);
  return parts;
}

/**
 * A replaced context usually has the same members in the same order. Such contexts are compared as lists of values,
 * which is faster than reading members by name.
 */
function partsOfObject(before: Container, after: Container): string[] {
  const [names, earlier] = [Object.keys(after), Object.keys(before)];
  const areSameNames = names.length === earlier.length && names.every((name, at) => name === earlier[at]);
  const values = Object.values(after);
  const earlierValues = areSameNames ? Object.values(before) : names.map((name) => before[name]);
  const parts: string[] = [];
  for (let at = 0; at < names.length; at++) {
    if (earlierValues[at] === values[at]) continue;
    const childText = difference(earlierValues[at], values[at]);
    if (childText !== undefined) parts.push(`${JSON.stringify(names[at])}:${childText}`);
  }
  if (areSameNames) return parts;
  for (const name of earlier)
    if (!Object.hasOwn(after, name) && before[name] !== undefined) parts.push(`${JSON.stringify(name)}:nothing`);
  return parts;
}

/** Paths of the changed values, limited to `most`: `.context.pods.web.phase`. */
export function changedPaths(before: unknown, after: unknown, most: number, path = '.context'): string[] {
  if (difference(before, after) === undefined) return [];
  if (!isContainer(before) || !isContainer(after) || Array.isArray(before) !== Array.isArray(after)) return [path];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => changedPaths(before[name], after[name], most, `${path}.${name}`)).slice(0, most);
}
