/**
 * Parses a command line (pflag's spelling rules, typed values, deprecation notes, errors), and applies the given flags
 * to a configuration once its files are read: flags override every file.
 *
 * Invariants: parsing never throws and never ends early without an error; `_` and `-` are equal in a name; the result
 * lists the given flags, because they override every configuration file.
 */
import type { Json } from '../../../kernel/json.ts';
import { isObject, type JsonObject } from '../../../kernel/xstate.ts';
import type { StringMap } from '../../model/configuration/field-types.ts';
import { asConfiguration, type KubeletConfiguration } from '../../model/configuration/fields.ts';
import { parseBool, quote } from '../../model/values/go-text.ts';
import { joinPath } from '../../model/values/paths.ts';
import { mapValues } from '../../model/values/tables.ts';
import { type FeatureSettings, mergeFeatureSettings } from '../fields/feature-gates.ts';
import { FLAGS, hintFor } from './flag-table.ts';
import { FLAG_READERS, type FlagKind, type FlagSpec } from './flag-values.ts';
import { helpText } from './help.ts';

/** Settings of one node that no configuration file has. */
export type KubeletFlags = {
  readonly config: string;
  readonly configDir: string;
  readonly kubeconfig: string;
  readonly bootstrapKubeconfig: string;
  readonly hostnameOverride: string;
  readonly nodeIP: string;
  readonly nodeLabels: StringMap;
  readonly certDir: string;
  readonly rootDir: string;
  readonly cloudProvider: string;
  readonly lockFile: string;
  readonly exitOnLockContention: boolean;
  readonly seccompDefault: boolean;
  readonly runtimeCgroups: string;
  readonly imageCredentialProviderConfig: string;
  readonly imageCredentialProviderBinDir: string;
  readonly minimumContainerTTLDuration: string;
  readonly maximumDeadContainersPerContainer: number;
  readonly maximumDeadContainers: number;
  readonly experimentalMounterPath: string;
  readonly experimentalAllocatableIgnoreEviction: boolean;
  readonly housekeepingInterval: string;
  readonly maxHousekeepingInterval: string;
  readonly globalHousekeepingInterval: string;
};

export type GivenFlags = Readonly<Record<string, Json>>;

export type CommandLine =
  | {
      readonly kind: 'run';
      readonly flags: KubeletFlags;
      readonly given: GivenFlags;
      /** Deprecation notes, in the order of the flags. */
      readonly notes: readonly string[];
    }
  | { readonly kind: 'help' | 'version'; readonly text: string; readonly notes: readonly string[] }
  | {
      readonly kind: 'error';
      readonly error: string;
      /** The replacement of a removed flag. */
      readonly hint: string | null;
      readonly notes: readonly string[];
    };

/** What `--version` reports. */
export interface VersionText {
  /** `v1.36.2` */
  readonly version: string;
  /** The whole line of `--version=raw`. */
  readonly raw: string;
}

interface Reading {
  readonly given: Map<string, Json>;
  readonly notes: string[];
  readonly positional: string[];
  /** Flags given with an empty value: upstream no longer has a variable for their next values. */
  readonly lost: Set<string>;
  help: boolean | null;
  version: 'no' | 'yes' | 'raw';
}

interface Refusal {
  readonly error: string;
  readonly hint: string | null;
}

/** With an empty value, upstream drops the variable of a flag of these kinds: the previous value stays. */
const SETS_NOTHING_WHEN_EMPTY: readonly FlagKind[] = ['ip', 'reservedMemory'];

const BY_NAME = new Map(FLAGS.map((flag) => [flag.name, flag]));
const HELP: FlagSpec = { name: 'help', kind: 'bool', shorthand: 'h', usage: '' };
const VERSION: FlagSpec = { name: 'version', kind: 'string', usage: '' };
const BY_SHORTHAND = new Map([
  ['h', HELP],
  ...FLAGS.flatMap((flag) => (flag.shorthand === undefined ? [] : [[flag.shorthand, flag] as const])),
]);

export function parseCommandLine(argv: readonly string[], versionText: VersionText): CommandLine {
  const reading: Reading = { given: new Map(), notes: [], positional: [], lost: new Set(), help: null, version: 'no' };
  const { notes } = reading;
  const refusal = readArguments([...argv], reading, versionText);
  if (refusal !== null) {
    return { kind: 'error', error: `failed to parse kubelet flag: ${refusal.error}`, hint: refusal.hint, notes };
  }
  const [command] = reading.positional;
  if (command !== undefined) return { kind: 'error', error: `unknown command ${command}`, hint: null, notes };
  if (reading.help !== null) return { kind: 'help', text: reading.help ? helpText() : '', notes };
  if (reading.version === 'yes') return { kind: 'version', text: `Kubernetes ${versionText.version}`, notes };
  if (reading.version === 'raw') return { kind: 'version', text: versionText.raw, notes };
  const given = Object.fromEntries(reading.given);
  return { kind: 'run', flags: kubeletFlags(given), given, notes };
}

