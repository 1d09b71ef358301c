/** The TLS port: HTTP/2 and HTTP/1.1 on one address, which can be closed and opened again. */
import { createSecureServer, type Http2SecureServer, type Http2Session } from 'node:http2';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { freePort } from '../../support/ports.ts';
import type { Credential } from './pki.ts';
import type { Request } from './users.ts';
import type { Response } from './watches.ts';

const LOOPBACK = '127.0.0.1';
const RESETS_MAX = 1_000_000;

export interface ListenerOptions {
  readonly credential: Credential;
  readonly ca: string;
  /** False: only HTTP/1.1, as behind some load balancers. */
  readonly http2: boolean;
  readonly onRequest: (request: Request, response: Response) => void;
  readonly onUpgrade: (request: Request, socket: Duplex, head: Buffer) => void;
}

export class Listener {
  private server: Http2SecureServer | undefined;
  private readonly options: ListenerOptions;
  private readonly sockets = new Set<Socket>();
  private readonly sessions = new Set<Http2Session>();
  private port = 0;
  /** The number of connections since the start. */
  accepted = 0;

  constructor(options: ListenerOptions) {
    this.options = options;
  }

  get url(): string {
    return `https://${LOOPBACK}:${this.port}`;
  }

  get connections(): number {
    return this.sockets.size;
  }

  /** Opens the port; after {@link stop} the same one, which no other process gets meanwhile. */
  async start(): Promise<void> {
    this.port ||= await freePort();
    const { credential, ca, http2, onRequest, onUpgrade } = this.options;
    const server = createSecureServer({
      ...credential,
      ca,
      allowHTTP1: true,
      requestCert: true,
      rejectUnauthorized: false,
      // Watches end by a reset; Node considers many resets an attack, Go's server does not.
      streamResetBurst: RESETS_MAX,
      streamResetRate: RESETS_MAX,
      ...(http2 ? {} : { ALPNProtocols: ['http/1.1'] }),
    });
    server.on('request', (request, response) =>
      onRequest(request as unknown as Request, response as unknown as Response),
    );
    server.on('upgrade', onUpgrade);
    server.on('session', (session) => {
      this.sessions.add(session);
      session.once('close', () => this.sessions.delete(session));
    });
    server.on('connection', (socket: Socket) => {
      this.accepted += 1;
      this.sockets.add(socket);
      socket.once('close', () => this.sockets.delete(socket));
      socket.on('error', () => socket.destroy());
    });
    server.on('sessionError', () => undefined);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(this.port, LOOPBACK, resolve);
    });
    this.server = server;
  }

  /** Breaks every connection and closes the port. */
  async stop(): Promise<void> {
    const server = this.server;
    if (!server) return;
    this.server = undefined;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    this.breakConnections();
    await closed;
  }

  breakConnections(): void {
    for (const session of this.sessions) session.destroy();
    for (const socket of this.sockets) socket.destroy();
  }
}
