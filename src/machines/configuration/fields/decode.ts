/**
 * Turns a decoded document into a KubeletConfiguration, or reports the errors of Go's JSON decoder. Also writes an
 * effective configuration as `v1beta1` JSON: for `/configz`, as the base of drop-ins, and for the log.
 *
 * Decoding is strict: unknown fields are reported and skipped, after a wrong type decoding continues, a bad duration or
 * quantity ends it at once. Invariants: keys are read in the document's order, so the first error is upstream's first
 * error; no defaults are applied, the result has only the document's fields; zero fields are left out exactly where
 * upstream does.
 */
import type { Json } from '../../../kernel/json.ts';
import { isObject, type JsonObject } from '../../../kernel/xstate.ts';
import {
  type Field,
  type FieldType,
  goName,
  isZero,
  type SparseOf,
  type StructType,
  zeroOf,
} from '../../model/configuration/field-types.ts';
import {
  API_VERSION,
  KIND,
  type KubeletConfiguration,
  kubeletConfigurationType,
} from '../../model/configuration/fields.ts';
import { parseCpuSet } from '../../model/values/cpu-set.ts';
import { quote } from '../../model/values/go-text.ts';
import { isNumber, jsonKind, mergeDuplicate, textOfNumber } from '../../model/values/json-document.ts';
import { QUANTITY_REFUSAL, quantityText } from '../../model/values/quantity.ts';
import { pickKeys } from '../../model/values/tables.ts';
import { formatDuration, parseDuration } from '../../model/values/time.ts';

export const MASKED = '<masked>';

export function toVersioned(configuration: KubeletConfiguration): JsonObject {
  const body = writeStruct(kubeletConfigurationType, configuration);
  return { kind: KIND, apiVersion: API_VERSION, ...body };
}

/**
 * The configuration of a running node in `/configz`. If CPUs are reserved by name, upstream overwrites the reserved CPU
 * time with their number in the original maps, which `/configz` shows.
 */
export function toServed(configuration: KubeletConfiguration): JsonObject {
  const { reservedSystemCPUs, kubeReserved, systemReserved } = configuration;
  const cpus = parseCpuSet(reservedSystemCPUs);
  if (reservedSystemCPUs === '' || cpus.error !== undefined) return toVersioned(configuration);
  const { cpu: _, ...kube } = kubeReserved;
  const system = Object.keys(systemReserved).length === 0 ? {} : { ...systemReserved, cpu: String(cpus.value.length) };
  return toVersioned({ ...configuration, kubeReserved: kube, systemReserved: system });
}

/** The configuration with masked values of `staticPodURLHeader`, because they may be secrets. */
export function toMasked(configuration: KubeletConfiguration): JsonObject {
  const headers = Object.keys(configuration.staticPodURLHeader).map((name) => [name, [MASKED]] as const);
  return toVersioned({ ...configuration, staticPodURLHeader: Object.fromEntries(headers) });
}

function writeStruct(type: StructType, value: JsonObject): JsonObject {
  return Object.fromEntries(type.fields.flatMap((field) => writeField(field, value[field.name])));
}

function writeField(field: Field, value: Json | undefined): [string, Json][] {
  if (value === undefined || value === null) return [];
  if (field.pointer !== true && field.always !== true && isLeftOut(field.type, value)) return [];
  // A field that is always written has `null` for a nil map of Go.
  const isUnset = field.type.kind === 'map' && isZero(field.type, value);
  return [[field.name, isUnset ? null : writeValue(field.type, value)]];
}

/** Go's `omitempty` never omits a struct, and a duration is one. */
function isLeftOut(type: FieldType, value: Json): boolean {
  if (type.kind === 'struct' || type.kind === 'duration' || type.kind === 'durationOrNumber') return false;
  return isZero(type, value);
}

function writeValue(type: FieldType, value: Json): Json {
  if (type.kind === 'struct' && isObject(value)) return writeStruct(type, value);
  if (type.kind === 'list' && Array.isArray(value)) return value.map((item) => writeValue(type.of, item));
  return value;
}

/** The fields of a document: typed, canonical, without defaults. */
export type SparseConfiguration = JsonObject;

