/**
 * The cluster and the user of a kubeconfig's current context, validated with client-go's errors.
 *
 * Upstream: k8s.io/client-go/tools/clientcmd (ConfirmUsable, DirectClientConfig.ClientConfig).
 */

import { accessSync, constants, readFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import type { Json } from '../../kernel/json.ts';
import { quote, trimRight } from '../../machines/model/values/go-text.ts';
import {
  type ClusterEntry,
  type ExecEntry,
  type KubeconfigDocument,
  kubeconfigError,
  readKubeconfig,
  reasonOf,
  type UserEntry,
} from './kubeconfig-document.ts';

/** PEM in a file or in the kubeconfig itself. */
export type Pem = { readonly file: string } | { readonly data: Buffer };

/** A program that has the credentials of the user. */
export interface ExecCommand {
  /** A name that is looked for in PATH, or an absolute path. */
  readonly command: string;
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly apiVersion: string;
  readonly interactiveMode: string;
  /** What the program is told about the cluster; absent: nothing. */
  readonly cluster?: Json;
}

/** A user of whom the client acts on behalf. */
export interface Impersonation {
  readonly user: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

interface KubeUser {
  readonly certificate: Pem | undefined;
  readonly key: Pem | undefined;
  readonly token: string | undefined;
  readonly tokenFile: string | undefined;
  readonly basic: string | undefined;
  readonly impersonation: Impersonation | undefined;
  readonly exec: ExecCommand | undefined;
  /** The name of an auth provider, which this client does not have, as the kubelet. */
  readonly authProvider: string | undefined;
}

export interface Kubeconfig {
  /** As in the kubeconfig, without a trailing slash; see `client-checks.ts`. */
  readonly server: string;
  readonly ca: Pem | undefined;
  readonly insecure: boolean;
  readonly tlsServerName: string | undefined;
  readonly proxyUrl: string | undefined;
  readonly user: KubeUser;
}

const NOTHING_PROVIDED = 'no configuration has been provided, try setting KUBERNETES_MASTER environment variable';

/**
 * Throws an OperationError with client-go's message. `mayLackCertificate`: the files of the client certificate may not
 * exist yet. A user that does not exist has no credentials, as in the kubelet.
 */
export function loadKubeconfig(path: string, { mayLackCertificate = false } = {}): Kubeconfig {
  const document = readKubeconfig(path);
  const { clusterName, cluster, user, userName } = currentOf(document);
  const folder = dirname(path);
  const files = filesOf(cluster, user, folder);
  const problems = [
    ...clusterProblems(cluster, clusterName, files),
    ...userProblems(user, userName, mayLackCertificate ? null : files),
  ];
  if (problems.length > 0) throw invalid(problems);
  return {
    server: serverOf(cluster),
    ca: pem(cluster['certificate-authority-data'], files.authority),
    insecure: cluster['insecure-skip-tls-verify'] === true,
    tlsServerName: cluster['tls-server-name'] || undefined,
    proxyUrl: cluster['proxy-url'] || undefined,
    user: userOf(user, files, folder, () => clusterInfo(cluster, files, document.execConfigs.get(clusterName))),
  };
}

function currentOf({ currentContext, contexts, clusters, users }: KubeconfigDocument) {
  if (currentContext === '') throw invalid([NOTHING_PROVIDED]);
  const context = contexts.get(currentContext);
  if (context === undefined) {
    throw invalid([`context was not found for specified context: ${currentContext}`, 'cluster has no server defined']);
  }
  const { cluster: clusterName = '', user: userName = '' } = context;
  const cluster = clusters.get(clusterName);
  if (cluster === undefined) throw invalid([NOTHING_PROVIDED]);
  return { clusterName, cluster, userName, user: users.get(userName) ?? {} };
}

/** A path of a server has no query. */
function serverOf({ server = '' }: ClusterEntry): string {
  const [, path] = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]+\/([^?#]+)/i.exec(server) ?? [];
  return trimRight(path === undefined ? server : server.replace(/[?#].*/, ''), '/');
}

/** Absolute paths; empty without one. */
interface Files {
  readonly authority: string;
  readonly certificate: string;
  readonly key: string;
}

function filesOf(cluster: ClusterEntry, user: UserEntry, folder: string): Files {
  return {
    authority: fileIn(folder, cluster['certificate-authority']),
    certificate: fileIn(folder, user['client-certificate']),
    key: fileIn(folder, user['client-key']),
  };
}

/** Paths in a kubeconfig are relative to it. */
const fileIn = (folder: string, file = ''): string => (file === '' || isAbsolute(file) ? file : join(folder, file));

function clusterProblems(cluster: ClusterEntry, name: string, { authority }: Files): string[] {
  const { server = '', 'proxy-url': proxy = '', 'certificate-authority-data': data = '' } = cluster;
  const proxyProblem = proxy === '' ? '' : proxyRefusal(proxy);
  const both = `certificate-authority-data and certificate-authority are both specified for ${name}. `;
  return [
    ...(server === '' ? [`no server found for cluster ${quote(name)}`] : []),
    ...(proxyProblem === '' ? [] : [`invalid 'proxy-url' ${quote(proxy)} for cluster ${quote(name)}: ${proxyProblem}`]),
    ...(authority !== '' && data !== '' ? [`${both}certificate-authority-data will override.`] : []),
    ...unreadable(authority, 'certificate-authority', name),
  ];
}

const PROXIES = ['http:', 'https:', 'socks5:'];

function proxyRefusal(url: string): string {
  if (!URL.canParse(url)) return `could not parse: ${url}`;
  const { protocol } = new URL(url);
  if (PROXIES.includes(protocol)) return '';
  return `unsupported scheme ${quote(protocol.slice(0, -1))}, must be http, https, or socks5`;
}

function userProblems(user: UserEntry, name: string, files: Files | null): string[] {
  const { token = '', username = '', password = '', exec } = user;
  const methods = [...(token === '' ? [] : ['token']), ...(username === '' && password === '' ? [] : ['basicAuth'])];
  const several = `more than one authentication method found for ${name}; found [${methods.join(' ')}], only one is allowed`;
  const { 'as-uid': uid = '', 'as-groups': groups = [], 'as-user-extra': extra = {} } = user;
  const hasMore = uid !== '' || groups.length > 0 || Object.keys(extra).length > 0;
  return [
    ...(files === null ? [] : certificateProblems(user, name, files)),
    ...(exec === undefined ? [] : execProblems(exec, name, user['auth-provider'] !== undefined)),
    ...(methods.length > 1 ? [several] : []),
    ...(hasMore && (user.as ?? '') === ''
      ? [`requesting uid, groups or user-extra for ${name} without impersonating a user`]
      : []),
  ];
}

function certificateProblems(user: UserEntry, name: string, { certificate, key }: Files): string[] {
  const { 'client-certificate-data': certificateData = '', 'client-key-data': keyData = '' } = user;
  if (certificate === '' && certificateData === '') return [];
  const needed = `client-key-data or client-key must be specified for ${name} to use the clientCert authentication method.`;
  return [
    ...(certificate !== '' && certificateData !== ''
      ? [`client-cert-data and client-cert are both specified for ${name}. client-cert-data will override.`]
      : []),
    ...(key !== '' && keyData !== ''
      ? [`client-key-data and client-key are both specified for ${name}; client-key-data will override`]
      : []),
    ...(key === '' && keyData === '' ? [needed] : []),
    ...unreadable(certificate, 'client-cert', name),
    ...unreadable(key, 'client-key', name),
  ];
}

const INTERACTIVE_MODES = ['Never', 'IfAvailable', 'Always'];

function execProblems(exec: ExecEntry, name: string, hasProvider: boolean): string[] {
  const { command = '', apiVersion = '', env = [] } = exec;
  const mode = interactiveModeOf(exec);
  const needed = (what: string) => `${what} must be specified for ${name} to use exec authentication plugin`;
  const modeProblem = mode === '' ? needed('interactiveMode') : `invalid interactiveMode for ${name}: ${quote(mode)}`;
  return [
    ...(hasProvider ? [`authProvider cannot be provided in combination with an exec plugin for ${name}`] : []),
    ...(command === '' ? [needed('command')] : []),
    ...(apiVersion === '' ? [needed('apiVersion')] : []),
    ...env.filter((variable) => (variable.name ?? '') === '').map(() => needed('env variable name')),
    ...(INTERACTIVE_MODES.includes(mode) ? [] : [modeProblem]),
  ];
}

/** Older versions of the plugins' API have a default. */
const interactiveModeOf = ({ apiVersion = '', interactiveMode = '' }: ExecEntry): string =>
  interactiveMode === '' && /^client\.authentication\.k8s\.io\/v1(alpha1|beta1)$/.test(apiVersion)
    ? 'IfAvailable'
    : interactiveMode;

function unreadable(file: string, what: string, name: string): string[] {
  if (file === '') return [];
  try {
    accessSync(file, constants.R_OK);
    return [];
  } catch (error) {
    return [`unable to read ${what} ${file} for ${name} due to open ${file}: ${reasonOf(error)}`];
  }
}

function userOf(user: UserEntry, files: Files, folder: string, cluster: () => Json): KubeUser {
  const { username = '', password = '', exec, as: impersonated = '' } = user;
  return {
    certificate: pem(user['client-certificate-data'], files.certificate),
    key: pem(user['client-key-data'], files.key),
    token: user.token || undefined,
    tokenFile: fileIn(folder, user.tokenFile) || undefined,
    basic: username === '' ? undefined : Buffer.from(`${username}:${password}`).toString('base64'),
    impersonation: impersonated === '' ? undefined : impersonationOf(user, impersonated),
    exec: exec === undefined ? undefined : execOf(exec, folder, cluster),
    authProvider: user['auth-provider'] === undefined ? undefined : (user['auth-provider'].name ?? ''),
  };
}

const impersonationOf = (user: UserEntry, name: string): Impersonation => ({
  user: name,
  uid: user['as-uid'] ?? '',
  groups: user['as-groups'] ?? [],
  extra: user['as-user-extra'] ?? {},
});

function execOf(exec: ExecEntry, folder: string, cluster: () => Json): ExecCommand {
  const { command = '', args = [], env = [], apiVersion = '', provideClusterInfo = false } = exec;
  return {
    command: command.includes('/') ? fileIn(folder, command) : command,
    args,
    env: env.map(({ name, value }) => ({ name: name ?? '', value: value ?? '' })),
    apiVersion,
    interactiveMode: interactiveModeOf(exec),
    ...(provideClusterInfo ? { cluster: cluster() } : {}),
  };
}

function clusterInfo(cluster: ClusterEntry, { authority }: Files, config: Json | undefined): Json {
  const ca = pem(cluster['certificate-authority-data'], authority);
  const [name, proxy] = [cluster['tls-server-name'] ?? '', cluster['proxy-url'] ?? ''];
  return {
    server: serverOf(cluster),
    ...(name === '' ? {} : { 'tls-server-name': name }),
    ...(cluster['insecure-skip-tls-verify'] === true ? { 'insecure-skip-tls-verify': true } : {}),
    ...(ca === undefined ? {} : { 'certificate-authority-data': bytesOf(ca).toString('base64') }),
    ...(proxy === '' ? {} : { 'proxy-url': proxy }),
    ...(config === undefined ? {} : { config }),
  };
}

function pem(data = '', file = ''): Pem | undefined {
  if (data !== '') return { data: Buffer.from(data, 'base64') };
  return file === '' ? undefined : { file };
}

export const bytesOf = (source: Pem): Buffer => ('data' in source ? source.data : readFileSync(source.file));

const invalid = (problems: readonly string[]) => {
  const [only, ...others] = problems;
  return kubeconfigError(`invalid configuration: ${others.length === 0 ? only : `[${problems.join(', ')}]`}`);
};
