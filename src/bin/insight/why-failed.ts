/**
 * What has failed and not worked since: operations of an actor and those below it, and actors that died. Pure.
 *
 * An operation is the same as long as it is asked for at the same address: its answer, or what it says as a stream,
 * makes good what failed before.
 */
import { duration } from '../../visualizer/words.ts';
import { actorName, type Operation, type Story } from './story.ts';
import { table } from './table.ts';

/** Of more the JSON has the rest. */
const FAILED_SHOWN = 8;

export interface Failed {
  readonly actor: string;
  /** Name of the operation; absent: the actor itself died. */
  readonly operation?: string;
  /** The endpoint, URL, image or path that it was for. */
  readonly target?: string;
  readonly error: string;
  /** How often in a row. */
  readonly times: number;
  /** Of the last time. */
  readonly atMs: number;
}

/** The last to fail comes first. */
export function failedOf(story: Story, isOwn: (actor: string) => boolean): readonly Failed[] {
  return [...operationsOf(story, isOwn), ...deathsOf(story, isOwn)].toSorted((one, other) => other.atMs - one.atMs);
}

function operationsOf(story: Story, isOwn: (actor: string) => boolean): Failed[] {
  const failing = new Map<string, { last: Operation; times: number }>();
  for (const operation of story.operations.values()) {
    const { at, name, end, isHeard } = operation;
    const key = `${at} ${name}`;
    if (end === 'done' || isHeard) failing.delete(key);
    if (end === 'failed') failing.set(key, { last: operation, times: (failing.get(key)?.times ?? 0) + 1 });
  }
  return [...failing.values()].flatMap(({ last, times }) => {
    const { at, name, target, error = '', ended = story.ended } = last;
    const asker = at.slice(0, at.lastIndexOf('/'));
    if (!isOwn(asker)) return [];
    const of = target === undefined ? {} : { target };
    return [{ actor: actorName(asker, story), operation: name, ...of, error, times, atMs: ended - story.started }];
  });
}

const deathsOf = (story: Story, isOwn: (actor: string) => boolean): Failed[] =>
  [...story.moments.values()].flatMap(({ k, status, actor, text, t }) => {
    const isDeath = k === 'state' && status === 'error' && isOwn(actor) && story.actors.get(actor)?.status === 'error';
    return isDeath ? [{ actor: actorName(actor, story), error: text, times: 1, atMs: t - story.started }] : [];
  });

export function describeFailed(failed: readonly Failed[]): string {
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
  return `\nFailed, and not made good since\n${table(columns, rows)}${more}`;
}
