/** The story of one pod from the records that are kept: its lanes, its events, and how it was at a moment. */
import { Claims, nextTryOf, Pods } from '../../actors/server/visualizer/pods.ts';
import type { PodView, ShownRecord, TimerView } from '../../actors/server/visualizer/protocol.ts';
import { podLanes } from '../lanes.ts';
import { podEvents } from '../pod-answer.ts';
import type { Model } from './model.ts';
import type { Row } from './record-pages.ts';
import type { PodStory } from './requests.ts';

/** Kinds of records that tell of a pod. */
const OF_PODS: ReadonlySet<string> = new Set(['state', 'log', 'message', 'effect']);

interface Asked {
  readonly uid: string;
  /** As it is now. */
  readonly pod: PodView | undefined;
  /** The record of the moment; undefined: now. */
  readonly at: number | undefined;
  readonly timersAt: (address: string, n: number) => Promise<readonly TimerView[]>;
}

export async function podStory(model: Model, { uid, pod, at, timersAt }: Asked): Promise<PodStory> {
  const { pages, root, t } = model;
  const address = `${root}/pods/pod-${uid}`;
  const last = at ?? Number.POSITIVE_INFINITY;
  const own = [address, `${root}/draManager/prepare-${uid}`, `${root}/draManager/release-${uid}`];
  const isOwn = (name: string): boolean => own.includes(name) || name.startsWith(`${address}/`) || name === pod?.pod;
  const isWanted = ({ kind, n }: Row): boolean => n <= last && OF_PODS.has(kind);
  const records = await pages.at(pages.indexesNaming(isOwn, isWanted));
  const until = Math.min(pod?.gone ?? Number.POSITIVE_INFINITY, model.endOf(Math.min(last, pages.last))?.t ?? t);
  const then = at === undefined ? undefined : podThen(uid, records, root);
  const claims = then?.claims && { ...then.claims, ...nextTryOf(await timersAt(address, last)) };
  return {
    ...(then ? { pod: { ...then, ...(claims ? { claims } : {}) } } : {}),
    lanes: podLanes(address, records, until),
    events: pod ? podEvents(pod, records) : [],
  };
}

/** The pod as these records leave it. */
function podThen(uid: string, records: readonly ShownRecord[], root: string): PodView | undefined {
  const [pods, claims] = [new Pods(), new Claims()];
  for (const { record, t } of records) {
    pods.take(record, t, root);
    claims.take(record, t, root);
  }
  const wait = claims.waitOf(uid);
  const pod = pods.list().find((each) => each.uid === uid);
  return pod && wait ? { ...pod, claims: wait } : pod;
}
