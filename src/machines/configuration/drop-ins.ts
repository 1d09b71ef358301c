/**
 * Decides what the files of `--config-dir` change: each is a JSON merge patch on what came before.
 *
 * Invariants: files apply in the order of their paths; an object is merged key by key, anything else replaced, `null`
 * takes away; defaults are set once, after the last file. Relative paths stay as they are, as upstream leaves them.
 */

import type { Json } from '../../kernel/json.ts';
import type { JsonObject, KubeletConfiguration } from '../model/configuration/types.ts';
import type { ConfigurationSource, DropInListing } from '../model/operations/host.ts';
import { byBytes, quote } from '../model/values/go-text.ts';
import { decodeMerged, isObject } from './fields/decode.ts';
import type { FeatureSettings } from './fields/feature-gates.ts';
import { API_VERSION, KIND } from './fields/fields.ts';
import { emptyFile, printKind, readDropInMeta } from './fields/source.ts';
import { toVersioned } from './fields/versioned.ts';
import { completeConfiguration, type Loaded } from './load.ts';

export function mergeDropIns(
  base: KubeletConfiguration,
  directory: string,
  listing: DropInListing,
  flagGates: FeatureSettings,
): Loaded {
  const walk = `failed to walk through kubelet dropin directory ${quote(directory)}`;
  if (listing.kind === 'unreadable') return refuse(`${walk}: ${listing.message}`);
  let merged = toVersioned(base);
  for (const source of listing.files) {
    const patch = readPatch(source);
    if (patch.error !== undefined) return refuse(`${walk}: ${patch.error}`);
    merged = mergePatch(merged, patch.body);
  }
  const decoded = decodeMerged(sortKeys(merged));
  if (decoded.error !== undefined) {
    return refuse(`failed to unmarshal merged JSON into kubelet configuration: ${decoded.error}`);
  }
  return completeConfiguration(decoded.value, flagGates);
}

function refuse(reason: string): Loaded {
  return { kind: 'refused', error: `failed to merge kubelet configs: ${reason}` };
}

type Patch = { readonly body: JsonObject; readonly error?: undefined } | { readonly error: string };

function readPatch(source: ConfigurationSource): Patch {
  const failed = `failed to load kubelet dropin file, path: ${source.path}`;
  if (source.kind === 'empty') return { error: `${failed}, error: ${emptyFile(source.path)}` };
  if (source.kind !== 'document') return { error: `${failed}, error: ${source.message}` };
  const typed = readDropInMeta(source.text, source.value);
  if (typed.error !== undefined) return { error: `${failed}, error: ${typed.error}` };
  if (typed.meta.apiVersion !== API_VERSION || typed.meta.kind !== KIND) {
    return { error: `${failed}, unknown apiVersion/kind: ${printKind(typed.meta)}` };
  }
  if (source.duplicates.length > 0) {
    return { error: `${failed}, error: strict decoding error: ${source.duplicates.join(', ')}` };
  }
  return { body: typed.body };
}

/** RFC 7396. */
function mergePatch(target: JsonObject, patch: JsonObject): JsonObject {
  const merged = new Map(Object.entries(target));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || value === undefined) merged.delete(key);
    else if (isObject(value)) merged.set(key, mergePatch(objectAt(merged.get(key)), value));
    else merged.set(key, value);
  }
  return Object.fromEntries(merged);
}

function objectAt(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

function sortKeys(value: JsonObject): JsonObject {
  const entries = Object.entries(value).toSorted(([left], [right]) => byBytes(left, right));
  return Object.fromEntries(entries.map(([key, item]) => [key, isObject(item) ? sortKeys(item) : item]));
}
