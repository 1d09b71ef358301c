/** Where each value of a configuration comes from: a flag, a file, or its default. */
import type { Json } from '../../kernel/json.ts';
import { isObject, type JsonObject } from '../../kernel/xstate.ts';
import { type Field, isZero, type StructType } from '../model/configuration/field-types.ts';
import { type KubeletConfiguration, kubeletConfigurationType } from '../model/configuration/fields.ts';
import type { ConfigurationSource } from '../model/operations/host.ts';
import { toMasked } from './fields/versioned.ts';
import { FLAGS } from './flags/flag-table.ts';
import type { GivenFlags } from './flags/flags.ts';
import type { ConfigurationFiles } from './resolve.ts';

export interface OriginatedValue {
  /** `logging.verbosity`, or `evictionHard[memory.available]` for the key of a map. */
  readonly path: string;
  readonly value: Json;
  readonly origin: Origin;
}

type Origin =
  | { readonly kind: 'default' }
  /** The configuration file, or a drop-in. */
  | { readonly kind: 'file' | 'dropIn'; readonly path: string }
  | { readonly kind: 'flag'; readonly flag: string };

interface Layer {
  readonly origin: Origin;
  readonly value: Json | undefined;
  /** Whether a zero counts as set: a flag may set zero, but a zero in a file means unset. */
  readonly zeroCounts: boolean;
}

const DEFAULT: Origin = { kind: 'default' };

/**
 * Every value that is not left out of `/configz`, in its order, with its origin: a flag, a drop-in, the file, or a
 * default.
 *
 * Invariants: the same order of precedence as in `resolve.ts`; a zero in a file, where zero means unset, counts as a
 * default; header values are masked.
 */
export function valuesWithOrigin(
  configuration: KubeletConfiguration,
  given: GivenFlags,
  files: ConfigurationFiles,
): readonly OriginatedValue[] {
  const dropIns = files.dropIns?.kind === 'files' ? files.dropIns.files : [];
  const layers: Layer[] = [
    ...flagLayers(given),
    ...dropIns.toReversed().flatMap((source) => fileLayer(source, 'dropIn')),
    ...(files.file === null ? [] : fileLayer(files.file, 'file')),
  ];
  return structValues(kubeletConfigurationType, toMasked(configuration), layers, '');
}

/** Each given flag, as a document with only its field. */
function flagLayers(given: GivenFlags): Layer[] {
  return FLAGS.flatMap(({ name, field }) => {
    const value = given[name];
    if (field === undefined || value === undefined) return [];
    const document = field.split('.').reduceRight<Json>((inner, key) => ({ [key]: inner }), value);
    return [{ origin: { kind: 'flag', flag: `--${name}` }, value: document, zeroCounts: true }];
  });
}

function fileLayer(source: ConfigurationSource, kind: 'file' | 'dropIn'): Layer[] {
  if (source.kind !== 'document') return [];
  return [{ origin: { kind, path: source.path }, value: source.value, zeroCounts: false }];
}

function inside(layers: readonly Layer[], key: string): Layer[] {
  return layers.flatMap((layer) => {
    if (!isObject(layer.value) || !Object.hasOwn(layer.value, key)) return [];
    return [{ ...layer, value: layer.value[key] }];
  });
}

function structValues(
  type: StructType,
  value: JsonObject,
  layers: readonly Layer[],
  prefix: string,
): OriginatedValue[] {
  return type.fields.flatMap((field) => {
    const item = value[field.name];
    return item === undefined ? [] : fieldValues(field, item, inside(layers, field.name), `${prefix}${field.name}`);
  });
}

function fieldValues(field: Field, value: Json, layers: readonly Layer[], path: string): OriginatedValue[] {
  if (field.type.kind === 'struct' && isObject(value)) return structValues(field.type, value, layers, `${path}.`);
  if (field.type.kind === 'map' && isObject(value)) {
    return Object.entries(value).map(([key, item]) => ({
      path: `${path}[${key}]`,
      value: item ?? null,
      origin: originOf(field, inside(layers, key), true),
    }));
  }
  return [{ path, value, origin: originOf(field, layers, false) }];
}

/** The origin of the first layer that sets the field; `null` removes the value of lower layers. */
function originOf(field: Field, layers: readonly Layer[], isKey: boolean): Origin {
  for (const { origin, value, zeroCounts } of layers) {
    if (value === null || value === undefined) return DEFAULT;
    const isUnset = !isKey && !zeroCounts && field.pointer !== true && isZero(field.type, value);
    if (!isUnset) return origin;
    if (field.default !== undefined) return DEFAULT;
  }
  return DEFAULT;
}

/** One line for people: `default`, `flag --max-pods`, `file /etc/kubelet.yaml`. */
export function printOrigin(origin: Origin): string {
  if (origin.kind === 'default') return 'default';
  if (origin.kind === 'flag') return `flag ${origin.flag}`;
  return `${origin.kind === 'file' ? 'file' : 'drop-in'} ${origin.path}`;
}
