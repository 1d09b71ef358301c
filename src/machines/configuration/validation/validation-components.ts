/** Validates the settings of logging, tracing and metrics, with errors in the form of `field.Error`. */
import type { KubeletConfiguration, LoggingConfiguration } from '../../model/configuration/fields.ts';
import { parseImage } from '../../model/spec/image.ts';
import { aggregate, quote } from '../../model/values/go-text.ts';
import { nanosecondsOf } from '../../model/values/time.ts';
import { type FeatureSettings, isEnabled } from '../fields/feature-gates.ts';

/** Only this release's hidden metrics may be shown again. */
const PREVIOUS_MINOR = '1.35';
const LARGEST_SAMPLING_RATE = 1_000_000;
const LARGEST_VERBOSITY = 2 ** 31 - 1;
const LOG_FORMATS = ['text', 'json'];
const ENDPOINT_SCHEMES = ['dns', 'unix', 'unix-abstract'];
const NAMING = 'https://github.com/grpc/grpc/blob/master/doc/naming.md';

/** Why logging cannot be set up, or null. Checked first, because the other errors may have to be logged. */
export function validateLogging(logging: LoggingConfiguration, gates: FeatureSettings): string | null {
  const flush = logging.flushFrequency;
  const errors = [
    ...formatErrors(logging.format, gates),
    ...((typeof flush === 'number' ? flush <= 0 : nanosecondsOf(flush) <= 0n)
      ? [`logging.flushFrequency: Invalid value: ${quote(String(flush))}: Must be greater than zero`]
      : []),
    ...verbosityErrors('logging.verbosity', logging.verbosity),
    ...vmoduleErrors(logging),
    ...routingErrors('logging.options.text', logging.options.text, gates),
    ...routingErrors('logging.options.json', logging.options.json, gates),
  ];
  return errors.length === 0 ? null : aggregate(errors);
}

function formatErrors(format: string, gates: FeatureSettings): string[] {
  if (!LOG_FORMATS.includes(format)) {
    return [`logging.format: Invalid value: ${quote(format)}: Unsupported log format`];
  }
  if (format === 'text' || isEnabled(gates, 'LoggingBetaOptions')) return [];
  return [`logging.format: Forbidden: Log format ${format} is disabled, see LoggingBetaOptions feature`];
}

function verbosityErrors(path: string, verbosity: number): string[] {
  return verbosity > LARGEST_VERBOSITY ? [`${path}: Invalid value: ${verbosity}: Must be <= ${LARGEST_VERBOSITY}`] : [];
}

function vmoduleErrors({ vmodule, format }: LoggingConfiguration): string[] {
  const wrongFormat = vmodule.length > 0 && format !== 'text';
  const items = vmodule.flatMap(({ filePattern, verbosity }, index) => {
    const path = `logging.vmodule[${index}]`;
    return [
      ...(filePattern === '' ? [`${path}: Required value: File pattern must not be empty`] : []),
      ...(/[=,]/.test(filePattern)
        ? [`${path}: Invalid value: ${quote(filePattern)}: File pattern must not contain equal sign or comma`]
        : []),
      ...verbosityErrors(path, verbosity),
    ];
  });
  return wrongFormat ? ['logging.vmodule: Forbidden: Only supported for text log format', ...items] : items;
}

function routingErrors(
  path: string,
  options: LoggingConfiguration['options']['text'],
  gates: FeatureSettings,
): string[] {
  if (isEnabled(gates, 'LoggingAlphaOptions')) return [];
  const forbidden = (name: string): string => `${path}.${name}: Forbidden: Feature LoggingAlphaOptions is disabled`;
  return [
    ...(options.splitStream ? [forbidden('splitStream')] : []),
    ...(options.infoBufferSize === '0' ? [] : [forbidden('infoBufferSize')]),
  ];
}

export function tracingErrors(tracing: KubeletConfiguration['tracing']): string[] {
  if (tracing === undefined) return [];
  const { samplingRatePerMillion: rate, endpoint } = tracing;
  const path = 'tracing.samplingRatePerMillion: Invalid value';
  return [
    ...(rate !== undefined && rate < 0 ? [`${path}: ${rate}: sampling rate must be positive`] : []),
    ...(rate !== undefined && rate > LARGEST_SAMPLING_RATE
      ? [`${path}: ${rate}: sampling rate per million must be less than or equal to one million`]
      : []),
    ...(endpoint === undefined ? [] : endpointErrors(endpoint)),
  ];
}

