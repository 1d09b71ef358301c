/**
 * One listening socket: plain, or TLS with a certificate that may change while connections are open.
 *
 * Owns: the socket, and for each connection the authorities that verified its client. Invariants: a new certificate or
 * authority applies to new handshakes and closes nothing; a client whose authority was removed is no longer
 * authenticated by its certificate, even on an existing connection; a client that sends plain HTTP to a TLS port gets
 * that error.
 */
import { constants } from 'node:crypto';
import { createServer, type Server as NetServer, type Socket } from 'node:net';
import {
  createServer as createTlsServer,
  type SecureVersion,
  type TLSSocket,
  type Server as TlsServer,
} from 'node:tls';
import { isAnswering } from '../http/in-order.ts';
import { type ConnectionLimits, Connections } from './connections.ts';
import { authoritiesOf, type Material } from './material.ts';

/** OpenSSL's names of the configurable suites. Suites that no modern client needs are not offered. */
const SUITES: Readonly<Record<string, string>> = {
  TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: 'ECDHE-ECDSA-AES128-GCM-SHA256',
  TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: 'ECDHE-ECDSA-AES256-GCM-SHA384',
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305: 'ECDHE-ECDSA-CHACHA20-POLY1305',
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: 'ECDHE-ECDSA-CHACHA20-POLY1305',
  TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA: 'ECDHE-ECDSA-AES128-SHA',
  TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256: 'ECDHE-ECDSA-AES128-SHA256',
  TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA: 'ECDHE-ECDSA-AES256-SHA',
  TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: 'ECDHE-RSA-AES128-GCM-SHA256',
  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: 'ECDHE-RSA-AES256-GCM-SHA384',
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305: 'ECDHE-RSA-CHACHA20-POLY1305',
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: 'ECDHE-RSA-CHACHA20-POLY1305',
  TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA: 'ECDHE-RSA-AES128-SHA',
  TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256: 'ECDHE-RSA-AES128-SHA256',
  TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA: 'ECDHE-RSA-AES256-SHA',
  TLS_RSA_WITH_AES_128_GCM_SHA256: 'AES128-GCM-SHA256',
  TLS_RSA_WITH_AES_256_GCM_SHA384: 'AES256-GCM-SHA384',
};
/** The suites of TLS 1.3, which are not configurable, as upstream. */
const TLS_1_3 = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'];
const STRONG = [
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
];

/** The TLS versions, cipher suites and curves of the server, from the configuration. Pure. */
export interface TlsOptions {
  /** `VersionTLS12`; empty for the default. */
  readonly minVersion: string;
  /** IANA names; empty for the default. */
  readonly cipherSuites: readonly string[];
  /** Curves for the key exchange, the preferred first; absent for OpenSSL's. */
  readonly curves?: readonly string[];
}

interface Protocol {
  readonly minVersion: SecureVersion;
  readonly ciphers: string;
  readonly ecdhCurve?: string;
}

/** Versions below 1.2 are not served, even if configured, although upstream does. */
export function protocolOf({ minVersion, cipherSuites, curves = [] }: TlsOptions): Protocol {
  const chosen = cipherSuites.flatMap((name) => SUITES[name] ?? []);
  const older = chosen.length > 0 ? chosen : STRONG;
  return {
    minVersion: minVersion === 'VersionTLS13' ? 'TLSv1.3' : 'TLSv1.2',
    ciphers: [...TLS_1_3, ...new Set(older)].join(':'),
    ...(curves.length === 0 ? {} : { ecdhCurve: curves.join(':') }),
  };
}

/** The time limit from the connection to the end of the handshake, as upstream: both sides may share a busy machine. */
const HANDSHAKE_TIMEOUT_MS = 32_000;
const TLS_HANDSHAKE = 0x16;
const PLAIN_ANSWER = 'HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n';

export interface ListenerOptions {
  readonly address: string;
  readonly port: number;
  readonly accept: (socket: Socket) => void;
  readonly limits?: ConnectionLimits | undefined;
  /** The settings of TLS; `null` for a plain socket. */
  readonly tls: (TlsOptions & { readonly clientCertificates: boolean }) | null;
}

function common(options: TlsOptions) {
  const protocol = protocolOf(options);
  // A resumed session would carry over a client's verification by earlier authorities.
  return { ...protocol, honorCipherOrder: true, secureOptions: constants.SSL_OP_NO_TICKET };
}

