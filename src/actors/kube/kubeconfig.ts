/**
 * Reads and validates a kubeconfig, with client-go's errors.
 *
 * The common credentials (certificates, tokens, passwords) are read here. Exec plugins and auth providers are left to
 * @kubernetes/client-node, which costs half a second and 60 MB to load and is loaded only for them.
 */

import { accessSync, readFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { isObject, type Json, type JsonObject, OperationError, toPlainError } from '../../kernel/json.ts';
import { trimRight } from '../../machines/model/values/go-text.ts';
import { decodeYaml } from '../host/configuration/configuration.ts';

/** PEM in a file or in the kubeconfig itself. */
export type Pem = { readonly file: string } | { readonly data: Buffer };

interface KubeUser {
  readonly name: string;
  readonly certificate: Pem | undefined;
  readonly key: Pem | undefined;
  readonly token: string | undefined;
  readonly tokenFile: string | undefined;
  readonly basic: string | undefined;
  readonly impersonate: string | undefined;
  /** Credentials come from a plugin: exec or auth provider. */
  readonly plugin: boolean;
}

export interface Kubeconfig {
  readonly path: string;
  /** Without a trailing slash. */
  readonly server: string;
  readonly ca: Pem | undefined;
  readonly insecure: boolean;
  readonly tlsServerName: string | undefined;
  readonly proxyUrl: string | undefined;
  readonly user: KubeUser;
}

const NOTHING_PROVIDED = 'no configuration has been provided, try setting KUBERNETES_MASTER environment variable';
const GO_TYPES: Readonly<Record<string, string>> = { boolean: 'bool', number: 'number', object: 'object' };
const SYSTEM_TEXTS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  EACCES: 'permission denied',
  EISDIR: 'is a directory',
};

/**
 * Throws an OperationError with client-go's message. `mayLackCertificate`: the files of the client certificate may not
 * exist yet.
 */
export function loadKubeconfig(path: string, { mayLackCertificate = false } = {}): Kubeconfig {
  const document = readDocument(path);
  const contextName = text(document['current-context']);
  if (contextName === '') throw invalid([NOTHING_PROVIDED]);
  const context = entry(document, 'contexts', contextName, 'context');
  const clusterName = text(context?.['cluster']);
  const cluster = entry(document, 'clusters', clusterName, 'cluster');
  const userName = text(context?.['user']);
  const user = entry(document, 'users', userName, 'user');
  const problems = [
    ...contextProblems(contextName, context, clusterName, userName, user),
    ...(cluster === undefined || Object.keys(cluster).length === 0
      ? [context === undefined ? 'cluster has no server defined' : `cluster "${clusterName}" does not exist`]
      : []),
  ];
  if (context === undefined || cluster === undefined) throw invalid(problems);
  const folder = dirname(path);
  const checked = [
    ...problems,
    ...clusterProblems(cluster, clusterName, folder),
    ...userProblems(user ?? {}, userName, mayLackCertificate ? null : folder),
  ];
  if (checked.length > 0) throw invalid(checked);
  return {
    path,
    server: trimRight(text(cluster['server']), '/'),
    ca: pem(cluster, 'certificate-authority', folder),
    insecure: cluster['insecure-skip-tls-verify'] === true,
    tlsServerName: optional(cluster['tls-server-name']),
    proxyUrl: optional(cluster['proxy-url']),
    user: userOf(user ?? {}, userName, folder),
  };
}

function readDocument(path: string): JsonObject {
  let content: string;
  try {
    accessSync(path);
    content = readFileSync(path, 'utf8');
  } catch (error) {
    throw failure(`stat ${path}: ${reasonOf(error)}`);
  }
  const decoded = decodeYaml(content);
  if (decoded.error !== undefined) throw failure(`error loading config file "${path}": ${decoded.error}`);
  const document = isObject(decoded.value) ? decoded.value : {};
  checkType(path, document);
  return document;
}

function checkType(path: string, document: JsonObject): void {
  const { kind, apiVersion, 'current-context': context } = document;
  if (context !== undefined && context !== null && typeof context !== 'string') {
    const type = GO_TYPES[typeof context] ?? typeof context;
    const why = `json: cannot unmarshal ${type} into Go struct field Config.current-context of type string`;
    throw failure(`error loading config file "${path}": ${why}`);
  }
  const [hasKind, hasVersion] = [text(kind) || 'Config', text(apiVersion) || 'v1'];
  if (hasKind === 'Config' && hasVersion === 'v1') return;
  const why = `no kind "${hasKind}" is registered for version "${hasVersion}" in scheme "pkg/runtime/scheme.go:111"`;
  throw failure(`error loading config file "${path}": ${why}`);
}

function entry(document: JsonObject, list: string, name: string, field: string): JsonObject | undefined {
  const entries: readonly Json[] = Array.isArray(document[list]) ? document[list] : [];
  const found = entries.find((each) => isObject(each) && each['name'] === name);
  if (!isObject(found)) return undefined;
  return isObject(found[field]) ? found[field] : {};
}

