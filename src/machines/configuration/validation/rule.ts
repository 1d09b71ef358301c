/** What the rules of the configuration have in common: what they read, and how they refuse. */

import type { KubeletConfiguration } from '../../model/configuration/types.ts';
import type { FeatureSettings } from '../fields/feature-gates.ts';

export interface ConfigurationHost {
  readonly cgroupVersion: 1 | 2;
}

/** Answers with its refusals, without the words before each. */
export type Rule = (
  configuration: KubeletConfiguration,
  gates: FeatureSettings,
  host: ConfigurationHost,
) => readonly (string | false | undefined)[];
