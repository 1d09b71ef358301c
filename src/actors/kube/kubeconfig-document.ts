/**
 * Decodes the file of a kubeconfig, with the errors of client-go. Fields that it does not know are left out.
 *
 * Upstream: k8s.io/client-go/tools/clientcmd/api/v1, tools/clientcmd (LoadFromFile).
 */
import { accessSync, readFileSync } from 'node:fs';
import { isObject, type Json, type JsonObject, OperationError, toPlainError } from '../../kernel/json.ts';
import { decodeAs, interpretTypeMeta } from '../../machines/configuration/fields/decode.ts';
import {
  bool,
  listOf,
  mapOf,
  named,
  plain,
  pointer,
  type SparseOf,
  string,
  stringMap,
  strings,
  struct,
} from '../../machines/model/configuration/field-types.ts';
import { quote } from '../../machines/model/values/go-text.ts';
import { decodeYaml } from '../host/configuration/configuration.ts';

const base64 = named('[]uint8');

const clusterType = struct('v1.Cluster', [
  plain('server', string),
  plain('tls-server-name', string),
  plain('insecure-skip-tls-verify', bool),
  plain('certificate-authority', string),
  plain('certificate-authority-data', base64),
  plain('proxy-url', string),
]);
const execType = struct('v1.ExecConfig', [
  plain('command', string),
  plain('args', strings),
  plain('env', listOf(struct('v1.ExecEnvVar', [plain('name', string), plain('value', string)]))),
  plain('apiVersion', string),
  plain('provideClusterInfo', bool),
  plain('interactiveMode', named('v1.ExecInteractiveMode')),
]);
const userType = struct('v1.AuthInfo', [
  plain('client-certificate', string),
  plain('client-certificate-data', base64),
  plain('client-key', string),
  plain('client-key-data', base64),
  plain('token', string),
  plain('tokenFile', string),
  plain('as', string),
  plain('as-uid', string),
  plain('as-groups', strings),
  plain('as-user-extra', mapOf(strings, 'map[string][]string')),
  plain('username', string),
  plain('password', string),
  pointer('auth-provider', struct('v1.AuthProviderConfig', [plain('name', string), plain('config', stringMap)])),
  pointer('exec', execType),
]);
const contextType = struct('v1.Context', [plain('cluster', string), plain('user', string), plain('namespace', string)]);
const configType = struct('v1.Config', [
  plain('clusters', listOf(struct('v1.NamedCluster', [plain('name', string), plain('cluster', clusterType)]))),
  plain('users', listOf(struct('v1.NamedAuthInfo', [plain('name', string), plain('user', userType)]))),
  plain('contexts', listOf(struct('v1.NamedContext', [plain('name', string), plain('context', contextType)]))),
  plain('current-context', string),
]);

export type ClusterEntry = SparseOf<typeof clusterType>;
export type UserEntry = SparseOf<typeof userType>;
export type ContextEntry = SparseOf<typeof contextType>;
export type ExecEntry = SparseOf<typeof execType>;

/** Entries by name. */
export interface KubeconfigDocument {
  readonly currentContext: string;
  readonly clusters: ReadonlyMap<string, ClusterEntry>;
  readonly users: ReadonlyMap<string, UserEntry>;
  readonly contexts: ReadonlyMap<string, ContextEntry>;
  /** By the name of a cluster, what it has for an exec plugin. */
  readonly execConfigs: ReadonlyMap<string, Json>;
}

/** Throws an OperationError with client-go's message. */
export function readKubeconfig(path: string): KubeconfigDocument {
  try {
    return documentOf(decodedFile(path));
  } catch (error) {
    if (error instanceof OperationError) throw error;
    throw kubeconfigError(`error loading config file "${path}": ${toPlainError(error).message}`);
  }
}

function decodedFile(path: string): Json {
  let content: string;
  try {
    accessSync(path);
    content = readFileSync(path, 'utf8');
  } catch (error) {
    throw kubeconfigError(`stat ${path}: ${reasonOf(error)}`);
  }
  const decoded = decodeYaml(content);
  if (decoded.error !== undefined) throw new Error(decoded.error);
  return decoded.value;
}

