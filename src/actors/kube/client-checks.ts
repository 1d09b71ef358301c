/**
 * What the kubelet finds out about a kubeconfig when it builds its clients, with its errors.
 *
 * Upstream: k8s.io/client-go/rest (DefaultServerURL), transport (TLSConfigFor), cmd/kubelet/app/server.go.
 */
import { existsSync, readFileSync } from 'node:fs';
import { OperationError, toPlainError } from '../../kernel/json.ts';
import { CLIENT_REFUSED } from '../../machines/model/operations/kube.ts';
import { quote } from '../../machines/model/values/go-text.ts';
import { bytesOf, type Kubeconfig } from './kubeconfig.ts';
import { kubeconfigError, reasonOf } from './kubeconfig-document.ts';
import { authoritiesProblem, checkPair } from './pem.ts';

const HAS_SCHEME = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]/i;

/** The URL of a server; a host without a scheme is asked without TLS, as by the kubelet. Throws Go's error. */
export function serverUrl(server: string): string {
  if (HAS_SCHEME.test(server) && URL.canParse(server)) return server;
  const guessed = `http://${server}`;
  if (!HAS_SCHEME.test(server) && !URL.canParse(guessed)) {
    throw new Error(`parse ${quote(guessed)}: invalid character " " in host name`);
  }
  if (!URL.canParse(guessed) || !['', '/'].includes(new URL(guessed).pathname)) {
    throw new Error(`host must be a URL or a host:port pair: ${quote(server)}`);
  }
  return guessed;
}

/** Credentials are sent and authorities are read only for a server with TLS. */
export const isSecure = (server: string): boolean => serverUrl(server).toLowerCase().startsWith('https:');

/** The versions of plugins' API. */
const EXEC_VERSIONS = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'];

/**
 * Throws if no client can be built of it. `certificateFile`: the pair of a certificate manager, which replaces all
 * other credentials; `null` without one.
 */
export function checkClient(config: Kubeconfig, certificateFile: string | null): void {
  const initializing = 'failed to initialize kubelet client';
  const rotates = certificateFile !== null;
  if (isSecureOrUnknown(config.server)) {
    if (rotates && !existsSync(certificateFile)) {
      failing('failed to initialize client certificate manager', () => checkFirstPair(config));
    }
    checkTokenFile(config, rotates);
    failing(rotates ? 'unable to configure TLS for the rest client' : initializing, () => checkTls(config, !rotates));
    if (!rotates) failing(initializing, () => checkUser(config));
  }
  failing(initializing, () => serverUrl(config.server));
}

function failing(prefix: string, check: () => void): void {
  try {
    check();
  } catch (error) {
    throw refused(`${prefix}: ${toPlainError(error).message}`);
  }
}

function isSecureOrUnknown(server: string): boolean {
  try {
    return isSecure(server);
  } catch {
    return false;
  }
}

/** A certificate manager begins with the pair of the kubeconfig, if both are files or both are data. */
function checkFirstPair({ user: { certificate, key } }: Kubeconfig): void {
  if (certificate === undefined || key === undefined || 'file' in certificate !== 'file' in key) return;
  checkPair(bytesOf(certificate), bytesOf(key));
}

/** The error of a file that cannot be read has the prefix of the kubeconfig. */
function checkTokenFile({ user: { token, tokenFile } }: Kubeconfig, isUnused: boolean): void {
  if (token !== undefined || tokenFile === undefined) return;
  let content: string;
  try {
    content = readFileSync(tokenFile, 'utf8');
  } catch (error) {
    throw kubeconfigError(`open ${tokenFile}: ${reasonOf(error)}`);
  }
  if (content.trim() === '' && !isUnused) {
    throw refused(`failed to initialize kubelet client: read empty token from file ${quote(tokenFile)}`);
  }
}

/** Throws client-go's error for a configuration of TLS. */
function checkTls({ ca, insecure, user: { certificate, key } }: Kubeconfig, withPair: boolean): void {
  if (ca !== undefined && insecure) {
    throw new Error('specifying a root certificates file with the insecure flag is not allowed');
  }
  const problem = ca === undefined ? '' : authoritiesProblem(bytesOf(ca));
  if (problem !== '') throw new Error(problem);
  // A pair of two files is read when it is needed, because it may be replaced.
  if (!withPair || certificate === undefined || key === undefined || ('file' in certificate && 'file' in key)) return;
  checkPair(bytesOf(certificate), bytesOf(key));
}

/** Why a configuration of TLS cannot be used; empty if it can. */
export function tlsProblemOf(config: Kubeconfig): string {
  try {
    checkTls(config, true);
    return '';
  } catch (error) {
    return toPlainError(error).message;
  }
}

function checkUser({ user: { exec, authProvider } }: Kubeconfig): void {
  if (authProvider !== undefined) throw new Error(`no Auth Provider found for name ${quote(authProvider)}`);
  if (exec !== undefined && !EXEC_VERSIONS.includes(exec.apiVersion)) {
    throw new Error(`exec plugin: invalid apiVersion ${quote(exec.apiVersion)}`);
  }
}

const refused = (message: string): OperationError =>
  new OperationError(message, { name: 'KubeconfigError', code: CLIENT_REFUSED });
