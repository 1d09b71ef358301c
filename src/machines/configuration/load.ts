/**
 * Loads one configuration file: a complete configuration, or why the kubelet cannot start with it.
 *
 * Handles the known kinds, strict decoding with its lenient fallback, and relative paths. Invariant: a file replaces
 * the defaults of the command line entirely.
 */
import type { Json } from '../../kernel/json.ts';
import { isObject, type JsonObject } from '../../kernel/xstate.ts';
import { type Field, isZero, type StructType } from '../model/configuration/field-types.ts';
import {
  API_VERSION,
  KIND,
  type KubeletConfiguration,
  kubeletConfigurationType,
} from '../model/configuration/fields.ts';
import type { ConfigurationSource, DropInListing } from '../model/operations/host.ts';
import { byBytes, logLines, quote } from '../model/values/go-text.ts';
import { directoryOf, joinPath } from '../model/values/paths.ts';
import { decodeConfiguration, decodeMerged } from './fields/decode.ts';
import { applyDefaults, evictionHardOf } from './fields/defaults.ts';
import { decideFeatures, type FeatureSettings } from './fields/feature-gates.ts';
import { emptyFile, type GroupVersionKind, printKind, readDropInMeta, readTypeMeta } from './fields/source.ts';
import { toMasked, toVersioned } from './fields/versioned.ts';
import { FLAGS } from './flags/flag-table.ts';
import type { GivenFlags } from './flags/flags.ts';
import type { ConfigurationFiles } from './resolve.ts';

export type Loaded =
  | {
      readonly kind: 'loaded';
      readonly configuration: KubeletConfiguration;
      /** klog lines about lenient decoding and about gates that will be removed. */
      readonly warnings: readonly string[];
    }
  | { readonly kind: 'refused'; readonly error: string }
  /** Upstream panics here: defaults cannot be applied while the gates are invalid. */
  | { readonly kind: 'panic'; readonly message: string; readonly warnings: readonly string[] };

const OTHER_KINDS: readonly string[] = [
  'kubelet.config.k8s.io/v1, Kind=CredentialProviderConfig',
  'kubelet.config.k8s.io/v1alpha1, Kind=CredentialProviderConfig',
  'kubelet.config.k8s.io/v1beta1, Kind=CredentialProviderConfig',
  'kubelet.config.k8s.io/v1alpha1, Kind=ImagePullIntent',
  'kubelet.config.k8s.io/v1alpha1, Kind=ImagePulledRecord',
  'kubelet.config.k8s.io/v1beta1, Kind=ImagePullIntent',
  'kubelet.config.k8s.io/v1beta1, Kind=ImagePulledRecord',
  'kubelet.config.k8s.io/v1beta1, Kind=SerializedNodeConfigSource',
];

const LENIENT = 'Using lenient decoding as strict decoding failed';

/** `name` is the path in the flag; `flagGates` are the gates set by the command line. */
export function loadConfiguration(name: string, source: ConfigurationSource, flagGates: FeatureSettings): Loaded {
  const read = readDocument(source);
  if (read.error !== undefined) return refuse(name, read.error);
  const decoded = decodeConfiguration(read.body);
  if (decoded.error !== undefined) return refuse(name, `failed to decode: ${decoded.error}`);
  const strict = [...read.duplicates, ...decoded.unknownFields];
  const lenient = strict.length === 0 ? [] : logLines(LENIENT, `strict decoding error: ${strict.join(', ')}`);
  const completed = completeConfiguration(decoded.value, flagGates);
  if (completed.kind !== 'loaded') return completed;
  const complete = { ...completed.configuration, evictionHard: evictionHardOf(decoded.value) };
  const configuration = resolvePaths(complete, directoryOf(source.path));
  return { kind: 'loaded', configuration, warnings: [...completed.warnings, ...lenient] };
}

function refuse(name: string, reason: string): Loaded {
  const error = `failed to load Kubelet config file ${name}, error ${reason}`;
  return { kind: 'refused', error: `failed to load kubelet config file, path: ${name}, error: ${error}` };
}

type Read =
  | { readonly body: JsonObject; readonly duplicates: readonly string[]; readonly error?: undefined }
  | { readonly error: string };

function readDocument(source: ConfigurationSource): Read {
  if (source.kind === 'unreadable') {
    return { error: `failed to read kubelet config file ${quote(source.path)}, error: ${source.message}` };
  }
  if (source.kind === 'malformed') return { error: `failed to decode: ${source.message}` };
  if (source.kind === 'empty') return { error: emptyFile(source.path) };
  const typed = readTypeMeta(source.text, source.value);
  if (typed.error !== undefined) return { error: `failed to decode: ${typed.error}` };
  const wrong = kindError(typed.meta);
  return wrong === null ? { body: typed.body, duplicates: source.duplicates } : { error: wrong };
}

