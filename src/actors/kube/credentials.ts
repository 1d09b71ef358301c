/**
 * Who this node is for the API server, read again because certificates and tokens change on disk while the node runs.
 *
 * Owns: the credentials that were read last. Invariants: the result of `current` is at most {@link REREAD_MS} older
 * than the files, and fresh after `expire`; while the files cannot be read, or key and certificate do not match, the
 * last valid credentials are used; a server without TLS gets none, as from the kubelet.
 */
import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import { isSecure } from './client-checks.ts';
import { ExecPlugin } from './exec-plugin.ts';
import { bytesOf, type Impersonation, type Kubeconfig, type Pem } from './kubeconfig.ts';
import { checkPair } from './pem.ts';

/** The period of rereading files, short enough for a rotated token. client-go rereads tokens after 50 s. */
const REREAD_MS = 10_000;

export interface Credentials {
  readonly tls: {
    readonly ca?: string | Buffer;
    readonly cert?: string | Buffer;
    readonly key?: string | Buffer;
    readonly servername?: string;
    readonly checkServerIdentity?: typeof checkServerIdentity;
    readonly rejectUnauthorized?: boolean;
  };
  readonly headers: Readonly<Record<string, string | string[]>>;
  /**
   * Identifies the certificates: a new connection is needed if this value differs from that of the present connection.
   */
  readonly identity: string;
  /** PEM of an exec plugin's certificate; `null` without one. */
  readonly pluginCertificate: string | null;
}

/**
 * The server name of TLS. TLS cannot request a certificate for an address: an address is only compared with the
 * certificate.
 */
const nameToCheck = (name: string): Pick<Credentials['tls'], 'servername' | 'checkServerIdentity'> =>
  isIP(name) === 0 ? { servername: name } : { checkServerIdentity: (_host, cert) => checkServerIdentity(name, cert) };

export class CredentialSource {
  private readonly config: Kubeconfig;
  private readonly certificateFile: string | null;
  private readonly plugin: ExecPlugin | undefined;
  private read: Credentials | undefined;
  private readAtMs = -Infinity;

  /** `certificateFile` contains certificate and key; while it does not exist, the kubeconfig's own are used. */
  constructor(config: Kubeconfig, certificateFile: string | null) {
    this.config = config;
    this.certificateFile = certificateFile;
    const { exec, token, tokenFile, basic, certificate } = config.user;
    // A program is asked only for a user without other credentials.
    const hasOther = token ?? tokenFile ?? basic ?? certificate;
    this.plugin = exec === undefined || hasOther !== undefined ? undefined : new ExecPlugin(exec);
  }

  /** Called when the server rejected the credentials, or when they have changed. */
  expire(): void {
    this.readAtMs = -Infinity;
    this.plugin?.expire();
  }

  async current(): Promise<Credentials> {
    if (this.read && performance.now() - this.readAtMs < REREAD_MS) return this.read;
    try {
      this.read = await this.load();
      this.readAtMs = performance.now();
      return this.read;
    } catch (error) {
      // While files are being replaced, a file may be missing or newer than the others; the last credentials may still
      // be valid.
      if (this.read) return this.read;
      throw error;
    }
  }

  private async load(): Promise<Credentials> {
    const { server, ca, insecure, tlsServerName, user } = this.config;
    const impersonation = impersonationHeaders(user.impersonation);
    if (!isSecure(server)) return { tls: {}, headers: impersonation, identity: '', pluginCertificate: null };
    const fromPlugin = await this.plugin?.current();
    const rotated = rotatedPair(this.certificateFile);
    const cert = rotated ?? fromPlugin?.cert ?? this.existingPem(user.certificate);
    const key = rotated ?? fromPlugin?.key ?? this.existingPem(user.key);
    if (cert && key) checkPair(Buffer.from(cert), Buffer.from(key));
    const authority = ca === undefined ? undefined : bytesOf(ca);
    const tls = {
      ...(authority?.length ? { ca: authority } : {}),
      ...(cert && key ? { cert, key } : {}),
      ...(tlsServerName ? nameToCheck(tlsServerName) : {}),
      ...(insecure ? { rejectUnauthorized: false } : {}),
    };
    const login = this.login(fromPlugin?.token);
    const headers = { ...(login === '' ? {} : { authorization: login }), ...impersonation };
    return { tls, headers, identity: identityOf(cert, key, authority), pluginCertificate: fromPlugin?.cert ?? null };
  }

  /** A certificate that is still being requested counts as none. */
  private existingPem(pem: Pem | undefined): Buffer | undefined {
    if (pem === undefined) return undefined;
    const isRequested = this.certificateFile !== null && 'file' in pem && pem.file === this.certificateFile;
    return isRequested ? undefined : bytesOf(pem);
  }

  /** The value of the header `Authorization`; empty for none. */
  private login(pluginToken = ''): string {
    const { token, tokenFile, basic } = this.config.user;
    const bearer = (tokenFile === undefined ? token : tokenIn(tokenFile, token)) || pluginToken;
    if (bearer) return `Bearer ${bearer}`;
    return basic === undefined ? '' : `Basic ${basic}`;
  }
}

/** The token of a file; the one of the kubeconfig counts while the file cannot be read. */
function tokenIn(file: string, token: string | undefined): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim() || token;
  } catch (error) {
    if (token !== undefined) return token;
    throw error;
  }
}

/** Names of extra fields are escaped, because header names are not case-sensitive. */
const extraName = (key: string): string =>
  `impersonate-extra-${key.replaceAll(/[^A-Za-z0-9!#$&'*+.^_`|~-]/g, (character) => encodeURIComponent(character))}`;

function impersonationHeaders(impersonation: Impersonation | undefined): Record<string, string | string[]> {
  if (impersonation === undefined) return {};
  const { user, uid, groups, extra } = impersonation;
  return {
    'impersonate-user': user,
    ...(uid === '' ? {} : { 'impersonate-uid': uid }),
    ...(groups.length === 0 ? {} : { 'impersonate-group': [...groups] }),
    ...Object.fromEntries(Object.entries(extra).map(([key, values]) => [extraName(key), [...values]])),
  };
}

function rotatedPair(file: string | null): Buffer | undefined {
  if (file === null || !statSync(file, { throwIfNoEntry: false })) return undefined;
  return readFileSync(file);
}

const identityOf = (...parts: readonly (string | Buffer | undefined)[]): string =>
  parts.map((part) => part?.toString() ?? '').join('\n');
