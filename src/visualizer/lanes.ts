/**
 * The story of one pod as lanes over time: the states of the pod and of each actor below it (containers, their logs,
 * probes, volumes), from the records that are kept. Pure.
 */
import type { ActiveState, ShownRecord } from '../actors/server/visualizer/protocol.ts';
import { type Activity, innermostPaths, lastOf } from './words.ts';

/** A stretch of time that an actor spent in one state. */
export interface Segment {
  readonly text: string;
  readonly activity: Activity;
  readonly waitsFor?: string;
  /** Milliseconds since the epoch; `to` is the chosen moment if the state lasts. */
  readonly from: number;
  readonly to: number;
  readonly lasts: boolean;
  /** The record that began it; absent: it began before the first record that is kept. */
  readonly n?: number;
}

export interface Lane {
  readonly address: string;
  readonly segments: readonly Segment[];
}

/** The region of a pod's chart that shows its progress. */
const LIFE = 'alive.life.';

type State = Pick<Segment, 'text' | 'activity' | 'waitsFor'>;

/**
 * The pod's own lane first, then the lanes below it in the order of their start. `records` are in the order of their
 * numbers.
 */
export function podLanes(address: string, records: readonly ShownRecord[], until: number): readonly Lane[] {
  const lanes = new Map<string, Segment[]>();
  const begin = records[0]?.t ?? until;
  for (const { record, t, n, active = [], was } of records) {
    if (record.k !== 'state' || !(record.at === address || record.at.startsWith(`${address}/`))) continue;
    const lane = lanes.get(record.at) ?? [];
    if (lane.length === 0 && was) lane.push(segment(stateOf(record.at, was.value, was.active), begin, t));
    lanes.set(record.at, lane);
    close(lane, t);
    const state = record.status === undefined ? stateOf(record.at, record.value, active) : endOf(record.status);
    const ended = record.status !== undefined;
    const last = lane.at(-1);
    if (!last || last.text !== state.text || ended)
      lane.push({ ...segment(state, t, ended ? t : until), lasts: !ended, n });
    else lane.splice(-1, 1, { ...last, to: until, lasts: true });
  }
  const own = lanes.get(address);
  lanes.delete(address);
  return [...(own ? [[address, own] as const] : []), ...lanes].map(([at, segments]) => ({ address: at, segments }));
}

const segment = (state: State, from: number, to: number): Segment => ({ ...state, from, to, lasts: false });

function close(lane: Segment[], t: number): void {
  const last = lane.pop();
  if (last) lane.push({ ...last, to: last.lasts ? t : last.to, lasts: false });
}

const endOf = (status: 'done' | 'error' | 'stopped'): State => ({
  text: status === 'error' ? 'failed' : 'ended',
  activity: status === 'error' ? 'failed' : 'done',
});

function stateOf(address: string, value: unknown, active: readonly ActiveState[]): State {
  const paths = innermostPaths(value);
  const life = paths.filter((path) => path.startsWith(LIFE));
  const shown = life.length > 0 ? life : paths;
  const waits = active.findLast(
    ({ path, waitsFor }) =>
      waitsFor !== undefined && shown.some((each) => each === path || each.startsWith(`${path}.`)),
  );
  const text = shown.map((path) => (path.startsWith(LIFE) ? path.slice(LIFE.length) : path)).join(' | ');
  const isWaiting = waits !== undefined || !isThere(address, text);
  return {
    text,
    activity: isWaiting ? 'waiting' : 'active',
    ...(waits?.waitsFor === undefined ? {} : { waitsFor: waits.waitsFor }),
  };
}

/**
 * Whether the actor is settled: a pod and a container have one such state each; any other actor is settled unless it
 * waits.
 */
function isThere(address: string, text: string): boolean {
  const step = lastOf(address);
  if (step.startsWith('pod-')) return text === 'sync.active';
  return !step.startsWith('container-') || text.startsWith('running');
}
