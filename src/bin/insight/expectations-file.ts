/**
 * The file of expectations.
 *
 * Invariant: a file with an unknown key or value is rejected, so that a typing error never passes as an expectation
 * that holds.
 */
import type { Json, JsonObject } from '../../kernel/json.ts';
import { millisecondsOf } from './log.ts';

/** `schema/expectations.schema.json` describes the file for editors. */
export interface Expectations {
  readonly finished?: boolean;
  /** Phases that the start enters, in this order; others may lie between them. */
  readonly phases?: readonly string[];
  /** By `healthz`, `synchronizing`, `firstPod` (Running) or `pod/NAME` (Ready): milliseconds after the start. */
  readonly within?: Readonly<Record<string, number>>;
  /** By phase, the maximum time in it over all visits, in milliseconds. */
  readonly longest?: Readonly<Record<string, number>>;
  readonly never?: readonly Forbidden[];
}

/** `actor`: an address, or `pod/NAME/CONTAINER`. */
export interface ForbiddenState {
  readonly actor: string;
  readonly state: string;
}

/** A state of an actor, or an operation that fails. A name that ends in `*` matches all names with that prefix. */
export type Forbidden = ForbiddenState | { readonly operation: string };

/** The file is malformed; the message is for its author. */
export class ExpectationsError extends Error {}

const KEYS = ['finished', 'phases', 'within', 'longest', 'never'];

export function expectationsIn(document: Json): Expectations {
  const file = objectIn(document, 'the file');
  refuseOthers(file, KEYS, 'the file');
  const { finished, phases, within, longest, never } = file;
  if (finished !== undefined && typeof finished !== 'boolean') throw new ExpectationsError('finished is true or false');
  return {
    ...(finished === undefined ? {} : { finished }),
    ...(phases === undefined ? {} : { phases: textsIn(phases, 'phases') }),
    ...(within === undefined ? {} : { within: timesIn(within, 'within', isGoal) }),
    ...(longest === undefined ? {} : { longest: timesIn(longest, 'longest', () => true) }),
    ...(never === undefined ? {} : { never: listIn(never, 'never').map(forbiddenIn) }),
  };
}

const GOALS = ['healthz', 'synchronizing', 'firstPod'];
const isGoal = (name: string): boolean => GOALS.includes(name) || /^pod\/./.test(name);

function objectIn(value: Json | undefined, what: string): JsonObject {
  if (typeof value === 'object' && value !== null && !isList(value)) return value;
  throw new ExpectationsError(`${what} is an object with names and values`);
}

const isList = (value: Json): value is readonly Json[] => Array.isArray(value);

function listIn(value: Json, what: string): readonly Json[] {
  if (isList(value)) return value;
  throw new ExpectationsError(`${what} is a list`);
}

function textsIn(value: Json, what: string): string[] {
  return listIn(value, what).map((item) => {
    if (typeof item === 'string') return item;
    throw new ExpectationsError(`${what} is a list of texts, and ${JSON.stringify(item)} is none`);
  });
}

function refuseOthers(value: object, known: readonly string[], what: string): void {
  const other = Object.keys(value).find((key) => !known.includes(key));
  if (other !== undefined)
    throw new ExpectationsError(`${what} has ${JSON.stringify(other)}; known are ${known.join(', ')}`);
}

function timesIn(value: Json, what: string, isKnown: (name: string) => boolean): Record<string, number> {
  const entries = Object.entries(objectIn(value, what)).map(([name, text]) => {
    if (!isKnown(name))
      throw new ExpectationsError(`${what} has ${JSON.stringify(name)}; known are ${GOALS.join(', ')}, pod/NAME`);
    const ms = typeof text === 'string' ? millisecondsOf(text) : undefined;
    if (ms === undefined)
      throw new ExpectationsError(`${what}.${name} is a time like 500ms or 1.5s, not ${JSON.stringify(text)}`);
    return [name, ms] as const;
  });
  return Object.fromEntries(entries);
}

function forbiddenIn(value: Json): Forbidden {
  const item = objectIn(value, 'each of never');
  refuseOthers(item, ['actor', 'state', 'operation'], 'an item of never');
  const { actor, state, operation } = item;
  const isState = typeof actor === 'string' && typeof state === 'string' && operation === undefined;
  if (isState) return { actor, state };
  if (typeof operation === 'string' && actor === undefined && state === undefined) return { operation };
  throw new ExpectationsError('each of never has actor and state, or operation');
}