function readArguments(rest: string[], reading: Reading, versionText: VersionText): Refusal | null {
  while (rest.length > 0) {
    const argument = rest.shift() ?? '';
    if (argument === '--') {
      reading.positional.push(...rest);
      return null;
    }
    if (argument === '' || argument === '-' || !argument.startsWith('-')) {
      reading.positional.push(argument);
      continue;
    }
    const refusal = argument.startsWith('--')
      ? readLong(argument, rest, reading, versionText)
      : readShort(argument.slice(1), rest, reading, versionText);
    if (refusal !== null) return refusal;
  }
  return null;
}

function readLong(argument: string, rest: string[], reading: Reading, versionText: VersionText): Refusal | null {
  const body = argument.slice(2);
  if (/^[-=]/.test(body)) return { error: `bad flag syntax: ${argument}`, hint: null };
  const at = body.indexOf('=');
  const name = at < 0 ? body : body.slice(0, at);
  const flag = flagNamed(name.replaceAll('_', '-'));
  if (flag === undefined) return { error: `unknown flag: --${name}`, hint: hintFor(name) };
  const value = at >= 0 ? body.slice(at + 1) : (valueWithoutArgument(flag) ?? rest.shift());
  if (value === undefined) return { error: `flag needs an argument: ${argument}`, hint: null };
  return set(flag, value, reading, versionText);
}

/** `-v 4`, `-v4`, `-v=4`, `-hv 4`: letters up to the first that takes a value. */
function readShort(letters: string, rest: string[], reading: Reading, versionText: VersionText): Refusal | null {
  let remaining = letters;
  while (remaining !== '') {
    const [letter = ''] = remaining;
    const flag = BY_SHORTHAND.get(letter);
    const quoted = quoteCharacter(firstByte(letter));
    if (flag === undefined) return { error: `unknown shorthand flag: ${quoted} in -${remaining}`, hint: null };
    const tail = remaining.slice(letter.length);
    const implied = valueWithoutArgument(flag);
    if (implied !== undefined && !(tail.length > 1 && tail.startsWith('='))) {
      const refusal = set(flag, implied, reading, versionText);
      if (refusal !== null) return refusal;
      remaining = tail;
      continue;
    }
    const value = tail.length > 1 && tail.startsWith('=') ? tail.slice(1) : tail === '' ? rest.shift() : tail;
    if (value === undefined) return { error: `flag needs an argument: ${quoted} in -${remaining}`, hint: null };
    return set(flag, value, reading, versionText);
  }
  return null;
}

/** Upstream reads bytes: for a letter beyond ASCII its error names the first byte. */
const firstByte = (letter: string): string => String.fromCharCode(new TextEncoder().encode(letter)[0] ?? 0);

function quoteCharacter(character: string): string {
  return character === "'" ? "'\\''" : `'${quote(character).slice(1, -1).replace('\\"', '"')}'`;
}

function flagNamed(name: string): FlagSpec | undefined {
  if (name === 'help') return HELP;
  return name === 'version' ? VERSION : BY_NAME.get(name);
}

/** The value of a flag that may stand alone, such as a switch. */
function valueWithoutArgument(flag: FlagSpec): string | undefined {
  return flag === VERSION || flag.kind === 'bool' || flag.kind === 'standardBool' ? 'true' : undefined;
}

function set(flag: FlagSpec, text: string, reading: Reading, versionText: VersionText): Refusal | null {
  const error = store(flag, text, reading, versionText);
  if (error !== null) {
    const name = flag.shorthand === undefined ? `--${flag.name}` : `-${flag.shorthand}, --${flag.name}`;
    return { error: `invalid argument ${quote(text)} for ${quote(name)} flag: ${error}`, hint: null };
  }
  if (flag.deprecated !== undefined) {
    reading.notes.push(`Flag --${flag.name} has been deprecated, ${flag.deprecated}`);
  }
  return null;
}

function store(flag: FlagSpec, text: string, reading: Reading, versionText: VersionText): string | null {
  if (flag === VERSION) return storeVersion(text, reading, versionText);
  if (text === '' && SETS_NOTHING_WHEN_EMPTY.includes(flag.kind)) {
    reading.lost.add(flag.name);
    return null;
  }
  if (flag.kind === 'reservedMemory' && reading.lost.has(flag.name)) {
    return 'no target (nil pointer to *[]MemoryReservation)';
  }
  const parsed = FLAG_READERS[flag.kind](text, reading.given.get(flag.name));
  if (parsed.error !== undefined) return parsed.error;
  if (flag === HELP) reading.help = parsed.value === true;
  else reading.given.set(flag.name, parsed.value);
  return null;
}

