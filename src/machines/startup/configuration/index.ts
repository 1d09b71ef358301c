/**
 * The kubelet's command line and configuration (Kubernetes 1.36) as pure functions.
 *
 * A startup machine calls {@link parseCommandLine}, reads the files that the flags name through the host
 * ({@link ConfigurationSource}, {@link DropInListing}), and calls {@link resolveConfiguration}. Everything is JSON in
 * and JSON out; every refusal is upstream's text. {@link valuesWithOrigin} says where each value came from.
 */

export type { ConfigurationSource, DropInListing } from '../../operations/host.ts';
export { applyDefaults, flagDefaults } from './defaults.ts';
export { mergeDropIns } from './drop-ins.ts';
export { decideFeatures, type FeatureSettings, isEnabled } from './feature-gates.ts';
export { type CommandLine, type GivenFlags, type KubeletFlags, parseCommandLine } from './flags/flags.ts';
export { loadConfiguration } from './load.ts';
export { type OriginatedValue, printOrigin, valuesWithOrigin } from './origins.ts';
export { type ConfigurationFiles, commandFailed, type Resolution, resolveConfiguration } from './resolve.ts';
export type { KubeletConfiguration } from './types.ts';
export { millisecondsOf } from './values/duration.ts';
export { MASKED, toMasked, toVersioned } from './versioned.ts';