/** An endpoint without a scheme is a host name. */
function endpointErrors(endpoint: string): string[] {
  const url = endpoint.includes('//') ? endpoint : `dns://${endpoint}`;
  const invalid = `tracing.endpoint: Invalid value: ${quote(url)}`;
  const unreadable = urlError(url);
  if (unreadable !== null) return [`${invalid}: parse ${quote(url)}: ${unreadable}`];
  const scheme = /^([a-zA-Z][a-zA-Z0-9+.-]*):/.exec(url)?.[1]?.toLowerCase() ?? '';
  if (ENDPOINT_SCHEMES.includes(scheme)) return [];
  const options = `Options are none, dns, unix, or unix-abstract.  See ${NAMING}`;
  return [`${invalid}: unsupported scheme: ${scheme}.  ${options}`];
}

/** Go's `url.Parse` error for a URL, or null. */
function urlError(url: string): string | null {
  if (/[^\P{Cc}\u0080-\u009f]/u.test(url)) return 'net/url: invalid control character in URL';
  if (url.startsWith(':')) return 'missing protocol scheme';
  if (/^[^a-zA-Z/?#][^/?#]*:/.test(url)) return 'first path segment in URL cannot contain colon';
  const host = /^[^/?#]*\/\/(?:[^/?#@]*@)?([^/?#]*)/.exec(url)?.[1] ?? '';
  if (host.startsWith('[') && !host.includes(']')) return "missing ']' in host";
  const port = /^(?:\[[^\]]*\]|[^:]*)(:.*)$/.exec(host)?.[1] ?? '';
  const last = port.slice(port.lastIndexOf(':'));
  if (!/^(?::[0-9]*)?$/.test(last)) return `invalid port ${quote(last)} after host`;
  const escape = /%(?![0-9a-fA-F]{2}).{0,2}/.exec(url)?.[0];
  if (escape !== undefined) return `invalid URL escape ${quote(escape)}`;
  const bad = /[ `{}|\\^]/.exec(host)?.[0];
  return bad === undefined ? null : `invalid character ${quote(bad)} in host name`;
}

export function showHiddenMetricsErrors(version: string): string[] {
  if (version === '' || version === PREVIOUS_MINOR) return [];
  const path = `showHiddenMetricsForVersion: Invalid value: ${quote(version)}`;
  const rule = `must be omitted or have the value '${PREVIOUS_MINOR}'; only the previous minor version is allowed`;
  return [`invalid showHiddenMetricsForVersion: ${path}: ${rule}`];
}

/** Shared by all rules of the configuration: their input, and the form of their errors. */
export interface ConfigurationHost {
  readonly cgroupVersion: 1 | 2;
}

/** A rule returns its errors, without the prefix that upstream adds to each. */
export type Rule = (
  configuration: KubeletConfiguration,
  gates: FeatureSettings,
  host: ConfigurationHost,
) => readonly (string | false | undefined)[];

const PULL_POLICIES = ['NeverVerify', 'NeverVerifyPreloadedImages', 'NeverVerifyAllowlistedImages', 'AlwaysVerify'];

export const pullCredentialErrors: Rule = (config, gates) => {
  const policy = config.imagePullCredentialsVerificationPolicy;
  const patterns = config.preloadedImagesVerificationAllowlist;
  if (!isEnabled(gates, 'KubeletEnsureSecretPulledImages')) {
    const gate = 'must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled';
    return [
      policy !== '' && `\`imagePullCredentialsVerificationPolicy\` ${gate}`,
      patterns.length > 0 && `\`preloadedImagesVerificationAllowlist\` ${gate}`,
    ];
  }
  return [
    !PULL_POLICIES.includes(policy) &&
      `option ${quote(policy)} specified for imagePullCredentialsVerificationPolicy. Valid options are ` +
        '"NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages" or "AlwaysVerify"',
    allowlistError(policy, patterns),
  ];
};

function allowlistError(policy: string, patterns: readonly string[]): string | false {
  if (patterns.length > 0 && policy !== 'NeverVerifyAllowlistedImages') {
    return (
      "can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` is not " +
      '"NeverVerifyAllowlistedImages"'
    );
  }
  const wrong = patterns.map(patternError).find((error) => error !== null);
  return wrong !== undefined && `invalid image pattern in \`preloadedImagesVerificationAllowlist\`: ${wrong}`;
}

/** A pattern is the name of a repository, or a path prefix that ends in a star. */
function patternError(pattern: string): string | null {
  if (pattern !== pattern.trim()) return `leading/trailing spaces are not allowed: ${pattern}`;
  const isWildcard = pattern.endsWith('/*');
  const name = isWildcard ? pattern.slice(0, -1) : pattern;
  if (name === '') return `the supplied pattern is too short: ${pattern}`;
  if (name.includes('*')) {
    return `not a valid wildcard pattern, only patterns ending with '/*' are allowed: ${pattern}`;
  }
  if (isWildcard) return name === '/' ? 'at least registry hostname is required' : null;
  const parsed = parseImage(name);
  if ('error' in parsed) return `failed to parse as an image name: ${parsed.error}`;
  return parsed.name === name ? null : `neither tag nor digest is accepted in an image reference: ${pattern}`;
}