function contextProblems(
  contextName: string,
  context: JsonObject | undefined,
  clusterName: string,
  userName: string,
  user: JsonObject | undefined,
): string[] {
  if (context === undefined) return [`context was not found for specified context: ${contextName}`];
  return [
    ...(userName === '' ? [`user was not specified for context "${contextName}"`] : []),
    ...(userName !== '' && user === undefined ? [`user "${userName}" was not found for context "${contextName}"`] : []),
    ...(clusterName === '' ? [`cluster was not specified for context "${contextName}"`] : []),
  ];
}

function clusterProblems(cluster: JsonObject, name: string, folder: string): string[] {
  const file = fileOf(cluster, 'certificate-authority', folder);
  const data = text(cluster['certificate-authority-data']);
  return [
    ...(text(cluster['server']) === '' ? [`no server found for cluster "${name}"`] : []),
    ...(data === '' ? unreadable(file, 'certificate-authority', name) : []),
  ];
}

function userProblems(user: JsonObject, name: string, folder: string | null): string[] {
  const methods = [
    ...(text(user['token']) === '' ? [] : ['token']),
    ...(text(user['username']) === '' && text(user['password']) === '' ? [] : ['basicAuth']),
  ];
  const several = `more than one authentication method found for ${name}; found [${methods.join(' ')}], only one is allowed`;
  return [
    ...(folder === null ? [] : certificateProblems(user, name, folder)),
    ...execProblems(user['exec'], name),
    ...(methods.length > 1 ? [several] : []),
  ];
}

function certificateProblems(user: JsonObject, name: string, folder: string): string[] {
  const has = (field: string) => text(user[field]) !== '' || text(user[`${field}-data`]) !== '';
  if (!has('client-certificate') && !has('client-key')) return [];
  if (!has('client-key')) {
    return [`client-key-data or client-key must be specified for ${name} to use the clientCert authentication method.`];
  }
  const inline = (field: string) => text(user[`${field}-data`]) !== '';
  return [
    ...(inline('client-certificate')
      ? []
      : unreadable(fileOf(user, 'client-certificate', folder), 'client-cert', name)),
    ...(inline('client-key') ? [] : unreadable(fileOf(user, 'client-key', folder), 'client-key', name)),
  ];
}

function execProblems(exec: Json | undefined, name: string): string[] {
  if (!isObject(exec)) return [];
  return [
    ...(text(exec['command']) === ''
      ? [`command must be specified for ${name} to use exec authentication plugin`]
      : []),
    ...(text(exec['apiVersion']) === ''
      ? [`apiVersion must be specified for ${name} to use exec authentication plugin`]
      : []),
  ];
}

function unreadable(file: string | undefined, what: string, name: string): string[] {
  if (file === undefined) return [];
  try {
    readFileSync(file);
    return [];
  } catch (error) {
    return [`unable to read ${what} ${file} for ${name} due to open ${file}: ${reasonOf(error)}`];
  }
}

function userOf(user: JsonObject, name: string, folder: string): KubeUser {
  const [username, password] = [text(user['username']), text(user['password'])];
  return {
    name,
    certificate: pem(user, 'client-certificate', folder),
    key: pem(user, 'client-key', folder),
    token: optional(user['token']),
    tokenFile: fileOf(user, 'tokenFile', folder),
    basic: username === '' ? undefined : Buffer.from(`${username}:${password}`).toString('base64'),
    impersonate: optional(user['as']),
    plugin: isObject(user['exec']) || isObject(user['auth-provider']),
  };
}

function pem(fields: JsonObject, field: string, folder: string): Pem | undefined {
  const data = text(fields[`${field}-data`]);
  if (data !== '') return { data: Buffer.from(data, 'base64') };
  const file = fileOf(fields, field, folder);
  return file === undefined ? undefined : { file };
}

/** Paths in a kubeconfig are relative to it. */
function fileOf(fields: JsonObject, field: string, folder: string): string | undefined {
  const file = text(fields[field]);
  if (file === '') return undefined;
  return isAbsolute(file) ? file : join(folder, file);
}

function invalid(problems: readonly string[]): OperationError {
  const [only, ...others] = problems;
  return failure(`invalid configuration: ${others.length === 0 ? only : `[${problems.join(', ')}]`}`);
}

const failure = (message: string): OperationError =>
  new OperationError(message, { name: 'KubeconfigError', code: 'KUBECONFIG' });

function reasonOf(error: unknown): string {
  const { code = '', message } = toPlainError(error);
  return SYSTEM_TEXTS[code] ?? message;
}

const text = (value: Json | undefined): string => (typeof value === 'string' ? value : '');
const optional = (value: Json | undefined): string | undefined => text(value) || undefined;
