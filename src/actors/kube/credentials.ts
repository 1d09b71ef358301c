/**
 * The current identity of this node for the API server: certificates and tokens change on disk while the node runs.
 *
 * Owns: the credentials last read, and the time. Invariant: the result of `current` is at most {@link REREAD_MS} older
 * than the files, and fresh after `expire`; while the files cannot be read, or key and certificate do not match, the
 * last valid credentials are used.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import type { Kubeconfig, Pem } from './kubeconfig.ts';

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
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Identifies the certificates: a new connection is needed if this value differs from that of the present connection.
   */
  readonly identity: string;
  /** PEM of an exec plugin's certificate; `null` without one. */
  readonly pluginCertificate: string | null;
}

/** Options set by exec plugins and auth providers. */
interface PluginOptions {
  cert?: string;
  key?: string;
  headers?: Record<string, string>;
}
type PluginUser = (options: PluginOptions) => Promise<void>;

/**
 * The server name of TLS. TLS cannot request a certificate for an address: an address is only compared with the
 * certificate.
 */
const nameToCheck = (name: string): Pick<Credentials['tls'], 'servername' | 'checkServerIdentity'> =>
  isIP(name) === 0 ? { servername: name } : { checkServerIdentity: (_host, cert) => checkServerIdentity(name, cert) };

export class CredentialSource {
  private readonly config: Kubeconfig;
  private readonly certificateFile: string | null;
  private plugin: Promise<PluginUser> | undefined;
  private read: Credentials | undefined;
  private readAtMs = -Infinity;

  /** `certificateFile` contains certificate and key; while it does not exist, the kubeconfig's own are used. */
  constructor(config: Kubeconfig, certificateFile: string | null) {
    this.config = config;
    this.certificateFile = certificateFile;
  }

  /** Called when the server rejected the credentials, or when they have changed. */
  expire(): void {
    this.readAtMs = -Infinity;
    this.plugin = undefined;
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
    const { ca, insecure, tlsServerName, user } = this.config;
    const fromPlugin: PluginOptions = user.plugin ? await this.askPlugin() : {};
    const rotated = rotatedPair(this.certificateFile);
    const cert = fromPlugin.cert ?? rotated ?? this.existingPem(user.certificate);
    const key = fromPlugin.key ?? rotated ?? this.existingPem(user.key);
    if (cert && key) checkPair(cert, key);
    const authority = bytesOf(ca);
    const tls = {
      ...(authority ? { ca: authority } : {}),
      ...(cert && key ? { cert, key } : {}),
      ...(tlsServerName ? nameToCheck(tlsServerName) : {}),
      ...(insecure ? { rejectUnauthorized: false } : {}),
    };
    const headers = { ...this.headers(), ...fromPlugin.headers };
    return { tls, headers, identity: identityOf(cert, key, authority), pluginCertificate: fromPlugin.cert ?? null };
  }

  /** A certificate that is still being requested counts as none. */
  private existingPem(pem: Pem | undefined): Buffer | undefined {
    if (this.certificateFile !== null && pem && 'file' in pem && pem.file === this.certificateFile) return undefined;
    return bytesOf(pem);
  }

  private headers(): Record<string, string> {
    const { token, tokenFile, basic, impersonate } = this.config.user;
    const bearer = tokenFile === undefined ? token : readFileSync(tokenFile, 'utf8').trim();
    return {
      ...(bearer ? { authorization: `Bearer ${bearer}` } : basic ? { authorization: `Basic ${basic}` } : {}),
      ...(impersonate ? { 'impersonate-user': impersonate } : {}),
    };
  }

  private async askPlugin(): Promise<PluginOptions> {
    this.plugin ??= loadPluginUser(this.config.path);
    const options: PluginOptions = {};
    await (await this.plugin)(options);
    const authorization = options.headers?.['Authorization'];
    return {
      ...(options.cert ? { cert: options.cert } : {}),
      ...(options.key ? { key: options.key } : {}),
      ...(authorization ? { headers: { authorization } } : {}),
    };
  }
}

/** Imports the deep module: the package's index would load the types of the whole API as well. */
async function loadPluginUser(path: string): Promise<PluginUser> {
  const { KubeConfig } = await import('@kubernetes/client-node/dist/config.js');
  const config = new KubeConfig();
  config.loadFromFile(path);
  return (options) => config.applyToHTTPSOptions(options);
}

function rotatedPair(file: string | null): Buffer | undefined {
  if (file === null || !statSync(file, { throwIfNoEntry: false })) return undefined;
  return readFileSync(file);
}

function checkPair(cert: string | Buffer, key: string | Buffer): void {
  if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return;
  throw new Error('tls: private key does not match public key');
}

function bytesOf(pem: Pem | undefined): Buffer | undefined {
  if (pem === undefined) return undefined;
  return 'data' in pem ? pem.data : readFileSync(pem.file);
}

const identityOf = (...parts: readonly (string | Buffer | undefined)[]): string =>
  parts.map((part) => part?.toString() ?? '').join('\n');
