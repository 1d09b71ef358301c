/** The page's texts for durations, states and records. Pure. */

import type { ActiveState, ActorView, RequestView, ShownRecord } from '../actors/server/visualizer/protocol.ts';
import type { KernelRecord } from '../kernel/records.ts';

/** `340 ms`, `2.31 s`, `4 min 05 s`, `3 h 12 min`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${pad(Math.floor(seconds % 60))} s`;
  return `${Math.floor(minutes / 60)} h ${pad(minutes % 60)} min`;
}

/** `12 KB`, `3.4 MB`. */
export const sizeText = (bytes: number): string =>
  bytes < 1_048_576 ? `${Math.ceil(bytes / 1_024)} KB` : `${(bytes / 1_048_576).toFixed(1)} MB`;

/** The wait before a link of a critical chain in words, by the kind of the link; the first link has no wait. */
export const WAITED_FOR = {
  start: 'start',
  operation: 'answer',
  timer: 'timer',
  news: 'event',
  input: 'event',
} as const;

const pad = (value: number): string => String(value).padStart(2, '0');

/** Time since the start of the incarnation, in seconds. */
export const sinceStart = (t: number, started: number): string => `+${((t - started) / 1_000).toFixed(3)}`;

/** A state value as a path, regions beside each other: `running.probes.idle | running.volumes.mounted`. */
export const stateText = (value: unknown): string => innermostPaths(value).join(' | ');

/** The innermost active states by their paths, one for each region. */
export function innermostPaths(value: unknown): string[] {
  const paths = leaves(value, '');
  return paths.length > 0 ? paths : ['(no states)'];
}

/** Regions that a line has room for. */
const REGIONS_MAX = 5;

/** The innermost states only, for narrow places: `idle | mounted`; of many regions the first ones. */
export function innermostText(value: unknown): string {
  const states = leaves(value, '').map((path) => path.slice(path.lastIndexOf('.') + 1));
  if (states.length <= REGIONS_MAX) return states.join(' | ');
  return `${states.slice(0, 2).join(' | ')} and ${states.length - 2} more`;
}

/** The regions whose state changed; all regions if the earlier state is unknown. */
export function changeText(value: unknown, before: unknown): string {
  const former = new Set(leaves(before, ''));
  const changed = leaves(value, '').filter((path) => !former.has(path));
  return changed.join(' | ') || stateText(value);
}

function leaves(value: unknown, path: string): string[] {
  if (typeof value === 'string') return [path + value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, below]) => {
    const found = leaves(below, `${path}${key}.`);
    return found.length > 0 ? found : [path + key];
  });
}

/** The active states that contain no other active state. */
export const innermost = (states: readonly ActiveState[]): ActiveState[] =>
  states.filter(
    ({ path }) => !states.some((other) => other.path !== path && other.path.startsWith(path && `${path}.`)),
  );

export const lastOf = (address: string): string => address.slice(address.lastIndexOf('/') + 1);
export const parentOf = (address: string): string => address.slice(0, Math.max(0, address.lastIndexOf('/')));

/** `S216, S217, S218, S221` as `S216–S218, S221`. */
export function stepRanges(steps: string): string {
  const ranges: [first: number, last: number][] = [];
  for (const part of steps.match(/S\d+(?:\s*[-–]\s*S?\d+)?/g) ?? []) {
    const [first = 0, last = first] = (part.match(/\d+/g) ?? []).map(Number);
    const before = ranges.at(-1);
    if (before !== undefined && before[1] + 1 === first) before[1] = last;
    else ranges.push([first, last]);
  }
  const name = (step: number): string => `S${String(step).padStart(3, '0')}`;
  return ranges.map(([first, last]) => (first === last ? name(first) : `${name(first)}–${name(last)}`)).join(', ');
}

export function actorOf(record: KernelRecord): string {
  if (record.k === 'in' || record.k === 'message') return record.to;
  if (record.k === 'effect' || record.k === 'result') return parentOf(record.at);
  return 'at' in record ? record.at : '';
}

/** The actor of a shown record: a cancelled request belongs to the actor that made it. */
export const whoOf = ({ record, request }: ShownRecord): string => request?.asker ?? actorOf(record);

