/**
 * Determines which feature gates are on, and validates their settings.
 *
 * Implements `featuregate.SetFromMap`: groups first, overridden by gates by name, locks, dependencies, and warnings for
 * gates that will be removed. Invariant: settings are applied in the order of their names, so that equal maps give
 * equal results.
 */
import type { KubeletConfiguration } from '../../model/configuration/fields.ts';
import { aggregate, byBytes, quote } from '../../model/values/go-text.ts';
import { FEATURE_DEPENDENCIES, FEATURE_GATES, FEATURE_GROUPS } from './feature-gate-table.ts';

/** Gates by name, as set by `--feature-gates` or the field `featureGates`. */
export type FeatureSettings = Readonly<Record<string, boolean>>;

export interface FeatureDecision {
  /** Gates that are not at their default. */
  readonly changed: FeatureSettings;
  /** klog lines about gates that are graduated or deprecated. */
  readonly warnings: readonly string[];
  /** Set if the settings are rejected as a whole. */
  readonly error: string | null;
}

export function decideFeatures(settings: FeatureSettings): FeatureDecision {
  const names = Object.keys(settings).toSorted(byBytes);
  const refused = refusals(names, settings);
  const changed = changes(settings, names);
  const errors = refused.length > 0 ? refused : brokenDependencies(changed);
  return { changed, warnings: names.flatMap((name) => warning(name, settings)), error: joined(errors) };
}

/** The errors of the settings, up to the first unknown gate. */
function refusals(names: readonly string[], settings: FeatureSettings): string[] {
  const refused: string[] = [];
  for (const name of names.filter((each) => !Object.hasOwn(FEATURE_GROUPS, each))) {
    const gate = gateOf(name);
    if (gate === undefined) return [...refused, `unrecognized feature gate: ${name}`];
    if (gate.locked !== true || gate.enabled === settings[name]) continue;
    refused.push(`cannot set feature gate ${name} to ${settings[name]}, feature is locked to ${gate.enabled}`);
  }
  return refused;
}

function changes(settings: FeatureSettings, names: readonly string[]): FeatureSettings {
  const settingsOfGates = new Map<string, boolean>();
  for (const [group, stage] of Object.entries(FEATURE_GROUPS)) {
    const value = settings[group];
    if (value === undefined) continue;
    for (const [name, gate] of Object.entries(FEATURE_GATES))
      if (gate.stage === stage) settingsOfGates.set(name, value);
  }
  for (const name of names) settingsOfGates.set(name, settings[name] === true);
  return Object.fromEntries([...settingsOfGates].filter(([name, value]) => gateOf(name)?.enabled === !value));
}

function brokenDependencies(changed: FeatureSettings): string[] {
  return Object.entries(FEATURE_DEPENDENCIES).flatMap(([name, dependencies]) => {
    if (!isEnabled(changed, name)) return [];
    const disabled = dependencies.filter((dependency) => !isEnabled(changed, dependency));
    if (disabled.length === 0) return [];
    return [`${name} is enabled, but depends on features that are disabled: [${disabled.join(' ')}]`];
  });
}

/** A gate with an invalid setting gets no warning. */
function warning(name: string, settings: FeatureSettings): string[] {
  const { stage, locked, enabled } = gateOf(name) ?? {};
  if (locked === true && enabled !== settings[name]) return [];
  if (stage !== 'ga' && stage !== 'deprecated') return [];
  const stageName = stage === 'ga' ? 'GA' : 'deprecated';
  const text = quote(`Warning: setting ${stageName} feature gate. It will be removed in a future release.`);
  return [`${text} featureGate=${quote(name)} value=${settings[name]}`];
}

function joined(errors: readonly string[]): string | null {
  return errors.length === 0 ? null : aggregate(errors);
}

function gateOf(name: string): (typeof FEATURE_GATES)[string] | undefined {
  return Object.hasOwn(FEATURE_GATES, name) ? FEATURE_GATES[name] : undefined;
}

/** Whether a gate is on, given the gates that differ from their default. An unknown gate is off. */
export function isEnabled(changed: FeatureSettings, name: string): boolean {
  return (Object.hasOwn(changed, name) ? changed[name] : gateOf(name)?.enabled) ?? false;
}

/** Settings of the file; the command line overrides single gates. */
export function mergeFeatureSettings(file: FeatureSettings, flags: FeatureSettings): FeatureSettings {
  const merged = { ...file, ...flags };
  return Object.fromEntries(Object.entries(merged).toSorted(([left], [right]) => byBytes(left, right)));
}

/**
 * The gates of a kubelet 1.36 whose other value has no effect here, with the reason.
 *
 * Invariant: each start warns of a gate set to that value. Gates of other components, and of the internals of a Go
 * client, are accepted silently, as by a kubelet.
 */
const OBJECTS_ARE_JSON = 'objects are exchanged with the API server as JSON';
const NO_RESIZE = 'containers that have CPUs or memory of their own are not resized in place';

const WITHOUT_EFFECT: Readonly<Record<string, string>> = {
  CRIListStreaming: 'the runtime is listed in single calls',
  ChangeContainerStatusOnKubeletRestart: 'a restart of the kubelet never changes the status of containers',
  ClientsAllowCBOR: OBJECTS_ARE_JSON,
  ClientsPreferCBOR: OBJECTS_ARE_JSON,
  EventedPLEG: 'the events of the runtime are followed at all times',
  GitRepoVolumeDriver: 'gitRepo volumes are refused: clone in an init container into an emptyDir',
  ImageVolumeWithDigest: 'statuses do not have the digest of an image volume',
  InPlacePodVerticalScalingExclusiveCPUs: NO_RESIZE,
  InPlacePodVerticalScalingExclusiveMemory: NO_RESIZE,
  KubeletSeparateDiskGC: 'a file system of writable layers is always kept apart from that of images',
  NativeHistograms: 'histograms have classic buckets only',
  PLEGOnDemandRelist: 'a pod is inspected as soon as its runtime or its own work has news',
  PodAndContainerStatsFromCRI: 'statistics of pods and containers come from their control groups',
  PodLevelResourceManagers: 'CPUs and memory are given to single containers, not to pods',
  PodsAPI: 'the pods are served over HTTP only, not over gRPC',
  RuntimeClassInImageCriApi: 'images are the same for every runtime class',
  UserNamespacesHostNetworkSupport: 'a pod in the network of the host has the users of the host',
};

/** klog lines by gate. `changed`: gates that differ from their default. */
export const warningsWithoutEffect = (changed: FeatureSettings): readonly string[] =>
  Object.entries(WITHOUT_EFFECT).flatMap(([name, reason]) => {
    const value = isEnabled(changed, name);
    if (value === FEATURE_GATES[name]?.enabled) return [];
    const text = quote('Warning: this feature gate has no effect here.');
    return [`${text} featureGate=${quote(name)} value=${value} reason=${quote(reason)}`];
  });

/** Whether a gate is on, by its name. */
export type Gates = (name: string) => boolean;

export function gatesOf({ featureGates }: Pick<KubeletConfiguration, 'featureGates'>): Gates {
  const { changed } = decideFeatures(featureGates);
  return (name) => isEnabled(changed, name);
}
