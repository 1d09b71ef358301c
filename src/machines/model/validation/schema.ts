/**
 * Checks that a decoded document has the types of the API's fields, and drops unknown fields.
 *
 * Decides, as the Go decoder does: an unknown field is dropped, `null` is the same as absent, a value of another type
 * is an error. Invariant: the result has the shape of the schema, so that defaults and validation need not check again.
 * Messages never quote the value: an unquoted number may be a password.
 */

import { isObject } from '../../../kernel/xstate.ts';
import { formatQuantity, parseQuantity, QUANTITY_REFUSAL } from '../values/quantity.ts';
import type { FieldError } from './field.ts';

export type Schema = Shape & {
  /** An absent field has the zero value of its type, like a Go field without a pointer. */
  readonly required?: true;
};

type Shape =
  | { readonly kind: 'string' | 'boolean' | 'int32' | 'int64' | 'intOrString' | 'quantity' | 'time' | 'any' }
  | { readonly kind: 'list' | 'map'; readonly of: Schema }
  | { readonly kind: 'object'; readonly fields: Readonly<Record<string, Schema>> };

export const string: Schema = { kind: 'string' };
export const boolean: Schema = { kind: 'boolean' };
export const int32: Schema = { kind: 'int32' };
export const int64: Schema = { kind: 'int64' };
export const intOrString: Schema = { kind: 'intOrString' };
export const quantity: Schema = { kind: 'quantity' };
/** A time in the form of RFC 3339. */
export const time: Schema = { kind: 'time' };
/** A part of the API that this agent keeps without reading it. */
export const any: Schema = { kind: 'any' };
export const list = (of: Schema): Schema => ({ kind: 'list', of });
export const map = (of: Schema): Schema => ({ kind: 'map', of });
export const object = (fields: Readonly<Record<string, Schema>>): Schema => ({ kind: 'object', fields });

export const needed = (schema: Schema): Schema => ({ ...schema, required: true });

const MAX_INT32 = 2_147_483_647;

/**
 * The value in the shape of the schema. Errors are added to `errors`; the value must not be used then. With
 * `asKubelet`, `null` in a list is the zero value, and spaces around a quantity are ignored; 0.2.0 refused both.
 */
export function conform(
  value: unknown,
  schema: Schema,
  path: string,
  errors: FieldError[],
  asKubelet = false,
): unknown {
  if (value === null || value === undefined) return undefined;
  switch (schema.kind) {
    case 'any':
      return value;
    case 'list':
      return conformList(value, schema.of, path, errors, asKubelet);
    case 'map':
      return conformMap(value, schema.of, path, errors, asKubelet);
    case 'object':
      return conformObject(value, schema.fields, path, errors, asKubelet);
    default:
      return conformScalar(value, schema.kind, path, errors, asKubelet);
  }
}

function conformScalar(
  value: unknown,
  kind: ScalarKind,
  path: string,
  errors: FieldError[],
  asKubelet: boolean,
): unknown {
  if (kind === 'quantity' && (typeof value === 'string' || typeof value === 'number')) {
    const parsed = parseQuantity(asKubelet ? String(value).trim() : String(value));
    if (parsed.error === undefined) return formatQuantity(parsed.value);
  }
  const problem = scalarProblem(value, kind);
  if (problem !== null) errors.push(`${path}: ${problem}`);
  return value;
}

function conformList(value: unknown, of: Schema, path: string, errors: FieldError[], asKubelet: boolean): unknown {
  if (!Array.isArray(value)) return void errors.push(`${path}: must be a list, not ${nameOf(value)}`);
  return value.map((item, at) => {
    if (item === null && !asKubelet) errors.push(`${path}[${at}]: must not be null`);
    const given = item === null && asKubelet ? emptyOf(of) : item;
    return conform(given, of, `${path}[${at}]`, errors, asKubelet);
  });
}

const emptyOf = ({ kind }: Schema): unknown => (kind === 'object' ? {} : zeroOf({ kind, required: true }));

function conformMap(value: unknown, of: Schema, path: string, errors: FieldError[], asKubelet: boolean): unknown {
  if (!isObject(value)) return void errors.push(`${path}: must be a map, not ${nameOf(value)}`);
  const zero = of.kind === 'quantity' ? '0' : '';
  const entries = Object.entries(value).map(([key, item]) => [
    key,
    conform(item, of, `${path}[${key}]`, errors, asKubelet) ?? zero,
  ]);
  return Object.fromEntries(entries);
}

type Fields = Readonly<Record<string, Schema>>;

function conformObject(
  value: unknown,
  fields: Fields,
  path: string,
  errors: FieldError[],
  asKubelet: boolean,
): unknown {
  if (!isObject(value)) return void errors.push(`${path}: must be a map, not ${nameOf(value)}`);
  const entries = Object.entries(fields).flatMap(([name, schema]) => {
    const given = Object.hasOwn(value, name) ? value[name] : undefined;
    const place = path === '' ? name : `${path}.${name}`;
    const item = conform(given ?? absent(schema), schema, place, errors, asKubelet);
    return item === undefined ? [] : [[name, item]];
  });
  return Object.fromEntries(entries);
}

const absent = (schema: Schema): unknown => (schema.kind === 'object' && schema.required ? {} : zeroOf(schema));

function zeroOf({ kind, required }: Pick<Schema, 'kind' | 'required'>): unknown {
  if (!required) return undefined;
  if (kind === 'list') return [];
  return kind === 'string' ? '' : 0;
}

type ScalarKind = Exclude<Schema['kind'], 'list' | 'map' | 'object' | 'any'>;

function scalarProblem(value: unknown, kind: ScalarKind): string | null {
  switch (kind) {
    case 'string':
      return typeof value === 'string' ? null : `must be text, not ${nameOf(value)}; write it in quotes`;
    case 'boolean':
      return typeof value === 'boolean' ? null : `must be true or false, not ${nameOf(value)}`;
    case 'quantity':
      return typeof value === 'object' ? `must be a quantity, not ${nameOf(value)}` : QUANTITY_REFUSAL;
    case 'time':
      return timeProblem(value);
    case 'intOrString':
      return typeof value === 'string' ? null : integerProblem(value, MAX_INT32);
    case 'int32':
      return integerProblem(value, MAX_INT32);
    default:
      return integerProblem(value, Number.MAX_SAFE_INTEGER);
  }
}

const TIME = /^\d{4}-\d\d-\d\d[T]\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)$/;

function timeProblem(value: unknown): string | null {
  if (typeof value !== 'string') return `must be a time, not ${nameOf(value)}`;
  return TIME.test(value) && Number.isFinite(Date.parse(value.replace(',', '.')))
    ? null
    : 'must be a time such as 2006-01-02T15:04:05Z';
}

function integerProblem(value: unknown, limit: number): string | null {
  const range = `must be an integer between ${limit === MAX_INT32 ? -limit - 1 : -limit} and ${limit}`;
  if (typeof value === 'string') return /^-?\d{16,}$/.test(value) ? range : 'must be an integer, not text';
  if (typeof value !== 'number') return `must be an integer, not ${nameOf(value)}`;
  if (!Number.isInteger(value)) return 'must be an integer';
  return Math.abs(value) <= limit || value === -limit - 1 ? null : range;
}

function nameOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  if (typeof value === 'string') return 'text';
  return typeof value === 'boolean' ? 'true or false' : 'a number';
}
