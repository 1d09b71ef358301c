/**
 * Unresolved failures: operations of an actor and its descendants, and actors that died. Pure.
 *
 * An operation is identified by its address: a later answer, or a report of a stream that is not a failure, resolves
 * its earlier failure.
 */
import { duration } from '../../visualizer/words.ts';
import { table } from '../printable.ts';
import { actorName, type Operation, type Story } from './story.ts';

/** The report shows this many failures; the JSON has all. */
const FAILED_SHOWN = 8;

export interface Failed {
  readonly actor: string;
  /** The failed operation; absent if the actor itself died. */
  readonly operation?: string;
  /** The endpoint, URL, image or path of the operation. */
  readonly target?: string;
  readonly error: string;
  /** The number of failures in a row. */
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

export function describeFailed(failed: readonly Failed[], title = 'Failed, and not made good since'): string {
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
