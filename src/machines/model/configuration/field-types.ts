/**
 * The type language that describes the fields of KubeletConfiguration.
 *
 * One description serves decoding, defaulting, printing and the JSON schema, so that they cannot drift apart.
 */
import type { Json } from '../../../kernel/json.ts';

export type StringMap = Readonly<Record<string, string>>;

export type FieldType =
  | { readonly kind: 'bool' }
  | { readonly kind: 'string'; readonly go: string }
  | { readonly kind: 'integer'; readonly go: string; readonly least: bigint; readonly most: bigint }
  | { readonly kind: 'float' }
  | { readonly kind: 'duration' }
  /** The log flush frequency: a duration text, or a number of nanoseconds. */
  | { readonly kind: 'durationOrNumber' }
  | { readonly kind: 'quantity' }
  /** `go`: the named Go type of the list, if it has one. */
  | { readonly kind: 'list'; readonly of: FieldType; readonly go?: string }
  | { readonly kind: 'map'; readonly of: FieldType; readonly go: string }
  | StructType;

export interface StructType<Fields extends readonly Field[] = readonly Field[]> {
  readonly kind: 'struct';
  /** Go's name of the type without its package, which decoding errors print. */
  readonly name: string;
  /** Go's name with its package. */
  readonly go: string;
  readonly fields: Fields;
}

export interface Field<Name extends string = string, Type extends FieldType = FieldType> {
  readonly name: Name;
  readonly type: Type;
  /** The struct is embedded in another: decoding errors include this name in the field's path. */
  readonly embeddedIn?: string;
  /** Unset differs from zero: `null` unsets, and an explicit zero is printed. */
  readonly pointer?: true;
  /** Printed even when it is zero. */
  readonly always?: true;
  /** The default for an unset pointer, or for the zero of a plain field. */
  readonly default?: Json;
}

/** A pointer without a default: a complete value may lack it. */
interface OptionalField<Name extends string, Type extends FieldType> extends Field<Name, Type> {
  readonly pointer: true;
  readonly default?: never;
}

/** The type of a decoded and completed value. */
export type ValueOf<Type extends FieldType> = Type extends { readonly kind: 'bool' }
  ? boolean
  : Type extends { readonly kind: 'integer' | 'float' }
    ? number
    : Type extends { readonly kind: 'durationOrNumber' }
      ? string | number
      : Type extends { readonly kind: 'list'; readonly of: infer Item extends FieldType }
        ? readonly ValueOf<Item>[]
        : Type extends { readonly kind: 'map'; readonly of: infer Item extends FieldType }
          ? Readonly<Record<string, ValueOf<Item>>>
          : Type extends StructType<infer Fields>
            ? StructValue<Fields[number]>
            : string;

type Optional<Each> = Each extends { readonly pointer: true; readonly default?: never } ? Each : never;
type StructValue<Each extends Field> = {
  readonly [One in Exclude<Each, Optional<Each>> as One['name']]: ValueOf<One['type']>;
} & { readonly [One in Optional<Each> as One['name']]?: ValueOf<One['type']> };

/** The type of a document before defaulting. */
export type SparseOf<Type extends StructType> = {
  readonly [One in Type['fields'][number] as One['name']]?: One['type'] extends StructType
    ? SparseOf<One['type']>
    : ValueOf<One['type']>;
};

export const bool = { kind: 'bool' } as const;
export const string = { kind: 'string', go: 'string' } as const;
export const int32 = { kind: 'integer', go: 'int32', least: -(2n ** 31n), most: 2n ** 31n - 1n } as const;
export const int64 = { kind: 'integer', go: 'int64', least: -(2n ** 63n), most: 2n ** 63n - 1n } as const;
export const float64 = { kind: 'float' } as const;
export const duration = { kind: 'duration' } as const;
export const durationOrNumber = { kind: 'durationOrNumber' } as const;
export const quantity = { kind: 'quantity' } as const;
export const verbosity = { kind: 'integer', go: 'v1.VerbosityLevel', least: 0n, most: 2n ** 32n - 1n } as const;

export const named = (go: string) => ({ kind: 'string', go }) as const;
export const listOf = <Item extends FieldType>(of: Item) => ({ kind: 'list', of }) as const;
export const mapOf = <Item extends FieldType>(of: Item, go: string) => ({ kind: 'map', of, go }) as const;
export const strings = listOf(string);
export const stringMap = mapOf(string, 'map[string]string');

export function struct<const Fields extends readonly Field[]>(go: string, fields: Fields): StructType<Fields> {
  return { kind: 'struct', go, name: go.slice(go.indexOf('.') + 1), fields };
}

/** A plain field: its zero means unset, and is replaced by the default if there is one. */
export function plain<Name extends string, Type extends FieldType>(
  name: Name,
  type: Type,
  fallback?: Json,
): Field<Name, Type> {
  return fallback === undefined ? { name, type } : { name, type, default: fallback };
}

/** A pointer field: unset and zero differ. */
export function pointer<Name extends string, Type extends FieldType>(name: Name, type: Type): OptionalField<Name, Type>;
export function pointer<Name extends string, Type extends FieldType>(
  name: Name,
  type: Type,
  fallback: Json,
): Field<Name, Type>;
export function pointer(name: string, type: FieldType, fallback?: Json): Field {
  return { ...plain(name, type, fallback), pointer: true };
}

/** A field that is printed whatever its value. */
export function always<Name extends string, Type extends FieldType>(name: Name, type: Type): Field<Name, Type> {
  return { ...plain(name, type), always: true };
}

/** The name of the type in a decoding error. */
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
      return type.go ?? `[]${goName(type.of)}`;
    default:
      return type.go;
  }
}

/** Go's zero value of a field of this type. */
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

/** Whether a value is the zero of its type; an absent value counts as zero. */
export function isZero(type: FieldType, value: Json | undefined): boolean {
  if (value === undefined || value === null) return true;
  if (Array.isArray(value)) return value.length === 0;
  if (typeof value === 'object') return type.kind === 'map' && Object.keys(value).length === 0;
  return value === zeroOf(type) || value === 0;
}