export class Listener {
  private readonly options: ListenerOptions;
  private readonly connections: Connections;
  /** By the client's address and port, its TLS connection. */
  private readonly tlsSockets = new Map<string, Socket>();
  private readonly server: NetServer;
  private tls: TlsServer | undefined;
  private material: Material | null = null;
  private readonly verifiedBy = new WeakMap<Socket, Material>();

  constructor(options: ListenerOptions) {
    this.options = options;
    this.server = createServer({ noDelay: true }, (socket) => this.connected(socket));
    this.connections = new Connections(
      (socket) => isAnswering(this.tlsSockets.get(endOf(socket)) ?? socket),
      options.limits,
    );
  }

  /** Resolves with the port. Rejects with the system's error. */
  listen(): Promise<number> {
    const { address: host, port } = this.options;
    return new Promise((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen({ host, port }, () => {
        this.server.removeListener('error', reject);
        this.server.on('error', () => {});
        const bound = this.server.address();
        resolve(typeof bound === 'object' && bound !== null ? bound.port : port);
      });
    });
  }

  /** Uses new material for later handshakes. */
  use(material: Material): void {
    const { tls } = this.options;
    if (tls === null) return;
    this.material = material;
    const context = {
      ...common(tls),
      cert: material.cert,
      key: material.key,
      ...(material.ca ? { ca: material.ca } : {}),
    };
    if (this.tls) this.tls.setSecureContext(context);
    else this.tls = this.tlsServer(context, tls.clientCertificates);
  }

  private tlsServer(context: object, requestCert: boolean): TlsServer {
    // Without ALPN protocols none is negotiated: only HTTP/1.1 is supported.
    const server = createTlsServer({
      ...context,
      requestCert,
      rejectUnauthorized: false,
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    });
    server.on('secureConnection', (socket) => {
      const end = endOf(socket);
      this.tlsSockets.set(end, socket);
      socket.once('close', () => this.tlsSockets.delete(end));
      endSoon(socket);
      if (this.material) this.verifiedBy.set(socket, this.material);
      this.options.accept(socket);
    });
    server.on('tlsClientError', (_error, socket) => socket.destroy());
    return server;
  }

  private connected(socket: Socket): void {
    socket.on('error', () => {});
    if (!this.connections.admit(socket)) return void socket.destroy();
    if (!this.options.tls) return this.options.accept(socket);
    let isSilent = true;
    // Bytes that arrived while this process was busy are still to be read.
    socket.setTimeout(HANDSHAKE_TIMEOUT_MS, () => setImmediate(() => isSilent && socket.destroy()));
    socket.once('data', (first: Buffer) => {
      isSilent = false;
      socket.setTimeout(0);
      socket.removeAllListeners('timeout');
      if (first[0] === TLS_HANDSHAKE && this.tls) {
        socket.pause();
        socket.unshift(first);
        this.tls.emit('connection', socket);
      } else socket.end(first[0] === TLS_HANDSHAKE ? INTERNAL_ERROR : PLAIN_ANSWER);
    });
  }

  /** Whether the client's certificate is valid now. */
  readonly isTrusted = (socket: TLSSocket): boolean => {
    if (!socket.authorized || !this.material?.ca) return false;
    const certificate = socket.getPeerX509Certificate();
    const now = Date.now();
    if (!certificate || certificate.validToDate.getTime() < now || certificate.validFromDate.getTime() > now)
      return false;
    if (this.verifiedBy.get(socket) === this.material || this.verifiedBy.get(socket)?.ca?.equals(this.material.ca))
      return true;
    return authoritiesOf(this.material.ca, 'in force').some(
      (authority) => certificate.checkIssued(authority) && certificate.verify(authority.publicKey),
    );
  };

  /** Ends every connection. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.connections.closeAll();
    await closed;
  }
}

/** What was written to a client may take so long to arrive after the client's last word. */
const LAST_WORDS_MS = 5_000;

/**
 * Ends a connection soon after the client has ended its side. Node waits for what is still to be written; if the client
 * has reset the connection in the middle of the handshake's last message, that write never ends, nor does the answer.
 */
function endSoon(socket: Socket): void {
  socket.once('end', () => {
    const timer = setTimeout(() => socket.destroy(), LAST_WORDS_MS).unref();
    socket.once('close', () => clearTimeout(timer));
  });
}

/** Identifies a connection of a port. */
const endOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;

/** A fatal alert: there is no certificate yet. */
const INTERNAL_ERROR = Buffer.from([0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x50]);
