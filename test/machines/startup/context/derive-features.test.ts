/** The effects of feature gates on the node, with each gate on and off. */
import { describe, expect, it } from 'vitest';
import {
  decideFeatures,
  gatesOf,
  warningsWithoutEffect,
} from '../../../../src/machines/configuration/fields/feature-gates.ts';
import {
  declaredFeatures,
  featureAdmission,
  featureSettings,
  longestBackoffMs,
} from '../../../../src/machines/startup/context/derive-features.ts';

const gates = (featureGates: Record<string, boolean> = {}) => gatesOf({ featureGates });

describe('settings', () => {
  it('are those of a kubelet without any gate set', () => {
    expect(featureSettings(gates())).toEqual({ reportsDeviceHealth: true, hasStopSignals: false });
    expect(featureAdmission(gates())).toEqual({});
    expect(longestBackoffMs(gates(), 300_000)).toBe(300_000);
  });

  it.each([
    ['ContainerStopSignals', true, { hasStopSignals: true }],
    ['ResourceHealthStatus', false, { reportsDeviceHealth: false }],
    ['ReduceDefaultCrashLoopBackOffDecay', true, { crashLoopBackOffInitialMs: 1_000 }],
    ['PodReadyToStartContainersCondition', false, { hidesReadyToStart: true }],
    ['PreventStaticPodAPIReferences', false, { staticPodReferences: 'any' }],
    ['HostnameOverride', false, { unseenFields: ['hostnameOverride'] }],
    ['EnvFiles', false, { unseenFields: ['fileKeyRef'] }],
    ['InPlacePodVerticalScalingInitContainers', false, { undeclared: ['InPlacePodVerticalScalingInitContainers'] }],
    ['InPlacePodLevelResourcesVerticalScaling', false, { undeclared: ['InPlacePodLevelResourcesVerticalScaling'] }],
    ['ContainerRestartRules', false, { unseenFields: ['restartRules'] }],
  ])('follow %s=%s', (gate, value, changed) => {
    expect(featureSettings(gates({ [gate]: value }))).toEqual({ ...featureSettings(gates()), ...changed });
  });

  it('come from the groups of gates, too', () => {
    expect(featureSettings(gates({ AllAlpha: true }))).toMatchObject({
      hasStopSignals: true,
      crashLoopBackOffInitialMs: 1_000,
    });
    expect(longestBackoffMs(gates({ AllAlpha: true }), 300_000)).toBe(60_000);
  });
});

describe('pods that need what is off', () => {
  it('are refused where nodes declare features, and do without it where they do not', () => {
    const off = { RestartAllContainersOnContainerExits: false };
    expect(featureAdmission(gates(off))).toEqual({ lacks: ['restartAll'] });
    expect(featureSettings(gates(off)).unseenFields).toBeUndefined();
    const undeclared = { ...off, NodeDeclaredFeatures: false, InPlacePodLevelResourcesVerticalScaling: false };
    expect(featureAdmission(gates(undeclared))).toEqual({ ignoresNeeds: true });
    expect(featureSettings(gates(undeclared)).unseenFields).toEqual(['restartAll']);
    expect(featureAdmission(gates({ PodLevelResources: false }))).toEqual({ lacks: ['podLevelResources'] });
  });

  it('are preceded by the declared features of the node', () => {
    expect(declaredFeatures(gates())).toEqual([
      'ExtendWebSocketsToKubelet',
      'InPlacePodLevelResourcesVerticalScaling',
      'InPlacePodVerticalScalingInitContainers',
      'RestartAllContainersOnContainerExits',
    ]);
    expect(declaredFeatures(gates({ InPlacePodVerticalScalingInitContainers: false }))).toHaveLength(3);
    expect(declaredFeatures(gates({ NodeDeclaredFeatures: false }))).toEqual([]);
  });
});

describe('a gate that changes nothing here', () => {
  const warned = (settings: Record<string, boolean>) => warningsWithoutEffect(decideFeatures(settings).changed);

  it('is named with the reason', () => {
    expect(warned({ PodsAPI: true, EventedPLEG: false })).toEqual([
      '"Warning: this feature gate has no effect here." featureGate="PodsAPI" value=true ' +
        'reason="the pods are served over HTTP only, not over gRPC"',
    ]);
    expect(warned({ PLEGOnDemandRelist: false })[0]).toMatch(/featureGate="PLEGOnDemandRelist" value=false/);
  });

  it('is found in a group of gates, and is silent at its default and where it works', () => {
    expect(warned({ AllAlpha: true, PodsAPI: false }).join('\n')).toMatch(/"CRIListStreaming" value=true/);
    expect(warned({ AllAlpha: true, PodsAPI: false }).join('\n')).not.toMatch(
      /PodsAPI|MemoryQoS|APIServingWithRoutine/,
    );
    expect(warned({ PodsAPI: false, MemoryQoS: true, ContainerRestartRules: false })).toEqual([]);
  });
});
