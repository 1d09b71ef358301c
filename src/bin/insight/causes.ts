/**
 * Causes that `statelet why` reports: of a failed start, of waiting claims, and of the end of the previous process.
 * Pure.
 *
 * Unresolved failures are operations of an actor and its descendants, and actors that died.
 *
 * An operation is identified by its address: a later answer, or a report of a stream that is not a failure, resolves
 * its earlier failure.
 */
import { nextTryOf } from '../../actors/server/visualizer/pods.ts';
import type { ClaimWaitView } from '../../actors/server/visualizer/protocol.ts';
import { JournalError } from '../../kernel/journal/errors.ts';
import { segmentsIn } from '../../kernel/journal/layout.ts';
import { isDirectory, readJournal } from '../../kernel/journal/reader.ts';
import { claimWaitText } from '../../visualizer/pod-answer.ts';
import { duration } from '../../visualizer/words.ts';
import { table } from '../printable.ts';
import { actorName, type Operation, ROOT, Story } from './story.ts';
import type { KnownTimers } from './why.ts';

/** The report shows this many failures; the JSON has all. */
const FAILED_SHOWN = 8;

export interface Failed {
  readonly actor: string;
  /** The failed operation; absent if the actor itself died. */
  readonly operation?: string;
  /** The endpoint, URL, image or path of the operation. */
  readonly target?: string;
  readonly error: string;
  readonly times: number;
  /** The time of the last failure. */
  readonly atMs: number;
}

/** The supervisor and its subsystems; pods and containers are not. */
export const isOfStart = (actor: string): boolean => actor.split('/').length <= 2;

/** The newest failure comes first. */
export function failedOf(story: Story, isOwn: (actor: string) => boolean): readonly Failed[] {
  return [...operationsOf(story, isOwn), ...deathsOf(story, isOwn)].toSorted((one, other) => other.atMs - one.atMs);
}

function operationsOf(story: Story, isOwn: (actor: string) => boolean): Failed[] {
  const failing = new Map<string, Failed & { readonly asker: string }>();
  for (const operation of story.operations.values()) {
    const { at, name } = operation;
    const key = `${at} ${name}`;
    const failure = failureOf(operation, story);
    const times = (failing.get(key)?.times ?? 0) + (failure?.times ?? 0);
    if (failure || operation.end === 'done' || operation.hasReported) failing.delete(key);
    if (!failure) continue;
    const { error, t } = failure;
    const asker = at.slice(0, at.lastIndexOf('/'));
    const of = operation.target === undefined ? {} : { target: operation.target };
    const atMs = t - story.started;
    failing.set(key, { asker, actor: actorName(asker, story), operation: name, ...of, error, times, atMs });
  }
  return [...failing.values()].flatMap(({ asker, ...failed }) => (isOwn(asker) ? [failed] : []));
}

function failureOf({ failing, end, error = '', ended }: Operation, story: Story): Operation['failing'] {
  if (end === 'failed') return { error, times: 1, t: ended ?? story.ended };
  return end === 'done' ? undefined : failing;
}

const deathsOf = (story: Story, isOwn: (actor: string) => boolean): Failed[] =>
  [...story.moments.values()].flatMap(({ k, status, actor, text, t }) => {
    const isDeath = k === 'state' && status === 'error' && isOwn(actor) && story.actors.get(actor)?.status === 'error';
    return isDeath ? [{ actor: actorName(actor, story), error: text, times: 1, atMs: t - story.started }] : [];
  });

export function describeFailed(failed: readonly Failed[], title = 'Failed, and not resolved since'): string {
  if (failed.length === 0) return '';
  const rows = failed
    .slice(0, FAILED_SHOWN)
    .map(({ actor, operation, target, error, times, atMs }) => [
      `  ${actor}`,
      [operation ?? 'died', target].filter(Boolean).join(' '),
      times > 1 ? `${times} times, last at +${duration(atMs)}` : `at +${duration(atMs)}`,
      error,
    ]);
  const more = failed.length > FAILED_SHOWN ? `  … ${failed.length - FAILED_SHOWN} more\n` : '';
  const columns = Array.from({ length: 4 }, () => ({ title: '' }));
  return `\n${title}\n${table(columns, rows)}${more}`;
}

/** Times are milliseconds after the start of the agent. */
export interface ClaimWait extends Pick<ClaimWaitView, 'what' | 'step' | 'claims' | 'drivers' | 'failures' | 'n'> {
  readonly sinceMs: number;
  readonly forMs: number;
  /** The last error, and its time. */
  readonly error?: string;
  readonly failedMs?: number;
  readonly nextTryMs?: number;
}

export function claimWait(
  story: Story,
  uid: string,
  timers: KnownTimers,
): { readonly claims: ClaimWait; readonly text: string } | undefined {
  const known = story.claims.waitOf(uid);
  if (known === undefined) return undefined;
  const podTimers = (timers ?? []).filter(({ target }) => target.endsWith(`/pod-${uid}`));
  const wait: ClaimWaitView = {
    ...known,
    ...nextTryOf(podTimers.map(({ due, event }) => ({ due, event: event.type }))),
  };
  const { what, step, claims, drivers, failures, n, since, error, nextTry } = wait;
  const report = {
    what,
    step,
    claims,
    drivers,
    failures,
    n,
    sinceMs: since - story.started,
    forMs: story.ended - since,
    ...(error ? { error: error.message, failedMs: error.t - story.started } : {}),
    ...(nextTry === undefined ? {} : { nextTryMs: nextTry - story.started }),
  };
  return { claims: report, text: `; it ${claimWaitText(wait, story.ended)}` };
}

/**
 * How the previous start ended, read from its own journal: in order, by a failure, by a fault, or without a final
 * record.
 */
export interface PreviousEnd {
  readonly incarnation: string;
  /** `silent`: the process was killed, ran out of memory, or its machine lost power. */
  readonly how: 'ended' | 'failed' | 'silent';
  /** The time of its last record, in milliseconds since the epoch. */
  readonly lastAt: number;
  readonly message?: string;
}

/** The end of the previous start in a journal's directory; `undefined` if there is none, or it cannot be read. */
export function previousEnd(path: string, incarnation: string): PreviousEnd | undefined {
  if (!isDirectory(path)) return undefined;
  const names = [...new Set(segmentsIn(path).map((segment) => segment.incarnation))];
  const before = names[names.indexOf(incarnation) - 1];
  if (before === undefined) return undefined;
  try {
    return endOf(new Story(readJournal(path, { incarnation: before, from: 'newest-checkpoint' })));
  } catch (error) {
    if (error instanceof JournalError) return undefined;
    throw error;
  }
}

function endOf({ header: { incarnation }, ended: lastAt, failure, actors }: Story): PreviousEnd {
  if (failure) return { incarnation, lastAt, how: 'failed', message: failure.message };
  return { incarnation, lastAt, how: actors.get(ROOT)?.status === 'active' ? 'silent' : 'ended' };
}

export function describePreviousEnd({ incarnation, how, lastAt, message }: PreviousEnd): string {
  const when = new Date(lastAt).toISOString();
  if (how === 'ended') return `The start before, ${incarnation}, ended in order at ${when}.\n`;
  if (how === 'failed') return `The start before, ${incarnation}, ended at ${when} by a failure: ${message}\n`;
  return `The start before, ${incarnation}, did not end in order: it was killed, ran out of memory, or its machine lost power after ${when}.\n`;
}
