/**
 * Writes an effective configuration as `v1beta1` JSON: for `/configz`, as the base of drop-ins, and for the log.
 *
 * Invariant: zero fields are left out exactly where upstream does.
 */
import type { Json } from '../../../kernel/json.ts';
import { isObject, type JsonObject } from '../../../kernel/xstate.ts';
import { type Field, type FieldType, isZero, type StructType } from '../../model/configuration/field-types.ts';
import {
  API_VERSION,
  KIND,
  type KubeletConfiguration,
  kubeletConfigurationType,
} from '../../model/configuration/fields.ts';
import { parseCpuSet } from '../../model/values/cpu-set.ts';

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
