/**
 * What a turn changed, in one line of text and one short digest.
 *
 * The digest covers what an event log alone does not show: a change of context only. Equal inputs must give equal
 * digests; replay compares them.
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

export function digest(changed: ReadonlyMap<AnyActorRef, unknown>): string {
  let text = '';
  for (const [actor, snapshot] of changed) {
    const { status, value, context, output, error } = snapshot as Changed;
    text += `${addressOf(actor)} ${JSON.stringify([status, value, context, output, error])}\n`;
  }
  return hash('sha1', text, 'base64').slice(0, DIGEST_LENGTH);
}
