/**
 * Computes the strategic merge patch between two versions of an object, as a client sends it.
 *
 * Lists that the API merges by a key are patched entry by entry, with their order (`$setElementOrder/<list>`); every
 * other list is replaced. A removed field is `null`, a removed entry `{$patch: delete}`. Shapes as recorded from
 * kubelet 1.36 (PATCH of nodes/status and pods/status).
 */
import type { Json } from '../../../kernel/json.ts';
import { isObject, type JsonObject } from '../../../kernel/xstate.ts';
import { isSame } from '../values/same.ts';

/** Merge key by the path of its list (`status.conditions`: `type`). */
export type MergeKeys = Readonly<Record<string, string>>;

/** A Go server treats an absent list, an empty one and `null` alike; it answers with the form of its type. */
const isNothing = (value: Json | undefined): boolean =>
  value === undefined || value === null || (Array.isArray(value) && value.length === 0);

/** The patch from one version to the other; `null` if they are equal. */
export function strategicPatch(before: JsonObject, after: JsonObject, mergeKeys: MergeKeys): JsonObject | null {
  const patch = fieldsPatch(before, after, '', mergeKeys);
  return Object.keys(patch).length === 0 ? null : patch;
}

function fieldsPatch(before: JsonObject, after: JsonObject, path: string, mergeKeys: MergeKeys): JsonObject {
  const patch: Record<string, Json> = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [from, to] = [before[name], after[name]];
    if (isSame(from, to) || (isNothing(from) && isNothing(to))) continue;
    const at = path === '' ? name : `${path}.${name}`;
    const key = mergeKeys[at];
    if (to === undefined || to === null) patch[name] = null;
    else if (key !== undefined && Array.isArray(from) && Array.isArray(to)) {
      Object.assign(patch, listPatch(name, from, to, key));
    } else if (isObject(from) && isObject(to)) {
      const fields = fieldsPatch(from, to, at, mergeKeys);
      if (Object.keys(fields).length > 0) patch[name] = fields;
    } else patch[name] = to;
  }
  return patch;
}

function listPatch(name: string, before: readonly JsonObject[], after: readonly JsonObject[], key: string): JsonObject {
  const known = new Map(before.map((entry) => [entry[key], entry]));
  const keptKeys = new Set(after.map((entry) => entry[key]));
  const changed = after.flatMap((entry) => {
    const from = known.get(entry[key]);
    if (from === undefined) return [entry];
    const fields = fieldsPatch(from, entry, '', {});
    return Object.keys(fields).length === 0 ? [] : [{ ...fields, [key]: entry[key] }];
  });
  const gone = before
    .filter((entry) => !keptKeys.has(entry[key]))
    .map((entry) => ({ $patch: 'delete', [key]: entry[key] }));
  const entries = [...changed, ...gone];
  return {
    [`$setElementOrder/${name}`]: after.map((entry) => ({ [key]: entry[key] })),
    ...(entries.length === 0 ? {} : { [name]: entries }),
  };
}
