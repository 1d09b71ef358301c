/**
 * The kubelet's command line and configuration (Kubernetes 1.36) as pure functions.
 *
 * A startup machine calls {@link parseCommandLine}, reads the files that the flags name through the host ({@link
 * ConfigurationSource}, {@link DropInListing}), and calls {@link resolveConfiguration}. Inputs and outputs are JSON;
 * every error has upstream's text. {@link valuesWithOrigin} returns the origin of each value.
 */

export type { KubeletConfiguration } from '../model/configuration/fields.ts';
export type { ConfigurationSource, DropInListing } from '../model/operations/host.ts';
export { millisecondsOf } from '../model/values/time.ts';
export { applyDefaults, flagDefaults } from './fields/defaults.ts';
export { decideFeatures, type FeatureSettings, isEnabled } from './fields/feature-gates.ts';
export { MASKED, toMasked, toServed, toVersioned } from './fields/versioned.ts';
export { type CommandLine, type GivenFlags, type KubeletFlags, parseCommandLine } from './flags/flags.ts';
export { loadConfiguration, mergeDropIns } from './load.ts';
export {
  type ConfigurationFiles,
  commandFailed,
  logEntries,
  type OriginatedValue,
  printOrigin,
  type Resolution,
  resolveConfiguration,
  valuesWithOrigin,
} from './resolve.ts';