function documentOf(value: Json): KubeconfigDocument {
  const typed = interpretTypeMeta(value);
  if (typed.error !== undefined) throw new Error(typed.error);
  const [kind, version] = [typed.meta.kind || 'Config', typed.meta.apiVersion || 'v1'];
  if (kind !== 'Config' || version !== 'v1') {
    throw new Error(`no kind "${kind}" is registered for version "${version}" in scheme "pkg/runtime/scheme.go:111"`);
  }
  const decoded = decodeAs(configType, typed.body);
  if (decoded.error !== undefined) throw new Error(decoded.error);
  const { clusters = [], users = [], contexts = [], 'current-context': currentContext = '' } = decoded.value;
  for (const { cluster } of clusters) checkBase64(cluster?.['certificate-authority-data']);
  for (const { user } of users) {
    checkBase64(user?.['client-certificate-data']);
    checkBase64(user?.['client-key-data']);
  }
  return {
    currentContext,
    clusters: byName(clusters, 'NamedCluster', 'Cluster', ({ cluster }) => cluster ?? {}),
    users: byName(users, 'NamedAuthInfo', 'AuthInfo', ({ user }) => user ?? {}),
    contexts: byName(contexts, 'NamedContext', 'Context', ({ context }) => context ?? {}),
    execConfigs: execConfigsIn(typed.body),
  };
}

/** Unlike upstream, the error does not show the entries: they have secrets. */
function byName<Named extends { readonly name?: string }, Entry>(
  entries: readonly Named[],
  list: string,
  type: string,
  entryOf: (named: Named) => Entry,
): ReadonlyMap<string, Entry> {
  const known = new Map<string, Entry>();
  for (const entry of entries) {
    const { name = '' } = entry;
    if (known.has(name)) {
      throw new Error(
        `error converting *[]${list} into *map[string]*api.${type}: duplicate name ${quote(name)} in list`,
      );
    }
    known.set(name, entryOf(entry));
  }
  return known;
}

const EXEC_EXTENSION = 'client.authentication.k8s.io/exec';

function execConfigsIn(document: JsonObject): ReadonlyMap<string, Json> {
  const configs = new Map<string, Json>();
  for (const { name, cluster } of objectsIn(document['clusters'])) {
    const extensions = isObject(cluster) ? objectsIn(cluster['extensions']) : [];
    const found = extensions.find((extension) => extension['name'] === EXEC_EXTENSION)?.['extension'];
    if (typeof name === 'string' && found !== undefined) configs.set(name, found);
  }
  return configs;
}

const objectsIn = (value: Json | undefined): JsonObject[] =>
  (Array.isArray(value) ? value : []).filter((each: Json): each is JsonObject => isObject(each));

const QUANTUM = 4;

/** Throws the error of Go's decoder, which ignores line breaks only. */
function checkBase64(text = ''): void {
  const wrong = /[^A-Za-z0-9+/=\r\n]/.exec(text)?.index;
  const plainText = text.replaceAll(/[\r\n]/g, '');
  const padding = /(?!={1,2}$)=/.exec(plainText)?.index;
  const rest = plainText.length % QUANTUM;
  const at = wrong ?? padding ?? (rest === 0 ? undefined : plainText.length - rest);
  if (at !== undefined) throw new Error(`illegal base64 data at input byte ${at}`);
}

const SYSTEM_TEXTS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  EACCES: 'permission denied',
  EISDIR: 'is a directory',
  ENOTDIR: 'not a directory',
};

/** The text of the system for a file that cannot be read. */
export function reasonOf(error: unknown): string {
  const { code = '', message } = toPlainError(error);
  return SYSTEM_TEXTS[code] ?? message;
}

export const kubeconfigError = (message: string): OperationError =>
  new OperationError(message, { name: 'KubeconfigError', code: 'KUBECONFIG' });
