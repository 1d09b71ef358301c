/**
 * Loads a configuration file and its drop-ins: a complete configuration, or why the kubelet cannot start with it.
 *
 * Handles the known kinds, strict decoding with its lenient fallback, and relative paths. Invariant: a file replaces
 * the defaults of the command line entirely.
 */
import type { Json } from '../../kernel/json.ts';
import { isObject, type JsonObject } from '../../kernel/xstate.ts';
import { API_VERSION, KIND, type KubeletConfiguration } from '../model/configuration/fields.ts';
import type { ConfigurationSource, DropInListing } from '../model/operations/host.ts';
import { byBytes, logLines, quote } from '../model/values/go-text.ts';
import { directoryOf, joinPath } from '../model/values/paths.ts';
import { mapValues } from '../model/values/tables.ts';
import {
  decodeConfiguration,
  decodeMerged,
  emptyFile,
  type GroupVersionKind,
  printKind,
  readDropInMeta,
  readTypeMeta,
  toVersioned,
} from './fields/decode.ts';
import { applyDefaults, evictionHardOf } from './fields/defaults.ts';
import { decideFeatures, type FeatureSettings } from './fields/feature-gates.ts';

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
    const failure = 'failed to merge global and in-flight KubeletConfiguration while setting defaults';
    return { kind: 'panic', message: `${failure}, error: ${decision.error}`, warnings: decision.warnings };
  }
  const configuration = applyDefaults(sparse, decision.changed);
  return { kind: 'loaded', configuration, warnings: decision.warnings };
}

function gatesOf(value: Json | undefined): FeatureSettings {
  if (!isObject(value)) return {};
  return mapValues(value, (enabled) => enabled === true);
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
