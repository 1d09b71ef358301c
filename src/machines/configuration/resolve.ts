/**
 * Computes the effective configuration from a parsed command line and the files that it names. Also where each value
 * comes from.
 *
 * The order of the steps is upstream's: gates and flags first, then the file, the drop-ins, the flags over both, the
 * gates again, logging, the rules between fields, and finally the settings that upstream reads later. A startup machine
 * calls {@link parseCommandLine}, reads the files that the flags name through the host, and calls {@link
 * resolveConfiguration}.
 * Invariant: pure; the first step that fails ends it, and earlier warnings are still printed.
 */
import type { Json } from '../../kernel/json.ts';
import { isObject, type JsonObject } from '../../kernel/xstate.ts';
import { type Field, isZero, type StructType } from '../model/configuration/field-types.ts';
import { type KubeletConfiguration, kubeletConfigurationType } from '../model/configuration/fields.ts';
import type { ConfigurationSource, DropInListing } from '../model/operations/host.ts';
import { logLines } from '../model/values/go-text.ts';
import { nodeLabelsError } from '../model/values/labels.ts';
import { toMasked } from './fields/decode.ts';
import { flagDefaults } from './fields/defaults.ts';
import { decideFeatures, type FeatureSettings, warningsWithoutEffect } from './fields/feature-gates.ts';
import { FLAGS } from './flags/flag-table.ts';
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

export function logEntries(lines: readonly string[]): LogEntry[] {
  const entries: string[][] = [];
  for (const line of lines) {
    const last = entries.at(-1);
    if (last && (line.startsWith('\t') || line === ' >')) last.push(line);
    else entries.push([line]);
  }
  return entries.map((entry) => ({ text: entry[0] ?? '', klog: entry.join('\n') }));
}

/** Where each value of a configuration comes from: a flag, a file, or its default. */
export interface OriginatedValue {
  /** `logging.verbosity`, or `evictionHard[memory.available]` for the key of a map. */
  readonly path: string;
  readonly value: Json;
  readonly origin: Origin;
}

type Origin =
  | { readonly kind: 'default' }
  /** The configuration file, or a drop-in. */
  | { readonly kind: 'file' | 'dropIn'; readonly path: string }
  | { readonly kind: 'flag'; readonly flag: string };

interface Layer {
  readonly origin: Origin;
  readonly value: Json | undefined;
  /** Whether a zero counts as set: a flag may set zero, but a zero in a file means unset. */
  readonly zeroCounts: boolean;
}

const DEFAULT: Origin = { kind: 'default' };

/**
 * Every value that is not left out of `/configz`, in its order, with its origin: a flag, a drop-in, the file, or a
 * default.
 *
 * Invariants: the same order of precedence as in `resolve.ts`; a zero in a file, where zero means unset, counts as a
 * default; header values are masked.
 */
export function valuesWithOrigin(
  configuration: KubeletConfiguration,
  given: GivenFlags,
  files: ConfigurationFiles,
): readonly OriginatedValue[] {
  const dropIns = files.dropIns?.kind === 'files' ? files.dropIns.files : [];
  const layers: Layer[] = [
    ...flagLayers(given),
    ...dropIns.toReversed().flatMap((source) => fileLayer(source, 'dropIn')),
    ...(files.file === null ? [] : fileLayer(files.file, 'file')),
  ];
  return structValues(kubeletConfigurationType, toMasked(configuration), layers, '');
}

/** Each given flag, as a document with only its field. */
function flagLayers(given: GivenFlags): Layer[] {
  return FLAGS.flatMap(({ name, field }) => {
    const value = given[name];
    if (field === undefined || value === undefined) return [];
    const document = field.split('.').reduceRight<Json>((inner, key) => ({ [key]: inner }), value);
    return [{ origin: { kind: 'flag', flag: `--${name}` }, value: document, zeroCounts: true }];
  });
}

function fileLayer(source: ConfigurationSource, kind: 'file' | 'dropIn'): Layer[] {
  if (source.kind !== 'document') return [];
  return [{ origin: { kind, path: source.path }, value: source.value, zeroCounts: false }];
}

function inside(layers: readonly Layer[], key: string): Layer[] {
  return layers.flatMap((layer) => {
    if (!isObject(layer.value) || !Object.hasOwn(layer.value, key)) return [];
    return [{ ...layer, value: layer.value[key] }];
  });
}

function structValues(
  type: StructType,
  value: JsonObject,
  layers: readonly Layer[],
  prefix: string,
): OriginatedValue[] {
  return type.fields.flatMap((field) => {
    const item = value[field.name];
    return item === undefined ? [] : fieldValues(field, item, inside(layers, field.name), `${prefix}${field.name}`);
  });
}

function fieldValues(field: Field, value: Json, layers: readonly Layer[], path: string): OriginatedValue[] {
  if (field.type.kind === 'struct' && isObject(value)) return structValues(field.type, value, layers, `${path}.`);
  if (field.type.kind === 'map' && isObject(value)) {
    return Object.entries(value).map(([key, item]) => ({
      path: `${path}[${key}]`,
      value: item ?? null,
      origin: originOf(field, inside(layers, key), true),
    }));
  }
  return [{ path, value, origin: originOf(field, layers, false) }];
}

/** The origin of the first layer that sets the field; `null` removes the value of lower layers. */
function originOf(field: Field, layers: readonly Layer[], isKey: boolean): Origin {
  for (const { origin, value, zeroCounts } of layers) {
    if (value === null || value === undefined) return DEFAULT;
    const isUnset = !isKey && !zeroCounts && field.pointer !== true && isZero(field.type, value);
    if (!isUnset) return origin;
    if (field.default !== undefined) return DEFAULT;
  }
  return DEFAULT;
}

/** One line for people: `default`, `flag --max-pods`, `file /etc/kubelet.yaml`. */
export function printOrigin(origin: Origin): string {
  if (origin.kind === 'default') return 'default';
  if (origin.kind === 'flag') return `flag ${origin.flag}`;
  return `${origin.kind === 'file' ? 'file' : 'drop-in'} ${origin.path}`;
}