function kindError(meta: GroupVersionKind): string | null {
  if (meta.kind === KIND && meta.apiVersion === API_VERSION) return null;
  const printed = printKind(meta);
  if (OTHER_KINDS.includes(printed)) {
    return `failed to cast object to KubeletConfiguration, unexpected type: ${printed}`;
  }
  const scheme = 'in scheme "pkg/runtime/scheme.go:111"';
  return `failed to decode: no kind "${meta.kind}" is registered for version "${meta.apiVersion}" ${scheme}`;
}

/** Applies the defaults of a decoded document, under the gates of the command line and its own. */
function completeConfiguration(sparse: JsonObject, flagGates: FeatureSettings): Loaded {
  const decision = decideFeatures({ ...flagGates, ...gatesOf(sparse['featureGates']) });
  if (decision.error !== null) {
    const what = 'failed to merge global and in-flight KubeletConfiguration while setting defaults';
    return { kind: 'panic', message: `${what}, error: ${decision.error}`, warnings: decision.warnings };
  }
  const configuration = applyDefaults(sparse, decision.changed);
  return { kind: 'loaded', configuration, warnings: decision.warnings };
}

function gatesOf(value: Json | undefined): FeatureSettings {
  if (!isObject(value)) return {};
  return Object.fromEntries(Object.entries(value).map(([name, enabled]) => [name, enabled === true]));
}

/** Relative paths in a file are relative to the file. */
function resolvePaths(configuration: KubeletConfiguration, directory: string): KubeletConfiguration {
  const resolve = (path: string): string => (path === '' || path.startsWith('/') ? path : joinPath(directory, path));
  const { authentication } = configuration;
  return {
    ...configuration,
    staticPodPath: resolve(configuration.staticPodPath),
    podLogsDir: resolve(configuration.podLogsDir),
    tlsCertFile: resolve(configuration.tlsCertFile),
    tlsPrivateKeyFile: resolve(configuration.tlsPrivateKeyFile),
    resolvConf: resolve(configuration.resolvConf),
    volumePluginDir: resolve(configuration.volumePluginDir),
    authentication: { ...authentication, x509: { clientCAFile: resolve(authentication.x509.clientCAFile) } },
  };
}

/**
 * Applies the files of `--config-dir`: each is a JSON merge patch on the result so far.
 *
 * Invariants: files apply in the order of their paths; an object is merged key by key, other values are replaced,
 * `null` removes; defaults are applied once, after the last file. Relative paths stay as they are, as upstream leaves
 * them.
 */
export function mergeDropIns(
  base: KubeletConfiguration,
  directory: string,
  listing: DropInListing,
  flagGates: FeatureSettings,
): Loaded {
  const walk = `failed to walk through kubelet dropin directory ${quote(directory)}`;
  if (listing.kind === 'unreadable') return refuseDropIn(`${walk}: ${listing.message}`);
  let merged = toVersioned(base);
  for (const source of listing.files) {
    const patch = readPatch(source);
    if (patch.error !== undefined) return refuseDropIn(`${walk}: ${patch.error}`);
    merged = mergePatch(merged, patch.body);
  }
  const decoded = decodeMerged(sortKeys(merged));
  if (decoded.error !== undefined) {
    return refuseDropIn(`failed to unmarshal merged JSON into kubelet configuration: ${decoded.error}`);
  }
  return completeConfiguration(decoded.value, flagGates);
}

function refuseDropIn(reason: string): Loaded {
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
    else merged.set(key, isObject(merged.get(key)) ? value : withoutNulls(value));
  }
  return Object.fromEntries(merged);
}

/** In a list upstream keeps `null`, but drops `null` fields of an object in the list. */
function withoutNulls(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isObject(value)) return value;
  const set = Object.entries(value).filter(([, item]) => item !== null && item !== undefined);
  return Object.fromEntries(set.map(([key, item]) => [key, withoutNulls(item ?? null)]));
}

function objectAt(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

function sortKeys(value: JsonObject): JsonObject {
  const entries = Object.entries(value).toSorted(([left], [right]) => byBytes(left, right));
  return Object.fromEntries(entries.map(([key, item]) => [key, isObject(item) ? sortKeys(item) : item]));
}

// ---- origins --------------------------------------------------------------------------------------------------------

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
