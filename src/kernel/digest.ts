/**
 * What a turn changed, in one line of text and one short digest.
 *
 * The digest covers what an event log alone does not show: a change of context only. Equal inputs must give equal
 * digests; replay compares them.
 *
 * A turn replaces a few values of a context and leaves the others as they are, so the text of a value is kept with it,
 * and a long one stands in the text of the whole as its own digest: a turn costs what it changed.
 * Invariant: what is in a context is never changed, only replaced.
 */
import { hash } from 'node:crypto';
import type { AnyActorRef } from 'xstate';
import { addressOf } from './address.ts';

interface Changed {
  readonly status: string;
  readonly value?: unknown;
  readonly context?: unknown;
  readonly output?: unknown;
  readonly error?: unknown;
}

/** 72 bits in base64: collisions by accident are out of reach, and the line stays short. */
const DIGEST_LENGTH = 12;
/** Characters: a shorter text is made sooner than it is found. */
const WORTH_KEEPING = 128;
/** Characters from which a text is replaced by its digest. */
const LONG = 1_024;
/** No text of JSON begins with it. */
const DIGEST_MARK = '#';
/** Members from which on a value is a collection, of which a turn changes one. */
const COLLECTION = 16;

const texts = new WeakMap<object, string>();

export function digest(changed: ReadonlyMap<AnyActorRef, unknown>): string {
  let text = '';
  for (const [actor, snapshot] of changed) {
    const { status, value, context, output, error } = snapshot as Changed;
    const [state, end] = [JSON.stringify([status, value]), JSON.stringify([output, error])];
    text += `${addressOf(actor)} ${state.slice(0, -1)},${contextText(context)},${end.slice(1)}\n`;
  }
  return digestOf(text);
}

const digestOf = (text: string): string => hash('sha1', text, 'base64').slice(0, DIGEST_LENGTH);

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** As `JSON.stringify` in an array, but for long members. */
const contextText = (context: unknown): string =>
  isObject(context) && !Array.isArray(context) ? membersText(context) : (jsonText(context) ?? 'null');

function jsonText(value: unknown): string | undefined {
  if (!isObject(value)) return JSON.stringify(value);
  const known = texts.get(value);
  if (known !== undefined) return known;
  const whole = isCollection(value) ? membersText(value) : JSON.stringify(value);
  const text = whole.length < LONG ? whole : DIGEST_MARK + digestOf(whole);
  if (whole.length >= WORTH_KEEPING) texts.set(value, text);
  return text;
}

const isCollection = (value: object): boolean =>
  !Array.isArray(value) && !('toJSON' in value) && Object.keys(value).length >= COLLECTION;

function membersText(value: object): string {
  let text = '';
  for (const [name, member] of Object.entries(value)) {
    const its = jsonText(member);
    if (its !== undefined) text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${its}`;
  }
  return `{${text}}`;
}
