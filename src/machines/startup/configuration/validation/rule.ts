/** What the rules of the configuration have in common: what they read, and how they refuse. */
import type { FeatureSettings } from '../feature-gates.ts';
import type { KubeletConfiguration } from '../types.ts';

export interface ConfigurationHost {
  readonly cgroupVersion: 1 | 2;
}

/** Answers with its refusals, without the words before each. */
export type Rule = (
  configuration: KubeletConfiguration,
  gates: FeatureSettings,
  host: ConfigurationHost,
) => readonly (string | false | undefined)[];
