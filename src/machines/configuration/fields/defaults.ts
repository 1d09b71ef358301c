/**
 * Applies the defaults to the fields that a document leaves unset.
 *
 * There are two sets of defaults: the defaults of a configuration file, and the older defaults of the command line,
 * which apply only without a file. Invariant: the result has every field. After flags have changed fields, applying the
 * defaults again changes only fields that depend on them.
 */
import type { Json } from '../../../kernel/json.ts';
import { isObject, type JsonObject } from '../../../kernel/xstate.ts';
import { type Field, isZero, type StringMap, type StructType, zeroOf } from '../../model/configuration/field-types.ts';
import {
  asConfiguration,
  type KubeletConfiguration,
  kubeletConfigurationType,
} from '../../model/configuration/fields.ts';
import { roundedToMilli } from '../../model/values/quantity.ts';
import { mapValues } from '../../model/values/tables.ts';
import type { SparseConfiguration } from './decode.ts';
import { type FeatureSettings, isEnabled } from './feature-gates.ts';

/** Hard eviction thresholds of Linux if the configuration names none. */
const DEFAULT_EVICTION_HARD: StringMap = {
  'imagefs.available': '15%',
  'imagefs.inodesFree': '5%',
  'memory.available': '100Mi',
  'nodefs.available': '10%',
  'nodefs.inodesFree': '5%',
};

const NO_POD_PIDS_LIMIT = -1;
const LONGEST_RESTART_PERIOD = '5m0s';
const DEFAULT_PULL_POLICY = 'NeverVerifyPreloadedImages';

/** The complete configuration of a document. `gates` are the gates set by the document and the command line. */
export function applyDefaults(sparse: SparseConfiguration, gates: FeatureSettings): KubeletConfiguration {
  const dependent = { ...sparse, ...dependentDefaults(sparse, gates) };
  return asConfiguration(fill(kubeletConfigurationType, dependent));
}

function fill(type: StructType, value: JsonObject): JsonObject {
  return Object.fromEntries(type.fields.flatMap((field) => fillField(field, value[field.name])));
}

function fillField(field: Field, value: Json | undefined): [string, Json][] {
  if (field.type.kind === 'struct') {
    if (field.pointer === true && !isObject(value)) return [];
    return [[field.name, fill(field.type, isObject(value) ? value : {})]];
  }
  if (field.pointer === true) {
    const set = value ?? field.default;
    return set === undefined || set === null ? [] : [[field.name, set]];
  }
  if (value === undefined || isZero(field.type, value)) return [[field.name, field.default ?? zeroOf(field.type)]];
  return [[field.name, fillItems(field, value)]];
}

function fillItems(field: Field, value: Json): Json {
  if (field.type.kind !== 'list' || field.type.of.kind !== 'struct' || !Array.isArray(value)) return value;
  const { of } = field.type;
  return value.map((item: Json) => (isObject(item) ? fill(of, item) : item));
}

function dependentDefaults(sparse: SparseConfiguration, gates: FeatureSettings): JsonObject {
  return {
    ...reportFrequency(sparse),
    ...imagePulls(sparse, gates),
    ...crashLoopBackOff(sparse, gates),
    enforceNodeAllocatable: sparse['enforceNodeAllocatable'] ?? ['pods'],
    podPidsLimit: podPidsLimit(sparse['podPidsLimit']),
    ...reservedMemory(sparse['reservedMemory']),
  };
}

/** An explicit update frequency is also the report frequency. */
function reportFrequency({
  nodeStatusUpdateFrequency: update,
  nodeStatusReportFrequency: report,
}: JsonObject): JsonObject {
  if (update === undefined || update === '0s' || (report !== undefined && report !== '0s')) return {};
  return { nodeStatusReportFrequency: update };
}

function imagePulls(sparse: SparseConfiguration, gates: FeatureSettings): JsonObject {
  const parallel = sparse['maxParallelImagePulls'];
  const serialize = sparse['serializeImagePulls'] ?? !(typeof parallel === 'number' && parallel >= 2);
  const policy = sparse['imagePullCredentialsVerificationPolicy'] ?? '';
  if (policy !== '' || !isEnabled(gates, 'KubeletEnsureSecretPulledImages')) return { serializeImagePulls: serialize };
  return { serializeImagePulls: serialize, imagePullCredentialsVerificationPolicy: DEFAULT_PULL_POLICY };
}

function crashLoopBackOff(sparse: SparseConfiguration, gates: FeatureSettings): JsonObject {
  const set = isObject(sparse['crashLoopBackOff']) ? sparse['crashLoopBackOff'] : {};
  if (!isEnabled(gates, 'KubeletCrashLoopBackOffMax')) return { crashLoopBackOff: set };
  return { crashLoopBackOff: { maxContainerRestartPeriod: LONGEST_RESTART_PERIOD, ...set } };
}

/**
 * The hard eviction thresholds of a configuration file: its own, the defaults if it sets none, or both if it requests
 * the merge. Upstream adds no defaults to thresholds of the command line or of drop-ins.
 */
export function evictionHardOf(sparse: SparseConfiguration): StringMap {
  const set = sparse['evictionHard'];
  if (!isObject(set)) return DEFAULT_EVICTION_HARD;
  const given = mapValues(set, (value) => (typeof value === 'string' ? value : ''));
  return sparse['mergeDefaultEvictionSettings'] === true ? { ...DEFAULT_EVICTION_HARD, ...given } : given;
}

function reservedMemory(value: Json | undefined): JsonObject {
  if (!Array.isArray(value)) return {};
  return { reservedMemory: value.map((item: Json) => (isObject(item) ? withRoundedLimits(item) : item)) };
}

function withRoundedLimits(reservation: JsonObject): JsonObject {
  const { limits } = reservation;
  if (!isObject(limits)) return reservation;
  const rounded = (amount: Json | undefined) => (typeof amount === 'string' ? roundedToMilli(amount) : amount);
  const entries = Object.entries(limits).map(([name, amount]) => [name, rounded(amount)] as const);
  return { ...reservation, limits: Object.fromEntries(entries) };
}

function podPidsLimit(value: Json | undefined): number {
  return typeof value === 'number' && value >= 0 ? value : NO_POD_PIDS_LIMIT;
}

/** The configuration without a file: the defaults, four of them replaced by the older defaults of the command line. */
export function flagDefaults(gates: FeatureSettings): KubeletConfiguration {
  const defaults = applyDefaults({}, gates);
  const { authentication, authorization } = defaults;
  return {
    ...defaults,
    readOnlyPort: 10255,
    authentication: {
      ...authentication,
      anonymous: { enabled: true },
      webhook: { ...authentication.webhook, enabled: false },
    },
    authorization: { ...authorization, mode: 'AlwaysAllow' },
  };
}
