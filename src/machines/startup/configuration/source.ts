/**
 * Owns what the host tells about a configuration file: its text and what the text says, or why there is nothing.
 *
 * The host decodes YAML and JSON, because that is a library's work; which document is acceptable is decided here.
 */
import type { Json } from '../../../kernel/json.ts';
import { isObject, type JsonObject, wordFor } from './decode.ts';
import { quote } from './go-text.ts';

export type ConfigurationSource =
  | {
      readonly kind: 'document';
      /** Absolute. */
      readonly path: string;
      readonly value: Json;
      /** The text of a document without `apiVersion` or `kind`, which upstream quotes; null of any other. */
      readonly text: string | null;
      /** What strict decoding says of keys that are set twice, in order. */
      readonly duplicates: readonly string[];
    }
  | { readonly kind: 'empty'; readonly path: string }
  /** Neither YAML nor JSON; `message` is the decoder's. */
  | { readonly kind: 'malformed'; readonly path: string; readonly message: string }
  /** `message` names operation, path and reason, as `open /x: no such file or directory`. */
  | { readonly kind: 'unreadable'; readonly path: string; readonly message: string };

/** The `*.conf` files below a directory in the order in which they apply. */
export type DropInListing =
  | { readonly kind: 'files'; readonly files: readonly ConfigurationSource[] }
  | { readonly kind: 'unreadable'; readonly message: string };

export interface GroupVersionKind {
  readonly apiVersion: string;
  readonly kind: string;
}

export type TypeMeta =
  | { readonly meta: GroupVersionKind; readonly body: JsonObject; readonly error?: undefined }
  | { readonly error: string };

const META_STRUCT =
  'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }';

/** Reads `apiVersion` and `kind`, which every document must have. */
export function readTypeMeta(text: string | null, value: Json): TypeMeta {
  if (value !== null && !isObject(value)) {
    return { error: metaError(`json: cannot unmarshal ${wordFor(value)} into Go value of type ${META_STRUCT}`) };
  }
  const body = value ?? {};
  const { apiVersion = '', kind = '' } = body;
  if (typeof apiVersion !== 'string') return { error: metaFieldError('apiVersion', apiVersion) };
  if (typeof kind !== 'string') return { error: metaFieldError('kind', kind) };
  if (apiVersion.split('/').length > 2) return { error: `unexpected GroupVersion string: ${apiVersion}` };
  if (kind === '') return { error: `Object 'Kind' is missing in '${text ?? ''}'` };
  if (apiVersion === '' || apiVersion.endsWith('/'))
    return { error: `Object 'apiVersion' is missing in '${text ?? ''}'` };
  return { meta: { apiVersion, kind }, body };
}

function metaError(reason: string): string {
  return `couldn't get version/kind; json parse error: ${reason}`;
}

function metaFieldError(field: string, value: Json): string {
  return metaError(`json: cannot unmarshal ${wordFor(value)} into Go struct field .${field} of type string`);
}

/** As Go prints a GroupVersionKind: `group/version, Kind=kind`. */
export function printKind({ apiVersion, kind }: GroupVersionKind): string {
  return `${apiVersion.includes('/') ? '' : '/'}${apiVersion}, Kind=${kind}`;
}

export function emptyFile(path: string): string {
  return `kubelet config file ${quote(path)} was empty`;
}
