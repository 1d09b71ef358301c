/**
 * Decides whether the options of the static policy of the CPU manager can be used.
 *
 * Upstream: cpumanager/policy_options.go.
 */

import type { KubeletConfiguration } from '../../model/configuration/types.ts';
import { byBytes, quote } from '../../model/values/go-text.ts';
import { decideFeatures, isEnabled } from '../fields/feature-gates.ts';

const FULL_CORES = 'full-pcpus-only';
const STRICT_RESERVATION = 'strict-cpu-reservation';
const ACROSS_NUMA = 'distribute-cpus-across-numa';
const ACROSS_CORES = 'distribute-cpus-across-cores';

const ALPHA = ['align-by-socket', ACROSS_CORES];
const BY_CACHE = 'prefer-align-cpus-by-uncorecache';
const BETA = [BY_CACHE];
const STABLE = [FULL_CORES, ACROSS_NUMA, STRICT_RESERVATION];
const BUILT = [FULL_CORES, STRICT_RESERVATION];
/** Options that contradict each other, in the order in which upstream looks for them. */
const RIVALS = [
  [FULL_CORES, ACROSS_CORES],
  [ACROSS_NUMA, ACROSS_CORES],
  [BY_CACHE, ACROSS_CORES],
  [BY_CACHE, ACROSS_NUMA],
];
/** As Go reads a boolean. */
const TRUE = ['1', 't', 'T', 'true', 'TRUE', 'True'];
const FALSE = ['0', 'f', 'F', 'false', 'FALSE', 'False'];

/** Upstream's refusal of the options; empty when they can be used. */
export function cpuPolicyOptionsError({
  cpuManagerPolicyOptions: options,
  featureGates,
}: KubeletConfiguration): string {
  const { changed } = decideFeatures(featureGates);
  for (const [name, value] of Object.entries(options)) {
    if (![...ALPHA, ...BETA, ...STABLE].includes(name)) return `unknown CPU Manager Policy option: ${quote(name)}`;
    if (ALPHA.includes(name) && !isEnabled(changed, 'CPUManagerPolicyAlphaOptions')) return notEnabled('Alpha', name);
    if (BETA.includes(name) && !isEnabled(changed, 'CPUManagerPolicyBetaOptions')) return notEnabled('Beta', name);
    if (![...TRUE, ...FALSE].includes(value)) {
      return `bad value for option ${quote(name)}: strconv.ParseBool: parsing ${quote(value)}: invalid syntax`;
    }
  }
  const isOn = (name: string): boolean => isOptionOn(options, name);
  const rivals = RIVALS.find((pair) => pair.every(isOn));
  return rivals === undefined ? '' : `static policy options ${rivals.join(' and ')} can not be used at the same time`;
}

/** The policy `none` takes no options; empty when there are none. */
export function noneOptionsError(options: Readonly<Record<string, string>>): string {
  return Object.keys(options).length === 0 ? '' : `None policy: received unsupported options=${goMap(options)}`;
}

/** As Go prints a map: sorted by key. */
export const goMap = (map: Readonly<Record<string, string>>): string =>
  `map[${Object.entries(map)
    .toSorted(([left], [right]) => byBytes(left, right))
    .map(([key, value]) => `${key}:${value}`)
    .join(' ')}]`;

export const isOptionOn = (options: Readonly<Record<string, string>>, name: string): boolean =>
  TRUE.includes(options[name] ?? 'false');

/** Options that are known, in force, and not built here. */
export const unbuiltCpuOptions = (options: Readonly<Record<string, string>>): readonly string[] =>
  Object.keys(options).filter((name) => isOptionOn(options, name) && !BUILT.includes(name));

const notEnabled = (level: string, name: string): string =>
  `CPU Manager Policy ${level}-level Options not enabled, but option ${quote(name)} provided`;
