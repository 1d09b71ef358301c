/**
 * What a turn changed in each actor, in a few characters.
 *
 * The digest covers what an event log alone does not show: a change of context only. Equal inputs must give equal
 * digests; replay compares them. It is that of the difference between the snapshots before and after the turn, down to
 * the values that are others, so a turn costs what it replaced.
 * Invariants: what is in a context is never changed, only replaced; a digest depends on what contexts say before and
 * after the turn, not on how they were made or in which order their members stand.
 */
import { hash } from 'node:crypto';
import { jsonText } from './json.ts';

/** The part of a snapshot that is digested. */
export interface Digested {
  readonly context?: unknown;
  readonly output?: unknown;
  readonly error?: unknown;
}

/** 36 bits in base64 for each actor of a turn: a change goes unseen once in 70 billion, and the line stays short. */
const DIGEST_LENGTH = 6;
const NOTHING: Digested = {};

/** `state` is the text of the actor's state where that is another; the digest is empty where nothing is another. */
export function digestOf(before: Digested = NOTHING, after: Digested, state: string | undefined): string {
  const context = difference(before.context, after.context);
  const isSameEnd = before.output === after.output && before.error === after.error;
  const end = isSameEnd ? undefined : difference([before.output, before.error], [after.output, after.error]);
  if (context === undefined && end === undefined && state === undefined) return '';
  return hash('sha1', `${state ?? ''}\n${context ?? ''}\n${end ?? ''}`, 'base64').slice(0, DIGEST_LENGTH);
}

/** How many digests of a turn are the same in the log and today, from the first on. */
export function sameDigests(logged: string, today: string): number {
  let at = 0;
  while (at < logged.length && logged.slice(at, at + DIGEST_LENGTH) === today.slice(at, at + DIGEST_LENGTH))
    at += DIGEST_LENGTH;
  return at / DIGEST_LENGTH;
}

type Container = Readonly<Record<string, unknown>>;

const isContainer = (value: unknown): value is Container =>
  typeof value === 'object' && value !== null && !('toJSON' in value);

/** What is another, as a text; members of objects in the order of their names. */
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
    const its = difference(before[at], after[at]);
    if (its !== undefined) parts.push(`"${at}":${its}`);
  }
  for (let at = after.length; at < before.length; at++) if (before[at] !== undefined) parts.push(`"${at}":nothing`);
  return parts;
}

/**
 * A replaced context usually has its members in the same order: then no member was removed. Lists of values are read
 * faster than members by their names.
 */
function partsOfObject(before: Container, after: Container): string[] {
  const [names, earlier] = [Object.keys(after), Object.keys(before)];
  const areSameNames = names.length === earlier.length && names.every((name, at) => name === earlier[at]);
  const values = Object.values(after);
  const earlierValues = areSameNames ? Object.values(before) : names.map((name) => before[name]);
  const parts: string[] = [];
  for (let at = 0; at < names.length; at++) {
    if (earlierValues[at] === values[at]) continue;
    const its = difference(earlierValues[at], values[at]);
    if (its !== undefined) parts.push(`${JSON.stringify(names[at])}:${its}`);
  }
  if (areSameNames) return parts;
  for (const name of earlier)
    if (!Object.hasOwn(after, name) && before[name] !== undefined) parts.push(`${JSON.stringify(name)}:nothing`);
  return parts;
}

/** Paths of the values that changed, at most so many: `.context.pods.web.phase`. */
export function changedPaths(before: unknown, after: unknown, most: number, path = '.context'): string[] {
  if (difference(before, after) === undefined) return [];
  if (!isContainer(before) || !isContainer(after) || Array.isArray(before) !== Array.isArray(after)) return [path];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => changedPaths(before[name], after[name], most, `${path}.${name}`)).slice(0, most);
}
