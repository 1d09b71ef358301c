/**
 * Computes the effective configuration from a parsed command line and the files that it names.
 *
 * The order of the steps is upstream's: gates and flags first, then the file, the drop-ins, the flags over both, the
 * gates again, logging, the rules between fields, and finally the settings that upstream reads later.
 * Invariant: pure; the first step that fails ends it, and earlier warnings are still printed.
 */
import type { KubeletConfiguration } from '../model/configuration/fields.ts';
import type { ConfigurationSource, DropInListing } from '../model/operations/host.ts';
import { logLines } from '../model/values/go-text.ts';
import { nodeLabelsError } from '../model/values/labels.ts';
import { flagDefaults } from './fields/defaults.ts';
import { decideFeatures, type FeatureSettings, warningsWithoutEffect } from './fields/feature-gates.ts';
import { applyFlags, featureFlags, type GivenFlags, type KubeletFlags, withServingCertificate } from './flags/flags.ts';
import { type Loaded, loadConfiguration, mergeDropIns } from './load.ts';
import { settingsError } from './validation/settings.ts';
import { validateConfiguration } from './validation/validation.ts';
import { type ConfigurationHost, validateLogging } from './validation/validation-components.ts';

/** Why the process ends: the lines for stderr and the exit status. */
export interface Failure {
  readonly kind: 'failed';
  readonly exit: 1 | 2;
  readonly lines: readonly string[];
  /** The reason without log formatting. */
  readonly error: string;
}

interface Resolved {
  readonly kind: 'resolved';
  readonly configuration: KubeletConfiguration;
  /** No certificate is configured or requested: the kubelet creates one. */
  readonly ownsCertificate: boolean;
  /** Feature gates that differ from their default; query with `isEnabled`. */
  readonly gates: FeatureSettings;
}

export type Resolution = (Resolved | Failure) & {
  /** klog lines, in order, that come before the result. */
  readonly warnings: readonly string[];
};

export interface ConfigurationFiles {
  /** The file named by `--config`; null without that flag. */
  readonly file: ConfigurationSource | null;
  /** The drop-ins in `--config-dir`; null without that flag. */
  readonly dropIns: DropInListing | null;
}

interface Step {
  readonly configuration: KubeletConfiguration;
  readonly warnings: readonly string[];
}

/** A failure, with the warnings that are printed before it. */
type EarlyFailure = Failure & Pick<Step, 'warnings'>;

const PANIC_STATUS = 2;
const INITIAL_GATES = 'failed to set feature gates from initial flags-based config';

/** A failure of the command: exit status 1, one log line. */
export function commandFailed(error: string): Failure {
  return { kind: 'failed', exit: 1, lines: logLines('command failed', error), error };
}

function panicked(message: string): Failure {
  return { kind: 'failed', exit: PANIC_STATUS, lines: [`panic: ${message}`], error: message };
}

/** The checks before any file is read: gates, then node labels. */
function checkFlags(
  flags: KubeletFlags,
  given: GivenFlags,
): (Failure | { readonly kind: 'checked' }) & { readonly warnings: readonly string[] } {
  const { error, warnings } = decideFeatures(featureFlags(given));
  if (error !== null) return { ...commandFailed(`${INITIAL_GATES}: ${error}`), warnings };
  const labels = nodeLabelsError(flags.nodeLabels);
  return labels === null
    ? { kind: 'checked', warnings }
    : { ...commandFailed(`failed to validate kubelet flags: ${labels}`), warnings };
}

export function resolveConfiguration(
  flags: KubeletFlags,
  given: GivenFlags,
  files: ConfigurationFiles,
  host: ConfigurationHost,
): Resolution {
  const checked = checkFlags(flags, given);
  if (checked.kind === 'failed') return checked;
  const read = readFiles(flags, given, files);
  if ('kind' in read) return { ...read, warnings: withoutRepeats([...checked.warnings, ...read.warnings]) };
  const settled = settle(read.configuration, flags, host);
  const idle = settled.kind === 'resolved' ? warningsWithoutEffect(settled.gates) : [];
  return { ...settled, warnings: [...withoutRepeats([...checked.warnings, ...read.warnings]), ...idle] };
}

function readFiles(flags: KubeletFlags, given: GivenFlags, { file, dropIns }: ConfigurationFiles): Step | EarlyFailure {
  const flagGates = featureFlags(given);
  const initial = applyFlags(flagDefaults(decideFeatures(flagGates).changed), given);
  const loaded = file === null ? null : loadConfiguration(flags.config, file, flagGates);
  if (loaded !== null && loaded.kind !== 'loaded') return failureOf(loaded);
  const base: Step = loaded ?? { configuration: initial, warnings: [] };
  const merged = dropIns === null ? null : mergeDropIns(base.configuration, flags.configDir, dropIns, flagGates);
  if (merged !== null && merged.kind !== 'loaded') return failureOf(merged);
  const last: Step = merged ?? base;
  const configuration = file === null && dropIns === null ? initial : applyFlags(last.configuration, given);
  return { configuration, warnings: [...base.warnings, ...(merged?.warnings ?? [])] };
}

function failureOf(refused: Exclude<Loaded, { kind: 'loaded' }>): EarlyFailure {
  return refused.kind === 'panic'
    ? { ...panicked(refused.message), warnings: refused.warnings }
    : { ...commandFailed(refused.error), warnings: [] };
}

function settle(configuration: KubeletConfiguration, flags: KubeletFlags, host: ConfigurationHost): Resolved | Failure {
  const { changed: gates, error: gateError } = decideFeatures(configuration.featureGates);
  if (gateError !== null) return commandFailed(`${INITIAL_GATES}: ${gateError}`);
  const logging = validateLogging(configuration.logging, gates);
  if (logging !== null) return commandFailed(`initialize logging: ${logging}`);
  const invalid = validateConfiguration(configuration, gates, host);
  if (invalid !== null) {
    const path = '&TypeMeta{Kind:,APIVersion:,}';
    return commandFailed(`failed to validate kubelet configuration, error: ${invalid}, path: ${path}`);
  }
  const unusable = settingsError(configuration, flags, host);
  if (unusable !== null) {
    const failure = commandFailed(unusable.error);
    return { ...failure, lines: [...unusable.before, ...failure.lines] };
  }
  const effective = withServingCertificate(configuration, flags);
  return { kind: 'resolved', configuration: effective, ownsCertificate: effective !== configuration, gates };
}

/** Several steps give the same gate warning, which is printed once. */
function withoutRepeats(lines: readonly string[]): string[] {
  return lines.filter((line, index) => line.startsWith('\t') || lines.indexOf(line) === index);
}

/**
 * One log entry in upstream's stderr lines: klog writes one header per entry, and an error of several lines stays in
 * its entry (`err=<`, indented lines, ` >`).
 */
interface LogEntry {
  /** The first line, for lists of entries. */
  readonly text: string;
  /** The whole entry as upstream formats it. */
  readonly klog: string;
}

/** Groups lines into entries. */
export function logEntries(lines: readonly string[]): LogEntry[] {
  const entries: string[][] = [];
  for (const line of lines) {
    const last = entries.at(-1);
    if (last && (line.startsWith('\t') || line === ' >')) last.push(line);
    else entries.push([line]);
  }
  return entries.map((entry) => ({ text: entry[0] ?? '', klog: entry.join('\n') }));
}