export type Decoded<Value = SparseConfiguration> =
  | { readonly value: Value; readonly unknownFields: readonly string[]; readonly error?: undefined }
  | { readonly error: string };

interface Progress {
  /** Go's name of the innermost struct being read, and the path to the field. */
  readonly owner: string;
  readonly path: readonly string[];
  /** The same path with list indexes, as strict errors print it. */
  readonly place: string;
  readonly anyCase: boolean;
  readonly outcome: { typeError: string | null; fatal: string | null; unknown: string[] };
}

const TYPE_META = ['apiVersion', 'kind'];

export const decodeConfiguration = (document: JsonObject): Decoded => decodeAs(kubeletConfigurationType, document);

/** Decodes the merged drop-ins: upstream's decoder for them treats `MaxPods` and `maxPods` as one field. */
export const decodeMerged = (document: JsonObject): Decoded => decodeAs(kubeletConfigurationType, document, true);

/** Decodes any document that has `apiVersion` and `kind`. */
export function decodeAs<Type extends StructType>(
  type: Type,
  document: JsonObject,
  anyCase = false,
): Decoded<SparseOf<Type>> {
  const outcome: Progress['outcome'] = { typeError: null, fatal: null, unknown: [] };
  const progress: Progress = { owner: '', path: [], place: '', anyCase, outcome };
  const body = pickKeys(document, (key) => !TYPE_META.includes(key));
  const value = decodeStruct(type, body, progress);
  const error = outcome.fatal ?? outcome.typeError;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- decoding has checked each value against its type
  return error === null ? { value: value as SparseOf<Type>, unknownFields: outcome.unknown } : { error };
}

function decodeStruct(type: StructType, value: JsonObject, progress: Progress): JsonObject {
  const decoded = new Map<string, Json>();
  for (const [key, item] of Object.entries(value)) {
    const place = progress.place === '' ? key : `${progress.place}.${key}`;
    const field = fieldNamed(type, key, progress.anyCase);
    if (field === undefined) {
      progress.outcome.unknown.push(`unknown field ${quote(place)}`);
      continue;
    }
    const step = field.embeddedIn === undefined ? [field.name] : [field.embeddedIn, field.name];
    const inner = { ...progress, owner: type.name, path: [...progress.path, ...step], place };
    const result = decodeField(field, item ?? null, inner);
    if (progress.outcome.fatal !== null) break;
    if (result !== undefined) decoded.set(field.name, mergeDuplicate(decoded.get(field.name), result));
  }
  return Object.fromEntries(decoded);
}

function fieldNamed({ fields }: StructType, key: string, anyCase: boolean): Field | undefined {
  const exact = fields.find(({ name }) => name === key);
  return exact ?? (anyCase ? fields.find(({ name }) => name.toLowerCase() === key.toLowerCase()) : undefined);
}

function decodeField(field: Field, value: Json, progress: Progress): Json | undefined {
  if (value === null && (field.pointer === true || !readsNull(field.type))) return undefined;
  return decodeValue(field.type, value, progress);
}

/** Types with a decoder of their own in Go read `null`; for all others it changes nothing. */
function readsNull(type: FieldType): boolean {
  return type.kind === 'duration' || type.kind === 'durationOrNumber';
}

function decodeValue(type: FieldType, value: Json, progress: Progress): Json | undefined {
  switch (type.kind) {
    case 'bool':
      return typeof value === 'boolean' ? value : mismatch(type, value, progress);
    case 'string':
      return typeof value === 'string' && !isNumber(value) ? value : mismatch(type, value, progress);
    case 'integer':
      return decodeInteger(type, value, progress);
    case 'float':
      return isNumber(value) ? Number(textOfNumber(value)) : mismatch(type, value, progress);
    case 'duration':
      return decodeDuration(value, progress);
    case 'durationOrNumber':
      return decodeFlushFrequency(value, progress);
    case 'quantity':
      return decodeQuantity(value, progress);
    case 'list':
      return decodeList(type, value, progress);
    case 'map':
      return decodeMap(type, value, progress);
    default:
      return isObject(value) ? decodeStruct(type, value, progress) : mismatch(type, value, progress);
  }
}