function storeVersion(text: string, reading: Reading, { version }: VersionText): string | null {
  if (text === 'raw') {
    reading.version = 'raw';
    return null;
  }
  if (text.startsWith('v')) {
    return versionError(text, version);
  }
  const parsed = parseBool(text);
  if (parsed.error !== undefined) return parsed.error;
  reading.version = parsed.value ? 'yes' : 'no';
  return null;
}

function kubeletFlags(given: GivenFlags): KubeletFlags {
  const entries = FLAGS.flatMap(({ name, property, default: fallback = null }) =>
    property === undefined ? [] : [[property, given[name] ?? fallback] as const],
  );
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the only assertion from the table to the type
  return Object.fromEntries(entries) as JsonObject as KubeletFlags;
}

const NUMBERS = /^v([0-9]+(?:\.[0-9]+)*)/;
/** The suffixes for pre-release and build metadata. */
const EXTRA = /^(?:-([0-9a-z-]+(?:\.[0-9a-z-]+)*))?(?:\+[0-9a-z-]+(?:\.[0-9a-z-]+)*)?\s*$/i;

/**
 * Whether a version is compatible with this build, with the errors of Kubernetes' own parser.
 *
 * Null for the version of this build, or another pre-release or build of it.
 */
export function versionError(text: string, version: string): string | null {
  if (text === version) return null;
  const [start = '', numbers] = NUMBERS.exec(text) ?? [];
  const extra = text.slice(start.length);
  if (numbers === undefined) return `could not parse ${quote(text)} as version`;
  const components = numbers.split('.');
  if (components.length !== 3) return `illegal version string ${quote(text)}`;
  const found = EXTRA.exec(extra);
  const zero = [...components, ...(found?.[1]?.split('.') ?? [])].find((component) => /^0[0-9]+$/.test(component));
  if (zero !== undefined) return `illegal zero-prefixed version component ${quote(zero)} in ${quote(text)}`;
  if (found === null) return `could not parse pre-release/metadata (${extra}) in version ${quote(text)}`;
  if (NUMBERS.exec(version)?.[1] === numbers) return null;
  return `version ${quote(text)} must match major/minor/patch of default version ${quote(version)}`;
}

/** Upstream's one exception: `splitStream` of the log options is a flag with a default, so no file can set it. */
const FIXED_FIELDS = ['logging.options.text.splitStream', 'logging.options.json.splitStream'];

/** A flag that was not given changes only `FIXED_FIELDS`. */
export function applyFlags(configuration: KubeletConfiguration, given: GivenFlags): KubeletConfiguration {
  let result: JsonObject = configuration;
  for (const path of FIXED_FIELDS) result = setAt(result, path.split('.'), false);
  for (const { name, field } of FLAGS) {
    const value = name === 'vmodule' ? withModules(result, given[name]) : given[name];
    if (value !== undefined && field !== undefined && field !== 'featureGates') {
      result = setAt(result, field.split('.'), value);
    }
  }
  const featureGates = mergeFeatureSettings(configuration.featureGates, featureFlags(given));
  return { ...asConfiguration(result), featureGates };
}

/** `--vmodule` adds to the configured value; every other flag replaces it. */
function withModules(configuration: JsonObject, value: Json | undefined): Json | undefined {
  const { vmodule } = asConfiguration(configuration).logging;
  return Array.isArray(value) ? [...vmodule, ...value] : value;
}

function setAt(target: JsonObject, [key = '', ...rest]: readonly string[], value: Json): JsonObject {
  if (rest.length === 0) return { ...target, [key]: value };
  const inner = target[key];
  return { ...target, [key]: setAt(isObject(inner) ? inner : {}, rest, value) };
}

export function featureFlags(given: GivenFlags): FeatureSettings {
  const value = given['feature-gates'];
  return isObject(value) ? mapValues(value, (on) => on === true) : {};
}

/** Configures the self-signed certificate, if none is configured and none is requested. */
export function withServingCertificate(
  configuration: KubeletConfiguration,
  { certDir }: KubeletFlags,
): KubeletConfiguration {
  const { serverTLSBootstrap, tlsCertFile, tlsPrivateKeyFile } = configuration;
  if (serverTLSBootstrap || tlsCertFile !== '' || tlsPrivateKeyFile !== '') return configuration;
  return {
    ...configuration,
    tlsCertFile: joinPath(certDir, 'kubelet.crt'),
    tlsPrivateKeyFile: joinPath(certDir, 'kubelet.key'),
  };
}
