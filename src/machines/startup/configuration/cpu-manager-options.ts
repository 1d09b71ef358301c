/**
 * Decides whether the options of the static policy of the CPU manager can be used.
 *
 * Upstream: cpumanager/policy_options.go.
 */
import { decideFeatures, isEnabled } from './feature-gates.ts';
import { quote } from './go-text.ts';
import type { KubeletConfiguration } from './types.ts';

const FULL_CORES = 'full-pcpus-only';
const STRICT_RESERVATION = 'strict-cpu-reservation';
const ACROSS_NUMA = 'distribute-cpus-across-numa';
const ACROSS_CORES = 'distribute-cpus-across-cores';

const ALPHA = ['align-by-socket', ACROSS_CORES];
const BETA = ['prefer-align-cpus-by-uncorecache'];
const STABLE = [FULL_CORES, ACROSS_NUMA, STRICT_RESERVATION];
const BUILT = [FULL_CORES, STRICT_RESERVATION];
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
  const rival = [FULL_CORES, ACROSS_NUMA].find((name) => isOn(name) && isOn(ACROSS_CORES));
  if (rival === undefined) return '';
  return `static policy options ${rival} and ${ACROSS_CORES} can not be used at the same time`;
}

export const isOptionOn = (options: Readonly<Record<string, string>>, name: string): boolean =>
  TRUE.includes(options[name] ?? 'false');

/** Options that are known, in force, and not built here. */
export const unbuiltCpuOptions = (options: Readonly<Record<string, string>>): readonly string[] =>
  Object.keys(options).filter((name) => isOptionOn(options, name) && !BUILT.includes(name));

const notEnabled = (level: string, name: string): string =>
  `CPU Manager Policy ${level}-level Options not enabled, but option ${quote(name)} provided`;
