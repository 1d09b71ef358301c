/** Operations that serve the node's own API. Implemented by `src/actors/server`. */
import { idempotent, type PlainError, stream } from '../../../kernel/xstate.ts';

/** The enabled endpoints of the API. */
export type ApiSettings = {
  readonly nodeName: string;
  readonly rootDir: string;
  readonly podLogsDir: string;
  readonly debuggingHandlers: boolean;
  readonly systemLogHandler: boolean;
  readonly systemLogQuery: boolean;
  readonly profilingHandler: boolean;
  readonly debugFlagsHandler: boolean;
  readonly splitStreams: boolean;
  /** The socket for monitoring agents also lists pods that have ended. */
  readonly listsEndedPods?: boolean;
  /** Endpoints whose feature gates are off; absent: none. */
  readonly without?: readonly ('checkpoint' | 'flagz' | 'statusz')[];
};

/** How clients are authenticated and authorized, and how long an answer is cached. */
export type AuthSettings = {
  readonly anonymous: boolean;
  /** The API server reviews tokens. */
  readonly webhookAuthentication: boolean;
  /** Empty: no client authenticates by certificate. */
  readonly clientCAFile: string;
  /** The file is read once; absent: again whenever it changes. */
  readonly isClientCAFixed?: boolean;
  /** Certificates of clients do not name the uids of their users; absent: they may. */
  readonly ignoresUids?: boolean;
  readonly authorization: 'AlwaysAllow' | 'Webhook';
  readonly tokenTtlMs: number;
  readonly authorizedTtlMs: number;
  readonly unauthorizedTtlMs: number;
};

/** The files of the serving certificate, and the parameters of TLS. */
type ServingTls = {
  readonly certFile: string;
  readonly keyFile: string;
  /** A pair that the API server has issued, which replaces the configured one once it exists; absent: there is none. */
  readonly issuedFile?: string;
  /** The certificate may not exist yet: it is requested from the API server, and handshakes fail until it is issued. */
  readonly mayBeMissing: boolean;
  /** The files are read once; absent: again whenever they change. */
  readonly isFixed?: boolean;
  readonly minVersion: string;
  readonly cipherSuites: readonly string[];
  /** OpenSSL's names; absent for its own choice. */
  readonly curves?: readonly string[];
};

export type ServedPort = {
  readonly address: string;
  readonly port: number;
  readonly settings: ApiSettings;
  /** `null`: the read-only port, without TLS and without authentication. */
  readonly secure: { readonly tls: ServingTls; readonly auth: AuthSettings } | null;
};

/**
 * A unix socket, protected by its file permissions: the whole API for users of the node, or pod resources for agents.
 */
export type LocalSocket = {
  readonly path: string;
  readonly service: 'api' | 'podResources';
  readonly settings: ApiSettings;
};

/**
 * The error code of a port's operation when its server thread was lost: the port itself is fine, and can be reopened.
 */
export const THREAD_LOST = 'THREAD_LOST';
/** Pause before a lost port is reopened. A thread that is lost repeatedly has a back-off of its own. */
export const REOPEN_MS = 50;

export const isThreadLost = ({ code }: PlainError): boolean => code === THREAD_LOST;

export type ServerItem =
  | { readonly type: 'server.listening'; readonly address: string; readonly port: number }
  /** A changed file is used for new connections. */
  | {
      readonly type: 'server.certificateChanged';
      readonly subject: string;
      /** SHA-256 in hexadecimal. */
      readonly fingerprint: string;
      readonly notAfterMs: number;
    }
  | { readonly type: 'server.clientCAChanged' }
  /** A changed file is invalid; the previous certificate or authorities stay in use. */
  | { readonly type: 'server.reloadFailed'; readonly message: string };

export const serverOperations = {
  /** Creates the certificate of a node without one, unless it exists; returns its files. */
  'server.selfSign': idempotent<
    { readonly directory: string; readonly hostname: string },
    { readonly certFile: string; readonly keyFile: string }
  >(),
  /** Serves a port until cancelled. Fails with upstream's text if it cannot listen or has no certificate. */
  'server.serve': stream<ServedPort, ServerItem>(),
  /** Serves a unix socket until cancelled. */
  'server.serveLocal': stream<LocalSocket, ServerItem>(),
};
