/**
 * One listening socket: plain, or TLS with a certificate that may change while connections are open. Also the limits of
 * a port's connections, of one client and of all.
 *
 * Owns: the socket, and for each connection the authorities that verified its client. Invariants: a new certificate or
 * authority applies to new handshakes and closes nothing; a client whose authority was removed is no longer
 * authenticated by its certificate, even on an existing connection; a client that sends plain HTTP to a TLS port gets
 * that error.
 */
import { constants } from 'node:crypto';
import { createServer, isIPv6, type Server as NetServer, type Socket } from 'node:net';
import {
  createServer as createTlsServer,
  type SecureVersion,
  type TLSSocket,
  type Server as TlsServer,
} from 'node:tls';
import { isAnswering } from '../http/requests.ts';
import { authoritiesOf, type Material } from './material.ts';

/** Limit of one port: many times the needs of an API server, a scraper and users, and few enough for a small node. */
const CONNECTIONS_MAX = 2_000;
/** Limit of one client: an API server has one connection for each followed log and command. */
export const CLIENT_CONNECTIONS_MAX = 1_000;
/** An IPv6 client can use all addresses with the same first four groups. */
const IPV6_NETWORK_GROUPS = 4;

interface ConnectionLimits {
  readonly port: number;
  readonly client: number;
}

const LIMITS: ConnectionLimits = { port: CONNECTIONS_MAX, client: CLIENT_CONNECTIONS_MAX };

/**
 * Limits the connections of a port, so that no client can monopolize it.
 *
 * Invariants: N1 a client has at most its share; N2 all clients together have at most the port's limit; N3 at a limit
 * the oldest idle connection is closed, of the client itself or of the client with the most connections. A new
 * connection is rejected only if there is no idle connection: a stream is never ended for another.
 */
export class Connections {
  readonly #isBusy: (socket: Socket) => boolean;
  readonly #limits: ConnectionLimits;
  /** By client, the oldest connection first. */
  readonly #clients = new Map<string, Set<Socket>>();
  readonly #owners = new Map<Socket, string>();

  /** @param isBusy whether a request or stream is in progress on a connection */
  constructor(isBusy: (socket: Socket) => boolean, limits: ConnectionLimits = LIMITS) {
    this.#isBusy = isBusy;
    this.#limits = limits;
  }

  /** Whether the connection may stay; it counts until it closes. Others may be closed for it. */
  admit(socket: Socket): boolean {
    const client = clientOf(socket.remoteAddress ?? '');
    const sockets = this.#clients.get(client) ?? new Set();
    if (sockets.size >= this.#limits.client && !this.#closeIdle(sockets)) return false;
    if (this.#owners.size >= this.#limits.port && !this.#closeIdle(this.#largest())) return false;
    this.#clients.set(client, sockets.add(socket));
    this.#owners.set(socket, client);
    socket.once('close', () => this.#forget(socket));
    return true;
  }

  closeAll(): void {
    for (const socket of this.#owners.keys()) socket.destroy();
  }

  #closeIdle(sockets: ReadonlySet<Socket>): boolean {
    for (const socket of sockets) {
      if (this.#isBusy(socket)) continue;
      this.#forget(socket);
      socket.destroy();
      return true;
    }
    return false;
  }

  #largest(): ReadonlySet<Socket> {
    let largest: ReadonlySet<Socket> = new Set();
    for (const sockets of this.#clients.values()) if (sockets.size > largest.size) largest = sockets;
    return largest;
  }

  #forget(socket: Socket): void {
    const client = this.#owners.get(socket);
    if (client === undefined) return;
    this.#owners.delete(socket);
    const sockets = this.#clients.get(client);
    sockets?.delete(socket);
    if (sockets?.size === 0) this.#clients.delete(client);
  }
}

/** Addresses that one client can easily use count as one. */
export function clientOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address)) return address;
  const [withoutZone = ''] = address.split('%', 1);
  const [head = '', tail] = withoutZone.split('::');
  const groups = head === '' ? [] : head.split(':');
  const rest = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : 8 - groups.length - rest.length;
  return [...groups, ...Array.from({ length: zeros }, () => '0'), ...rest].slice(0, IPV6_NETWORK_GROUPS).join(':');
}

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

/** Go's default key exchanges: OpenSSL's has further ones, some of which cost the server more. */
const CURVES = ['X25519MLKEM768', 'SecP256r1MLKEM768', 'SecP384r1MLKEM1024', 'X25519', 'P-256', 'P-384', 'P-521'];

/** The TLS versions, cipher suites and curves of the server, from the configuration. Pure. */
export interface TlsOptions {
  /** `VersionTLS12`; empty for the default. */
  readonly minVersion: string;
  /** IANA names; empty for the default. */
  readonly cipherSuites: readonly string[];
  /** Curves for the key exchange, the preferred first; absent for the default. */
  readonly curves?: readonly string[];
}

interface Protocol {
  readonly minVersion: SecureVersion;
  readonly ciphers: string;
  readonly ecdhCurve: string;
}

/** Versions below 1.2 are not served, even if configured, although upstream does. */
export function protocolOf({ minVersion, cipherSuites, curves = CURVES }: TlsOptions): Protocol {
  const chosen = cipherSuites.flatMap((name) => SUITES[name] ?? []);
  const older = chosen.length > 0 ? chosen : STRONG;
  return {
    minVersion: minVersion === 'VersionTLS13' ? 'TLSv1.3' : 'TLSv1.2',
    ciphers: [...TLS_1_3, ...new Set(older)].join(':'),
    ecdhCurve: curves.join(':'),
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

/** How long the last bytes for a client may take after the client has ended its side. */
const LAST_BYTES_MS = 5_000;

/**
 * Ends a connection soon after the client has ended its side. Node waits for what is still to be written; if the client
 * has reset the connection in the middle of the handshake's last message, that write never ends, nor does the answer.
 */
function endSoon(socket: Socket): void {
  socket.once('end', () => {
    const timer = setTimeout(() => socket.destroy(), LAST_BYTES_MS).unref();
    socket.once('close', () => clearTimeout(timer));
  });
}

/** Identifies a connection of a port. */
const endOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;

/** A fatal alert: there is no certificate yet. */
const INTERNAL_ERROR = Buffer.from([0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x50]);
