/**
 * What was kept lately, by key: bounded, and cheap to change where nothing may be changed in place. Pure.
 *
 * Invariant: a value lies in the one of many short lists that the hash of its key says, newest last; keeping one copies
 * that list only, and the oldest of a full list goes.
 */
import { fnv1a32 } from '../../../model/spec/hash.ts';

/** Together as many as upstream's caches of the event correlator hold. */
const LISTS = 128;
const LENGTH_MAX = 32;

/** As JSON: each turn's digest writes the whole of it, and a text is written at once. */
type List<Value> = string & { readonly value?: Value };
export type Recent<Value> = readonly List<Value>[];

export const noneRecent: Recent<never> = Array.from({ length: LISTS }, () => '[]');

const placeOf = (key: string): number => fnv1a32(key) % LISTS;
const read = <Value>(list: List<Value>) => JSON.parse(list) as (readonly [key: string, value: Value])[];

export const recentOf = <Value>(recent: Recent<Value>, key: string): Value | undefined =>
  read(recent[placeOf(key)]!).find(([known]) => known === key)?.[1];

export function withRecent<Value>(recent: Recent<Value>, key: string, value: Value): Recent<Value> {
  const place = placeOf(key);
  const others = read(recent[place]!).filter(([known]) => known !== key);
  return recent.with(place, JSON.stringify([...others.slice(-LENGTH_MAX + 1), [key, value]]));
}
