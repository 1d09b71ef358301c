/**
 * The kubelet's command line and configuration (Kubernetes 1.36) as pure functions.
 *
 * A startup machine calls {@link parseCommandLine}, reads the files that the flags name through the host
 * ({@link ConfigurationSource}, {@link DropInListing}), and calls {@link resolveConfiguration}. Everything is JSON in
 * and JSON out; every refusal is upstream's text.
 */

export { applyFlags, withServingCertificate } from './apply-flags.ts';
export { formatCpuSet, parseCpuSet } from './cpu-set.ts';
export { applyDefaults, DEFAULT_EVICTION_HARD, flagDefaults } from './defaults.ts';
export { mergeDropIns } from './drop-ins.ts';
export { formatDuration, millisecondsOf, nanosecondsOf, parseDuration } from './duration.ts';
export { type EvictionThreshold, parseEvictionThresholds } from './eviction-thresholds.ts';
export { decideFeatures, type FeatureDecision, type FeatureSettings, isEnabled } from './feature-gates.ts';
export { type CommandLine, type GivenFlags, type KubeletFlags, parseCommandLine, type VersionText } from './flags.ts';
export { loadConfiguration } from './load.ts';
export { type Origin, type OriginatedValue, printOrigin, valuesWithOrigin } from './origins.ts';
export { formatQuantity, milliUnitsOf, parseQuantity, type Quantity, unitsOf } from './quantity.ts';
export { parseQosReserved, parseReservedResources } from './reserved-resources.ts';
export {
  type ConfigurationFiles,
  checkFlags,
  commandFailed,
  type Failure,
  type Resolution,
  type Resolved,
  resolveConfiguration,
} from './resolve.ts';
export type { ConfigurationSource, DropInListing } from './source.ts';
export type * from './types.ts';
export { type ConfigurationHost, validateConfiguration } from './validation.ts';
export { validateLogging } from './validation-components.ts';
export { toMasked, toVersioned } from './versioned.ts';