function decodeInteger(
  type: Extract<FieldType, { kind: 'integer' }>,
  value: Json,
  progress: Progress,
): Json | undefined {
  const text = textOfNumber(value);
  if (text === null) return mismatch(type, value, progress);
  const whole = /^-?[0-9]+$/.test(text) ? BigInt(text) : null;
  if (whole !== null && whole >= type.least && whole <= type.most) return Number(whole);
  return mismatch(type, value, progress, `number ${text}`);
}

function decodeDuration(value: Json, progress: Progress): Json | undefined {
  if (value !== null && (typeof value !== 'string' || isNumber(value)))
    return abort(typeError('string', jsonKind(value), progress), progress);
  const parsed = parseDuration(value ?? '');
  return parsed.error === undefined ? formatDuration(parsed.value) : abort(parsed.error, progress);
}

/** The flush frequency of logs: a text, or a number of nanoseconds. */
function decodeFlushFrequency(value: Json, progress: Progress): Json | undefined {
  if (value === null) return undefined;
  const text = textOfNumber(value);
  if (typeof value === 'string' && text === null) return decodeDuration(value, progress);
  const whole = text !== null && /^-?[0-9]+$/.test(text) ? BigInt(text) : null;
  if (whole !== null && BigInt.asIntN(64, whole) === whole) return Number(whole);
  const word = text === null ? jsonKind(value) : `number ${text}`;
  const reason = `json: cannot unmarshal ${word} into Go value of type time.Duration`;
  return abort(`invalid duration ${quote(text ?? JSON.stringify(value))}: ${reason}`, progress);
}

function decodeQuantity(value: Json, progress: Progress): Json | undefined {
  if (value === null) return '0';
  if (typeof value !== 'string' && typeof value !== 'number') return abort(QUANTITY_REFUSAL, progress);
  const parsed = quantityText(textOfNumber(value) ?? String(value).trim());
  return parsed.error === undefined ? parsed.value : abort(parsed.error, progress);
}

function decodeList(type: Extract<FieldType, { kind: 'list' }>, value: Json, progress: Progress): Json | undefined {
  if (!Array.isArray(value)) return mismatch(type, value, progress);
  const items: Json[] = [];
  for (const [index, item] of value.entries()) {
    const inner = { ...progress, place: `${progress.place}[${index}]` };
    items.push(decodeItem(type.of, item, inner));
    if (progress.outcome.fatal !== null) break;
  }
  return items;
}

function decodeMap(type: Extract<FieldType, { kind: 'map' }>, value: Json, progress: Progress): Json | undefined {
  if (!isObject(value)) return mismatch(type, value, progress);
  const entries: [string, Json][] = [];
  for (const [key, item] of Object.entries(value)) {
    entries.push([key, decodeItem(type.of, item ?? null, progress)]);
    if (progress.outcome.fatal !== null) break;
  }
  return Object.fromEntries(entries);
}

function decodeItem(type: FieldType, value: Json, progress: Progress): Json {
  const decoded = value === null && !readsNull(type) ? undefined : decodeValue(type, value, progress);
  return decoded ?? (type.kind === 'struct' ? {} : zeroOf(type));
}

function mismatch(type: FieldType, value: Json, progress: Progress, word = jsonKind(value)): undefined {
  progress.outcome.typeError ??= typeError(goName(type), word, progress);
}

function abort(error: string, progress: Progress): undefined {
  progress.outcome.fatal ??= error;
}

function typeError(type: string, word: string, { owner, path }: Progress): string {
  return `json: cannot unmarshal ${word} into Go struct field ${owner}.${path.join('.')} of type ${type}`;
}

/** The host decodes YAML and JSON with a library; the document is validated here. */
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
  const interpreted = interpretTypeMeta(value);
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
  const interpreted = interpretTypeMeta(value);
  if (interpreted.error !== undefined) return interpreted;
  const { body } = interpreted;
  const named = (key: string): string => (typeof body[key] === 'string' ? body[key] : '');
  const meta = { apiVersion: named('apiVersion'), kind: named('kind') };
  return meta.kind === '' ? missing('Kind', text) : { meta, body };
}

/** `apiVersion` and `kind` of a document; empty where it has none. */
export function interpretTypeMeta(value: Json): TypeMeta {
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