/** Whether an actor received, requested or sent this record. */
export const concerns = (shown: ShownRecord, address: string): boolean =>
  whoOf(shown) === address || (shown.record.k === 'message' && shown.record.from === address);

/** The event as the actor's chart names it; a result reaches the machine as the end of its request. */
export function eventHeard(record: KernelRecord): string | undefined {
  if (record.k === 'in' || record.k === 'message') return record.event.type;
  if (record.k === 'timer') return record.event;
  if (record.k !== 'result') return undefined;
  return `xstate.${record.error ? 'error' : 'done'}.actor.${lastOf(record.at)}`;
}

/** An event as users know it. */
export function eventText(type: string): string {
  const after = /^xstate\.after\.([^.]+)\.(.+)$/.exec(type);
  if (after) return `after ${delayText(after[1] ?? '')} in ${after[2]}`;
  const actor = /^xstate\.(done|error)\.actor\.(.+)$/.exec(type);
  if (actor) return `${actor[2]} ${actor[1] === 'done' ? 'is done' : 'failed'}`;
  return type === 'xstate.init' ? 'is started' : type;
}

/** A delay is a number of milliseconds or a name; round ones need no decimals. */
function delayText(delay: string): string {
  if (!/^\d+$/.test(delay)) return delay;
  const ms = Number(delay);
  return ms < 60_000 && ms % 1_000 === 0 ? `${ms / 1_000} s` : duration(ms);
}

/**
 * One line for the table. `before` is the value of the actor's state before a `state` record, `operation` the name of
 * the request that a `cancel` record cancels or that an input belongs to.
 */
export function recordText(record: KernelRecord, { before, operation }: Around = {}): string {
  switch (record.k) {
    case 'header':
      return `incarnation ${record.incarnation} of node ${record.node} begins`;
    case 'in':
      return `${eventText(record.event.type)}  from ${operation ?? record.via}`;
    case 'timer':
      return eventText(record.event);
    case 'result':
      return record.error ? `${record.name} failed: ${record.error.message}` : `${record.name} answered`;
    case 'message':
      return `${eventText(record.event.type)}  from ${record.from}`;
    case 'effect':
      return record.name;
    case 'cancel':
      return `${operation ?? `request ${record.id}`} is cancelled`;
    case 'log':
      return `${record.text}${record.fields ? `  ${JSON.stringify(record.fields)}` : ''}`;
    case 'state':
      return `${changeText(record.value, before)}${record.status ? `  (${record.status})` : ''}`;
    default:
      return `turn ${record.turn}, digest ${record.digest}`;
  }
}

interface Around {
  readonly before?: unknown;
  readonly operation?: string | undefined;
}

const KINDS: Readonly<Record<KernelRecord['k'], string>> = {
  header: 'start',
  in: 'input',
  timer: 'timer',
  result: 'result',
  message: 'message',
  effect: 'request',
  cancel: 'cancel',
  log: 'log',
  state: 'state',
  end: 'end',
};

export const kindName = (kind: KernelRecord['k']): string => KINDS[kind];
export const kindText = (record: KernelRecord): string => (record.k === 'log' ? record.level : kindName(record.k));

export type Activity = 'active' | 'waiting' | 'done' | 'failed';

export const isAwaited = (request: RequestView): boolean => request.class !== 'stream';

/** The meaning of the dot before an actor. */
export function activityOf(actor: ActorView): Activity {
  if (actor.status === 'error') return 'failed';
  if (actor.status !== 'active') return 'done';
  return actor.requests.some(isAwaited) || actor.active.some((state) => state.waitsFor) ? 'waiting' : 'active';
}

/** The uid of a static pod, or of one that an API server named, in the id of an actor. */
const UID = /(?<=-)(?:[\da-f]{32}|[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12})/g;

export const isUid = (text: string): boolean => `-${text}`.replace(UID, '') === '-';

/** A text with every uid of an actor replaced by its name, if that is known. */
export const namesIn = (text: string, names: ReadonlyMap<string, string>): string =>
  names.size === 0 ? text : text.replaceAll(UID, (uid) => names.get(uid) ?? uid);

export function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}
