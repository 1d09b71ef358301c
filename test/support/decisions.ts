/**
 * The work for the start of a pod, counted instead of timed: the same on every machine, under any load.
 *
 * Invariant: counts begin when the node is idle and end a second after the last pod is ready, so they include the work
 * that follows a start, and none of the node's own.
 */
import { Encoder } from '../../src/kernel/journal/encoder.ts';
import { encodeLine } from '../../src/kernel/journal/line.ts';
import type { KernelRecord } from '../../src/kernel/records.ts';
import type { TurnRecorder } from '../../src/kernel/turn-recorder.ts';
import { image, manifest, PodsNode } from './pods-node.ts';

export interface Decisions {
  readonly inputs: number;
  readonly records: number;
  readonly messages: number;
  readonly states: number;
  readonly requests: number;
  readonly criCalls: number;
  /** The calls that only read. */
  readonly criReads: number;
  /** The bytes of the lines before they are compressed. */
  readonly journalBytes: number;
  /** The events that XState's machines received, and the steps that these caused. */
  readonly macrosteps: number;
  readonly microsteps: number;
  /** The actors whose contexts were hashed, once per turn, and those of them that an event left unchanged. */
  readonly digested: number;
  readonly digestedUnchanged: number;
}

/** The records of one kind: their number, and the bytes of their lines. */
interface Kind {
  readonly count: number;
  readonly bytes: number;
}

type Counts = { -readonly [K in keyof Decisions]: number };
const NONE: Decisions = {
  inputs: 0,
  records: 0,
  messages: 0,
  states: 0,
  requests: 0,
  criCalls: 0,
  criReads: 0,
  journalBytes: 0,
  macrosteps: 0,
  microsteps: 0,
  digested: 0,
  digestedUnchanged: 0,
};

const REST_MS = 30_000;
const AFTER_MS = 1_000;
const INPUTS: ReadonlySet<string> = new Set(['in', 'timer', 'result']);

/** The work for each of several equal pods that start at once, and the number of records of each kind. */
export function decisionsOf(pods: number): { readonly each: Decisions; readonly kinds: ReadonlyMap<string, Kind> } {
  const total: Counts = { ...NONE };
  const kinds = new Map<string, Kind>();
  const encoder = new Encoder(() => {});
  const node = new PodsNode({
    onTurn: (records) => {
      for (const record of records) countRecord(record, encodeLine(encoder.encode(record)), total, kinds);
    },
  });
  node.world.runtime.images.set('app:1', image('app:1'));
  tapRecorder(node, total);
  node.boot().run(REST_MS);
  Object.assign(total, NONE);
  kinds.clear();
  const uids = Array.from({ length: pods }, (_, i) => `pod-${i}`);
  node.world.setManifests(uids.map((uid) => manifest({ uid, name: uid })));
  node.until('all pods are ready', () => uids.every((uid) => node.isReady(uid))).run(AFTER_MS);
  const share = Object.entries(total).map(([name, count]) => [name, count / pods]);
  return { each: Object.fromEntries(share), kinds };
}

function countRecord(record: KernelRecord, line: string, total: Counts, kinds: Map<string, Kind>): void {
  const bytes = Buffer.byteLength(line);
  total.records++;
  total.journalBytes += bytes;
  if (INPUTS.has(record.k)) total.inputs++;
  else if (record.k === 'message') total.messages++;
  else if (record.k === 'state') total.states++;
  else if (record.k === 'effect') countRequest(record.name, record.class, total);
  const kind = kindOf(record);
  const before = kinds.get(kind) ?? { count: 0, bytes: 0 };
  kinds.set(kind, { count: before.count + 1, bytes: before.bytes + bytes });
}

function countRequest(name: string, cls: string, total: Counts): void {
  total.requests++;
  if (!name.startsWith('cri.')) return;
  total.criCalls++;
  if (cls === 'query') total.criReads++;
}

/** A short text for a record, without the names of pods. */
function kindOf(record: KernelRecord): string {
  const withoutPods = (address: string) => address.replaceAll(/pod-\d+/g, 'pod');
  if (record.k === 'effect' || record.k === 'result') return `${record.k} ${record.name}`;
  if (record.k === 'timer') return `timer ${withoutPods(record.at)}`;
  if (record.k === 'in') return `in ${record.event.type}`;
  if (record.k === 'message') return `message ${record.event.type} to ${withoutPods(record.to)}`;
  return record.k === 'state' ? `state ${withoutPods(record.at)}` : record.k;
}

/** The journal does not show steps without effect, so inspection events are counted on the way to the recorder. */
function tapRecorder(node: PodsNode, total: Counts): void {
  const { recorder } = node.kernel as unknown as { readonly recorder: TurnRecorder };
  const inspected = recorder.inspected.bind(recorder);
  const endTurn = recorder.endTurn.bind(recorder);
  const settled = new WeakMap<object, unknown>();
  const seen = new Map<object, unknown>();
  recorder.inspected = (event) => {
    if (event.type === '@xstate.event') total.macrosteps++;
    else if (event.type === '@xstate.microstep') total.microsteps++;
    else if (event.type === '@xstate.snapshot') seen.set(event.actorRef, event.snapshot);
    inspected(event);
  };
  recorder.endTurn = (...turn) => {
    total.digested += seen.size;
    for (const [actor, snapshot] of seen) {
      if (settled.get(actor) === snapshot) total.digestedUnchanged++;
      settled.set(actor, snapshot);
    }
    seen.clear();
    return endTurn(...turn);
  };
}
