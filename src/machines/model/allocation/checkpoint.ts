/**
 * The format of the checkpoints of the kubelet's resource managers: JSON with a checksum of the printed Go value. Pure.
 *
 * Upstream: checkpointmanager/checksum (FNV-1a of what go-spew prints). Invariant: a checkpoint of a Go kubelet can be
 * read here, and one written here can be read by a Go kubelet.
 */

import { isObject } from '../../../kernel/xstate.ts';
import { fnv1a32 } from '../spec/hash.ts';
import { decodeJson, jsonKind } from '../values/json-document.ts';

/** A Go value as printed by spew, without the name of its type where the context implies it. */
export type GoText = string;

/** A field of a struct prints its type; a value in a map or a list does not. */
export const goField = (name: string, type: string, value: GoText): GoText => `${name}:(${type})${value}`;

export const goStruct = (...fields: readonly GoText[]): GoText => `{${fields.join(' ')}}`;

export const goPointer = (value: GoText): GoText => `<*>${value}`;

export const goList = (values: readonly GoText[]): GoText => `[${values.join(' ')}]`;

export const sortedEntries = <Value>(table: Readonly<Record<string, Value>>): (readonly [string, Value])[] =>
  Object.entries(table).toSorted(([a], [b]) => (a < b ? -1 : 1));

/** Keys that are numbers are sorted as numbers. */
export function goMap(entries: readonly (readonly [key: string | number, value: GoText])[]): GoText {
  const sorted = entries.toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `map[${sorted.map(([key, value]) => `${key}:${value}`).join(' ')}]`;
}

export const checksumOf = (type: string, value: GoText): number => fnv1a32(`(*${type})${value}`);

/** The files below the root directory of the kubelet. */
export const CPU_STATE_FILE = 'cpu_manager_state';
export const MEMORY_STATE_FILE = 'memory_manager_state';

export const CORRUPTED = 'checkpoint is corrupted';

/** The object in a text, or Go's error why it cannot be read; `null` leaves a value of `type` empty. */
export function decoded(
  text: string,
  type: string,
): { readonly value: Readonly<Record<string, unknown>> } | { readonly error: string } {
  const document = decodeJson(text);
  if (document.error !== undefined) return { error: document.error };
  const { value } = document;
  if (value === null) return { value: {} };
  if (isObject(value)) return { value };
  return { error: `json: cannot unmarshal ${jsonKind(value)} into Go value of type ${type}` };
}

/** `manager` as upstream names it: `CPU`, `memory`. */
export const notRestored = (manager: string, file: string, error: string): string =>
  `could not restore state from checkpoint: ${error}, please drain this node and delete the ${manager} manager ` +
  `checkpoint file ${JSON.stringify(file)} before restarting Kubelet`;
