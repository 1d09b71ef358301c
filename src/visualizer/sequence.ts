/**
 * The messages of one turn in order: a column for each actor, an arrow for each message. Everything outside of the
 * actors is one column, the world: the source of inputs, timers and answers, and the target of requests. Pure.
 */
import type { ShownRecord } from '../actors/server/visualizer/protocol.ts';
import { eventText, whoOf } from './words.ts';

export const WORLD = 'world';

export interface Arrow {
  readonly n: number;
  readonly from: string;
  readonly to: string;
  readonly text: string;
}

export interface Sequence {
  /** Addresses, and {@link WORLD}, in the order in which they appear. */
  readonly columns: readonly string[];
  readonly arrows: readonly Arrow[];
}

/** `records` are those of one turn. */
export function sequenceOf(records: readonly ShownRecord[]): Sequence {
  const arrows = records.flatMap((shown) => arrowOf(shown) ?? []);
  return { columns: [...new Set(arrows.flatMap(({ from, to }) => [from, to]))], arrows };
}

function arrowOf(shown: ShownRecord): Arrow | undefined {
  const { n, record } = shown;
  const who = whoOf(shown);
  switch (record.k) {
    case 'in':
      return { n, from: WORLD, to: who, text: eventText(record.event.type) };
    case 'timer':
      return { n, from: WORLD, to: who, text: eventText(record.event) };
    case 'result':
      return { n, from: WORLD, to: who, text: `${record.name} ${record.error ? 'failed' : 'answered'}` };
    case 'message':
      return { n, from: record.from, to: record.to, text: eventText(record.event.type) };
    case 'effect':
      return { n, from: who, to: WORLD, text: record.name };
    default:
      return undefined;
  }
}
