/**
 * Owns the gates that a kubelet of 1.36 reads and whose other value changes nothing here, with the reason why.
 *
 * Invariant: each start warns of a gate that is set to that value. Gates of other components, and those of how a
 * Go client works inside, are accepted in silence, as a kubelet does.
 */

import { quote } from '../../model/values/go-text.ts';
import { FEATURE_GATES } from './feature-gate-table.ts';
import { type FeatureSettings, isEnabled } from './feature-gates.ts';

const OBJECTS_ARE_JSON = 'objects are exchanged with the API server as JSON';
const NO_CLAIMS = 'this kubelet does not prepare resource claims';
const NO_RESIZE = 'containers that have CPUs or memory of their own are not resized in place';

const WITHOUT_EFFECT: Readonly<Record<string, string>> = {
  CRIListStreaming: 'the runtime is listed in single calls',
  ChangeContainerStatusOnKubeletRestart: 'a restart of the kubelet never changes the status of containers',
  ClientsAllowCBOR: OBJECTS_ARE_JSON,
  ClientsPreferCBOR: OBJECTS_ARE_JSON,
  DRANodeAllocatableResources: NO_CLAIMS,
  EventedPLEG: 'the events of the runtime are followed at all times',
  GitRepoVolumeDriver: 'gitRepo volumes are refused: clone in an init container into an emptyDir',
  ImageVolumeWithDigest: 'statuses do not tell the digest of an image volume',
  InPlacePodVerticalScalingExclusiveCPUs: NO_RESIZE,
  InPlacePodVerticalScalingExclusiveMemory: NO_RESIZE,
  KubeletSeparateDiskGC: 'a file system of writable layers is always told from that of images',
  NativeHistograms: 'histograms have classic buckets only',
  PLEGOnDemandRelist: 'a pod is looked at as soon as its runtime or its own work has news',
  PodAndContainerStatsFromCRI: 'statistics of pods and containers come from their control groups',
  PodLevelResourceManagers: 'CPUs and memory are given to single containers, not to pods',
  PodsAPI: 'the pods are served over HTTP only, not over gRPC',
  RuntimeClassInImageCriApi: 'images are not told apart by runtime class',
  SELinuxMount: 'volumes are mounted without SELinux options',
  UserNamespacesHostNetworkSupport: 'a pod in the network of the host has the users of the host',
};

/** klog lines, by name of the gate. `changed`: gates that are not at their default. */
export const warningsWithoutEffect = (changed: FeatureSettings): readonly string[] =>
  Object.entries(WITHOUT_EFFECT).flatMap(([name, reason]) => {
    const value = isEnabled(changed, name);
    if (value === FEATURE_GATES[name]?.enabled) return [];
    const text = quote('Warning: this feature gate has no effect here.');
    return [`${text} featureGate=${quote(name)} value=${value} reason=${quote(reason)}`];
  });
