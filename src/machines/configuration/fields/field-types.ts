/**
 * Owns the small type language in which the fields of KubeletConfiguration are described.
 *
 * One description serves decoding, defaulting, printing and the JSON schema, so that they cannot drift apart.
 */
import type { Json } from '../../../kernel/json.ts';

export type FieldType =
  | { readonly kind: 'bool' }
  | { readonly kind: 'string'; readonly go: string }
  | { readonly kind: 'integer'; readonly go: string; readonly least: bigint; readonly most: bigint }
  | { readonly kind: 'float' }
  | { readonly kind: 'duration' }
  /** The log flush frequency: a duration text, or a number of nanoseconds. */
  | { readonly kind: 'durationOrNumber' }
  | { readonly kind: 'quantity' }
  | { readonly kind: 'list'; readonly of: FieldType }
  | { readonly kind: 'map'; readonly of: FieldType; readonly go: string }
  | StructType;

export interface StructType {
  readonly kind: 'struct';
  /** Go's name of the type without its package, as decoding errors print the owner of a field. */
  readonly name: string;
  /** Go's name with its package. */
  readonly go: string;
  readonly fields: readonly Field[];
}

export interface Field {
  readonly name: string;
  readonly type: FieldType;
  /** Unset differs from zero: `null` unsets, and a set zero is printed. */
  readonly pointer?: true;
  /** Printed even when it is zero. */
  readonly always?: true;
  /** What stands in for an unset pointer, or for the zero of a plain field. */
  readonly default?: Json;
}

export const bool: FieldType = { kind: 'bool' };
export const string: FieldType = { kind: 'string', go: 'string' };
export const int32: FieldType = { kind: 'integer', go: 'int32', least: -(2n ** 31n), most: 2n ** 31n - 1n };
export const int64: FieldType = { kind: 'integer', go: 'int64', least: -(2n ** 63n), most: 2n ** 63n - 1n };
export const float64: FieldType = { kind: 'float' };
export const duration: FieldType = { kind: 'duration' };
export const quantity: FieldType = { kind: 'quantity' };
export const verbosity: FieldType = { kind: 'integer', go: 'v1.VerbosityLevel', least: 0n, most: 2n ** 32n - 1n };
export const strings: FieldType = { kind: 'list', of: string };
export const stringMap: FieldType = { kind: 'map', of: string, go: 'map[string]string' };

export function named(go: string): FieldType {
  return { kind: 'string', go };
}

export function listOf(of: FieldType): FieldType {
  return { kind: 'list', of };
}

export function struct(go: string, fields: readonly Field[]): StructType {
  return { kind: 'struct', go, name: go.slice(go.indexOf('.') + 1), fields };
}

/** A plain field: its zero means unset, and is replaced by the default where there is one. */
export function plain(name: string, type: FieldType, fallback?: Json): Field {
  return fallback === undefined ? { name, type } : { name, type, default: fallback };
}

/** A pointer field: unset and zero differ. */
export function pointer(name: string, type: FieldType, fallback?: Json): Field {
  return fallback === undefined ? { name, type, pointer: true } : { name, type, pointer: true, default: fallback };
}

/** A field that is printed whatever its value. */
export function always(name: string, type: FieldType, fallback?: Json): Field {
  return { ...plain(name, type, fallback), always: true };
}

/** How a decoding error names the type. */
export function goName(type: FieldType): string {
  switch (type.kind) {
    case 'bool':
      return 'bool';
    case 'float':
      return 'float64';
    case 'duration':
    case 'durationOrNumber':
    case 'quantity':
      return 'string';
    case 'list':
      return `[]${goName(type.of)}`;
    default:
      return type.go;
  }
}

/** The value that Go gives a field of this type before anything is decoded into it. */
export function zeroOf(type: FieldType): Json {
  switch (type.kind) {
    case 'bool':
      return false;
    case 'string':
      return '';
    case 'integer':
    case 'float':
      return 0;
    case 'duration':
    case 'durationOrNumber':
      return '0s';
    case 'quantity':
      return '0';
    case 'list':
      return [];
    case 'map':
      return {};
    default:
      return zeroOfStruct(type);
  }
}

function zeroOfStruct(type: StructType): Json {
  const set = type.fields.filter((field) => field.pointer !== true);
  return Object.fromEntries(set.map((field) => [field.name, zeroOf(field.type)]));
}

/** Whether a value is the zero of its type; nothing is zero, too. */
export function isZero(type: FieldType, value: Json | undefined): boolean {
  if (value === undefined || value === null) return true;
  if (Array.isArray(value)) return value.length === 0;
  if (typeof value === 'object') return type.kind === 'map' && Object.keys(value).length === 0;
  return value === zeroOf(type) || value === 0;
}
