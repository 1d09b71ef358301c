/**
 * Derives settings from feature gates: present only if a gate differs from its default, so that no other module reads
 * gates. Pure.
 */

import type { Gates } from '../../configuration/fields/feature-gates.ts';
import type {
  AdmissionSettings,
  IgnoredField,
  NodeSettings,
  UndeclaredFeature,
} from '../../model/settings/node-settings.ts';

/**
 * First back-off of a crash loop with the gate ReduceDefaultCrashLoopBackOffDecay, and its maximum if none is
 * configured.
 */
const REDUCED_INITIAL_MS = 1_000;
const REDUCED_MAX_MS = 60_000;

type FeatureSettings = Pick<
  NodeSettings,
  | 'unseenFields'
  | 'staticPodReferences'
  | 'crashLoopBackOffInitialMs'
  | 'hidesReadyToStart'
  | 'reportsDeviceHealth'
  | 'hasStopSignals'
  | 'countsByProject'
  | 'ignoresExtendedClaims'
  | 'hidesHealthMessages'
  | 'undeclared'
>;

export function featureSettings(isOn: Gates): FeatureSettings {
  const lacks = featureAdmission(isOn).lacks ?? [];
  const unseen = IGNORED_FIELDS.filter(([gate, field]) => !isOn(gate) && !lacks.some((each) => each === field)).map(
    ([, field]) => field,
  );
  const undeclared = isOn('NodeDeclaredFeatures') ? NEEDED_BY_CHANGES.filter((gate) => !isOn(gate)) : [];
  return {
    ...(undeclared.length === 0 ? {} : { undeclared }),
    reportsDeviceHealth: isOn('ResourceHealthStatus'),
    hasStopSignals: isOn('ContainerStopSignals'),
    ...(isOn('LocalStorageCapacityIsolationFSQuotaMonitoring') ? { countsByProject: true } : {}),
    ...(isOn('DRAExtendedResource') ? {} : { ignoresExtendedClaims: true }),
    ...(isOn('ResourceHealthStatusMessage') ? {} : { hidesHealthMessages: true }),
    ...(unseen.length === 0 ? {} : { unseenFields: unseen }),
    ...(isOn('ReduceDefaultCrashLoopBackOffDecay') ? { crashLoopBackOffInitialMs: REDUCED_INITIAL_MS } : {}),
    ...(isOn('PreventStaticPodAPIReferences') ? {} : { staticPodReferences: 'any' }),
    ...(isOn('PodReadyToStartContainersCondition') ? {} : { hidesReadyToStart: true }),
  };
}

/** Fields of pods that are ignored while their gate is off; other such fields cause a rejection of the pod. */
const IGNORED_FIELDS: readonly (readonly [gate: string, field: IgnoredField])[] = [
  ['ContainerRestartRules', 'restartRules'],
  ['RestartAllContainersOnContainerExits', 'restartAll'],
  ['HostnameOverride', 'hostnameOverride'],
  ['EnvFiles', 'fileKeyRef'],
];

/** The longest crash-loop back-off of a node without a configured one: with KubeletCrashLoopBackOffMax off. */
export const longestBackoffMs = (isOn: Gates, defaultMs: number): number =>
  isOn('ReduceDefaultCrashLoopBackOffDecay') ? REDUCED_MAX_MS : defaultMs;

/** Features that a node declares (KEP-5328): pods that need another one are not admitted. */
const DECLARABLE = [
  'ExtendWebSocketsToKubelet',
  'InPlacePodLevelResourcesVerticalScaling',
  'InPlacePodVerticalScalingInitContainers',
  'RestartAllContainersOnContainerExits',
];

const NEEDED_BY_CHANGES = [
  'InPlacePodLevelResourcesVerticalScaling',
  'InPlacePodVerticalScalingInitContainers',
] as const satisfies readonly UndeclaredFeature[];

/** Sorted; empty if the gate NodeDeclaredFeatures is off. */
export const declaredFeatures = (isOn: Gates): readonly string[] =>
  isOn('NodeDeclaredFeatures') ? DECLARABLE.filter(isOn) : [];

/** Features that pods of this node may not use. */
export const featureAdmission = (isOn: Gates): Pick<AdmissionSettings, 'lacks' | 'ignoresNeeds'> => {
  const lacks = [
    ...(isOn('PodLevelResources') ? [] : (['podLevelResources'] as const)),
    ...(isOn('NodeDeclaredFeatures') && !isOn('RestartAllContainersOnContainerExits') ? (['restartAll'] as const) : []),
  ];
  return {
    ...(lacks.length === 0 ? {} : { lacks }),
    ...(isOn('NodeDeclaredFeatures') ? {} : { ignoresNeeds: true }),
  };
};
