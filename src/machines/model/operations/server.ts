/** The node's own API: what it serves, where, and to which clients. Implemented by `src/actors/server`. */
import { idempotent, type PlainError, stream } from '../../../kernel/xstate.ts';

/** Which parts of the API are on. */
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
  /** Pods that have ended are among those of the socket for agents, too. */
  readonly listsEndedPods?: boolean;
  /** Endpoints that feature gates turn off; absent: none. */
  readonly without?: readonly ('checkpoint' | 'flagz' | 'statusz')[];
};

/** Who may use the API, and how long such an answer is cached. */
export type AuthSettings = {
  readonly anonymous: boolean;
  /** Tokens are asked of the API server. */
  readonly webhookAuthentication: boolean;
  /** Empty: no client authenticates by certificate. */
  readonly clientCAFile: string;
  /** Its file is read once; absent: again whenever it changes. */
  readonly isClientCAFixed?: boolean;
  readonly authorization: 'AlwaysAllow' | 'Webhook';
  readonly tokenTtlMs: number;
  readonly authorizedTtlMs: number;
  readonly unauthorizedTtlMs: number;
};

/** Files of the serving certificate, and how TLS is spoken. */
type ServingTls = {
  readonly certFile: string;
  readonly keyFile: string;
  /** There may be no certificate yet: it is asked for at the API server, and handshakes fail until it is there. */
  readonly mayBeMissing: boolean;
  /** The files are read once; absent: again whenever they change. */
  readonly isFixed?: boolean;
  readonly minVersion: string;
  readonly cipherSuites: readonly string[];
  /** As OpenSSL names them; absent: its own choice. */
  readonly curves?: readonly string[];
};

export type ServedPort = {
  readonly address: string;
  readonly port: number;
  readonly settings: ApiSettings;
  /** `null`: the read-only port, without TLS and without authentication. */
  readonly secure: { readonly tls: ServingTls; readonly auth: AuthSettings } | null;
};

/** A unix socket; access is that of its file: the whole API for people on the node, or pod resources for agents. */
export type LocalSocket = {
  readonly path: string;
  readonly service: 'api' | 'podResources';
  readonly settings: ApiSettings;
};

/**
 * The code of the error with which a port's operation fails when the thread that served it was lost: nothing is wrong
 * with the port, and it may be opened anew.
 */
export const THREAD_LOST = 'THREAD_LOST';
/** Pause before a lost port is opened anew. The thread has a pace of its own, should it be lost again and again. */
export const REOPEN_MS = 50;

export const isThreadLost = ({ code }: PlainError): boolean => code === THREAD_LOST;

export type ServerItem =
  | { readonly type: 'server.listening'; readonly address: string; readonly port: number }
  /** A file changed and is in force for new connections. */
  | {
      readonly type: 'server.certificateChanged';
      readonly subject: string;
      /** SHA-256, hexadecimal. */
      readonly fingerprint: string;
      readonly notAfterMs: number;
    }
  | { readonly type: 'server.clientCAChanged' }
  /** A file changed and cannot be used; what was in force stays. */
  | { readonly type: 'server.reloadFailed'; readonly message: string };

export const serverOperations = {
  /** Makes the certificate of a node that was given none, unless it is there; resolves with its files. */
  'server.selfSign': idempotent<
    { readonly directory: string; readonly hostname: string },
    { readonly certFile: string; readonly keyFile: string }
  >(),
  /** Serves a port until it is cancelled. Fails with upstream's text when it cannot listen or has no certificate. */
  'server.serve': stream<ServedPort, ServerItem>(),
  /** Serves a unix socket until it is cancelled. */
  'server.serveLocal': stream<LocalSocket, ServerItem>(),
};
