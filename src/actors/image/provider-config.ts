/**
 * `CredentialProviderConfig`: the plugins, their images, and how they are run.
 *
 * Validates the configuration, with upstream's errors. Invariant: the environment of a plugin (which may contain
 * secrets) never leaves this process.
 */
import { readdir, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { toPlainError } from '../../kernel/json.ts';
import { decodeAs, readTypeMeta } from '../../machines/configuration/fields/decode.ts';
import {
  bool,
  duration,
  listOf,
  named,
  plain,
  pointer,
  string,
  strings,
  struct,
} from '../../machines/model/configuration/field-types.ts';
import {
  checked,
  duplicate,
  type FieldError,
  forbidden,
  invalid,
  isQualifiedName,
  notSupported,
  required,
} from '../../machines/model/validation/field.ts';
import { aggregate, quote } from '../../machines/model/values/go-text.ts';
import { nanosecondsOf } from '../../machines/model/values/time.ts';
import { readConfiguration } from '../host/configuration/configuration.ts';
import { parseRegistryUrl } from './keyring.ts';

export interface Provider {
  readonly name: string;
  readonly apiVersion: string;
  readonly matchImages: readonly string[];
  /** As printed by Go. */
  readonly defaultCacheDuration: string;
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly tokenAttributes?: TokenAttributes;
}

export interface TokenAttributes {
  readonly serviceAccountTokenAudience?: string;
  readonly cacheType?: string;
  readonly requireServiceAccount?: boolean;
  readonly requiredServiceAccountAnnotationKeys?: readonly string[];
  readonly optionalServiceAccountAnnotationKeys?: readonly string[];
}

const GROUP = 'kubelet.config.k8s.io';
const KIND = 'CredentialProviderConfig';
const VERSIONS = ['v1', 'v1alpha1', 'v1beta1'];
const PLUGIN_VERSION = 'credentialprovider.kubelet.k8s.io/v1';
const PLUGIN_VERSIONS = [PLUGIN_VERSION, `${PLUGIN_VERSION}alpha1`, `${PLUGIN_VERSION}beta1`];
const TOKEN_CACHE_TYPES = ['ServiceAccount', 'Token'];
const EXTENSIONS = ['.json', '.yaml', '.yml'];

const providerType = struct('v1.CredentialProvider', [
  plain('name', string),
  plain('matchImages', strings),
  pointer('defaultCacheDuration', duration),
  plain('apiVersion', string),
  plain('args', strings),
  plain('env', listOf(struct('v1.ExecEnvVar', [plain('name', string), plain('value', string)]))),
  pointer(
    'tokenAttributes',
    struct('v1.ServiceAccountTokenAttributes', [
      plain('serviceAccountTokenAudience', string),
      plain('cacheType', named('v1.ServiceAccountTokenCacheType')),
      pointer('requireServiceAccount', bool),
      plain('requiredServiceAccountAnnotationKeys', strings),
      plain('optionalServiceAccountAnnotationKeys', strings),
    ]),
  ),
]);
const configType = struct('v1.CredentialProviderConfig', [plain('providers', listOf(providerType))]);

/**
 * All providers of a file, or of the files of a folder in the order of their names. `tokens`: they may use tokens of
 * service accounts. Throws upstream's text.
 */
export async function readProviders(path: string, tokens: boolean): Promise<readonly Provider[]> {
  const documents = await Promise.all((await filesOf(path)).map(readDocument));
  const providers = documents.flat();
  const names = providers.map(({ name = '' }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new Error(`duplicate provider name ${quote(twice)} found in configuration file(s)`);
  const errors = validateProviders(providers, tokens);
  if (errors.length > 0) throw new Error(`failed to validate credential provider config: ${aggregate(errors)}`);
  return providers.map(completed);
}

async function filesOf(path: string): Promise<readonly string[]> {
  if (path === '') throw new Error('credential provider config path is empty');
  const found = await stat(path).catch((error: unknown) => {
    throw new Error(`unable to access path ${quote(path)}: ${statError(path, error)}`, { cause: error });
  });
  if (!found.isDirectory()) return [path];
  const entries = await readdir(path, { withFileTypes: true });
  const names = entries.filter((each) => !each.isDirectory() && EXTENSIONS.includes(extname(each.name)));
  if (names.length === 0) throw new Error(`no configuration files found in directory ${quote(path)}`);
  return names.map(({ name }) => join(path, name)).sort();
}

function statError(path: string, error: unknown): string {
  const { code, message } = toPlainError(error);
  return code === 'ENOENT' ? `stat ${path}: no such file or directory` : message;
}

type PartialProvider = Partial<Provider>;

async function readDocument(path: string): Promise<readonly PartialProvider[]> {
  const source = await readConfiguration(path);
  const refuse = (reason: string) => new Error(`error decoding config ${quote(path)}: ${reason}`);
  if (source.kind === 'unreadable') throw new Error(`unable to read file ${quote(path)}: ${source.message}`);
  if (source.kind === 'malformed') throw refuse(source.message);
  if (source.kind === 'empty') throw refuse("Object 'Kind' is missing in ''");
  const typed = readTypeMeta(source.text, source.value);
  if (typed.error !== undefined) throw refuse(typed.error);
  const { apiVersion, kind } = typed.meta;
  if (kind !== KIND || !VERSIONS.includes(apiVersion.slice(GROUP.length + 1)) || !apiVersion.startsWith(`${GROUP}/`)) {
    const scheme = 'in scheme "pkg/runtime/scheme.go:111"';
    throw refuse(`no kind ${quote(kind)} is registered for version ${quote(apiVersion)} ${scheme}`);
  }
  const decoded = decodeAs(configType, typed.body);
  if (decoded.error !== undefined) throw refuse(decoded.error);
  const strict = [...source.duplicates, ...decoded.unknownFields];
  if (strict.length > 0) throw refuse(`strict decoding error: ${strict.join(', ')}`);
  return decoded.value.providers ?? [];
}

const completed = (provider: PartialProvider): Provider => ({
  name: '',
  apiVersion: '',
  matchImages: [],
  defaultCacheDuration: '0s',
  args: [],
  env: [],
  ...provider,
});

function validateProviders(providers: readonly PartialProvider[], tokens: boolean): FieldError[] {
  if (providers.length === 0) return [required('providers', 'at least 1 item in plugins is required')];
  return providers.flatMap((provider) => [
    ...validateName(provider.name ?? ''),
    ...validateVersion(provider.apiVersion ?? ''),
    ...validateMatches(provider.matchImages ?? []),
    ...validateCacheDuration(provider.defaultCacheDuration),
    ...(provider.tokenAttributes && !tokens ? [forbidden(TOKEN_PATH, GATE_OFF)] : []),
    ...(provider.tokenAttributes && tokens ? validateToken(provider.tokenAttributes, provider.apiVersion ?? '') : []),
  ]);
}

function validateName(name: string): FieldError[] {
  const problems = [
    name.includes('/') && "provider name cannot contain '/'",
    name.includes(' ') && 'provider name cannot contain spaces',
    name === '.' && "provider name cannot be '.'",
    name === '..' && "provider name cannot be '..'",
  ];
  return problems.flatMap((problem) => (problem === false ? [] : [invalid('providers.name', name, problem)]));
}

function validateVersion(apiVersion: string): FieldError[] {
  if (apiVersion === '') return [required('providers.apiVersion')];
  return PLUGIN_VERSIONS.includes(apiVersion)
    ? []
    : [notSupported('providers.apiVersion', apiVersion, PLUGIN_VERSIONS)];
}

function validateMatches(matchImages: readonly string[]): FieldError[] {
  const path = 'providers.matchImages';
  if (matchImages.length === 0) return [required(path, 'at least 1 item in matchImages is required')];
  return matchImages.flatMap((pattern) => {
    const { error } = parseRegistryUrl(pattern);
    return error === undefined ? [] : [invalid(path, pattern, `match image is invalid: ${error}`)];
  });
}

function validateCacheDuration(text: string | undefined): FieldError[] {
  const path = 'providers.defaultCacheDuration';
  if (text === undefined) return [required(path)];
  return nanosecondsOf(text) < 0n ? [invalid(path, text, 'must be greater than or equal to 0')] : [];
}

const TOKEN_PATH = 'providers.tokenAttributes';
const GATE_OFF =
  'tokenAttributes is not supported when KubeletServiceAccountTokenForCredentialProviders feature gate is disabled';

function validateToken(attributes: TokenAttributes, apiVersion: string): FieldError[] {
  const path = TOKEN_PATH;
  const { requireServiceAccount, cacheType = '' } = attributes;
  const needed = attributes.requiredServiceAccountAnnotationKeys ?? [];
  const optional = attributes.optionalServiceAccountAnnotationKeys ?? [];
  const both = [...new Set(needed.filter((key) => optional.includes(key)))].sort();
  const types = TOKEN_CACHE_TYPES.join(', ');
  const missing = `cacheType is required to be set when tokenAttributes is specified. Supported values are: ${types}`;
  return [
    ...(attributes.serviceAccountTokenAudience ? [] : [required(`${path}.serviceAccountTokenAudience`)]),
    ...(requireServiceAccount === undefined ? [required(`${path}.requireServiceAccount`)] : []),
    ...(apiVersion === PLUGIN_VERSION
      ? []
      : [forbidden(path, `tokenAttributes is only supported for ${PLUGIN_VERSION} API version`)]),
    ...(requireServiceAccount === false && needed.length > 0
      ? [
          forbidden(
            `${path}.requiredServiceAccountAnnotationKeys`,
            'requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set',
          ),
        ]
      : []),
    ...validateKeys(`${path}.requiredServiceAccountAnnotationKeys`, needed),
    ...validateKeys(`${path}.optionalServiceAccountAnnotationKeys`, optional),
    ...(both.length > 0 ? [invalid(path, both, 'annotation keys cannot be both required and optional')] : []),
    ...(cacheType === '' ? [required(`${path}.cacheType`, missing)] : []),
    ...(cacheType === '' || TOKEN_CACHE_TYPES.includes(cacheType)
      ? []
      : [notSupported(`${path}.cacheType`, cacheType, TOKEN_CACHE_TYPES)]),
  ];
}

const validateKeys = (path: string, keys: readonly string[]): FieldError[] =>
  keys.flatMap((key, at) => [
    ...checked(path, key.toLowerCase(), isQualifiedName),
    ...(keys.indexOf(key) === at ? [] : [duplicate(path, key)]),
  ]);
