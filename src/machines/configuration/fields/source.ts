/**
 * A configuration file as the host reports it: its text and decoded document, or why there is none.
 *
 * The host decodes YAML and JSON with a library; the document is validated here.
 */

import type { Json } from '../../../kernel/json.ts';
import { isObject, type JsonObject } from '../../../kernel/xstate.ts';
import { isNumber, jsonKind } from '../../model/values/exact-number.ts';
import { quote } from '../../model/values/go-text.ts';

export interface GroupVersionKind {
  readonly apiVersion: string;
  readonly kind: string;
}

export type TypeMeta =
  | { readonly meta: GroupVersionKind; readonly body: JsonObject; readonly error?: undefined }
  | { readonly error: string };

const META_STRUCT =
  'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }';

const META_FIELDS = ['apiVersion', 'kind'] as const;

/** Reads `apiVersion` and `kind`, which every document must have; their case does not matter here. */
export function readTypeMeta(text: string | null, value: Json): TypeMeta {
  const interpreted = interpret(value);
  if (interpreted.error !== undefined) return interpreted;
  const { apiVersion, kind } = interpreted.meta;
  if (kind === '') return missing('Kind', text);
  if (apiVersion === '' || apiVersion.endsWith('/')) return missing('apiVersion', text);
  return interpreted;
}

/**
 * Reads `apiVersion` and `kind` of a drop-in: upstream reads these names case-sensitively, and requires only a kind.
 */
export function readDropInMeta(text: string | null, value: Json): TypeMeta {
  const interpreted = interpret(value);
  if (interpreted.error !== undefined) return interpreted;
  const { body } = interpreted;
  const named = (key: string): string => (typeof body[key] === 'string' ? body[key] : '');
  const meta = { apiVersion: named('apiVersion'), kind: named('kind') };
  return meta.kind === '' ? missing('Kind', text) : { meta, body };
}

function interpret(value: Json): TypeMeta {
  if (value !== null && !isObject(value)) {
    return { error: metaError(`json: cannot unmarshal ${jsonKind(value)} into Go value of type ${META_STRUCT}`) };
  }
  const body = value ?? {};
  const meta = { apiVersion: '', kind: '' };
  for (const [key, item] of Object.entries(body)) {
    const field = META_FIELDS.find((name) => name.toLowerCase() === key.toLowerCase());
    if (field === undefined || item === null || item === undefined) continue;
    if (typeof item !== 'string' || isNumber(item)) return { error: metaFieldError(field, item) };
    meta[field] = item;
  }
  if (meta.apiVersion.split('/').length > 2) return { error: `unexpected GroupVersion string: ${meta.apiVersion}` };
  return { meta: { ...meta, apiVersion: meta.apiVersion.replace(/^\//, '') }, body };
}

function missing(what: string, text: string | null): { readonly error: string } {
  return { error: `Object '${what}' is missing in '${text ?? ''}'` };
}

function metaError(reason: string): string {
  return `couldn't get version/kind; json parse error: ${reason}`;
}

function metaFieldError(field: string, value: Json): string {
  return metaError(`json: cannot unmarshal ${jsonKind(value)} into Go struct field .${field} of type string`);
}

/** A GroupVersionKind as Go prints it: `group/version, Kind=kind`. */
export function printKind({ apiVersion, kind }: GroupVersionKind): string {
  return `${apiVersion.includes('/') ? '' : '/'}${apiVersion}, Kind=${kind}`;
}

export function emptyFile(path: string): string {
  return `kubelet config file ${quote(path)} was empty`;
}
