/**
 * Authenticates clients (by client certificate, by bearer token, or as anonymous) and authorizes users (the verb of a
 * method, the rights of an endpoint, upstream's text of a denial). Tokens and rights are checked by TokenReviews and
 * SubjectAccessReviews of the API server, whose answers are cached.
 *
 * Order and outcomes are upstream's: a verified certificate takes precedence over any token; a token counts only
 * without such a certificate; a client with a rejected credential is rejected, and only a client without credentials is
 * anonymous.
 *
 * Owns: the caches, with upstream's lifetimes and sizes. Invariants: the keys of a cache are hashes, so that no
 * credential stays in memory; a request never waits for an answer longer than {@link REVIEW_TIMEOUT_MS}.
 */
import { createHash, createHmac, randomBytes, type X509Certificate } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { isObject, type Json, toPlainError } from '../../kernel/json.ts';
import { keepNewest } from '../../kernel/keep-newest.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { KubeObject, KubeTarget } from '../../machines/model/operations/kube.ts';
import { valueIn } from '../../machines/model/values/tables.ts';
import { type Answer, type Subresource, text, type User } from './http/endpoint.ts';

/** The attributes of a SubjectAccessReview. */
interface Attributes {
  readonly user: User;
  readonly verb: string;
  readonly subresource: Subresource;
}

/** Whether the request is allowed. A rejection means that the review failed. */
type Authorize = (attributes: Attributes) => Promise<boolean>;

export const alwaysAllow: Authorize = async () => true;

const VERBS: Readonly<Record<string, string>> = {
  POST: 'create',
  GET: 'get',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};

/** Methods without a Kubernetes verb have an empty verb, which rights to a named verb never include. */
const verbOf = (method: string): string => valueIn(VERBS, method) ?? '';

/** `null` allows the request. One of the listed rights is sufficient; the more specific is checked first. */
export async function authorize(
  user: User,
  method: string,
  subresources: readonly Subresource[],
  isAllowed: Authorize,
): Promise<Answer | null> {
  const verb = verbOf(method);
  const attributes = `user=${user.name}, verb=${verb}, resource=nodes`;
  for (const subresource of subresources) {
    try {
      if (await isAllowed({ user, verb, subresource })) return null;
    } catch {
      return text(500, `Authorization error (${attributes}, subresource=${subresource})`);
    }
  }
  return text(403, `Forbidden (${attributes}, subresource(s)=[${subresources.join(' ')}])\n`);
}

export const unauthorized = (): Answer => text(401, 'Unauthorized');

/** Creates an object in the API server and resolves with the server's answer; ends with the signal. */
export type Create = (request: KubeTarget & { readonly body: Json }, signal: AbortSignal) => Promise<KubeObject>;

/** Upstream's timeout: no client waits longer. */
const REVIEW_TIMEOUT_MS = 10_000;
/** The sizes of upstream's caches: a node has few clients. */
const TOKENS_MAX = 4_096;
const RIGHTS_MAX = 8_192;
/** Upstream's attempts to reach a webhook, and the first wait between them. */
const TRIES = 5;
const FIRST_RETRY_MS = 500;
const RETRY_FACTOR = 1.5;
/**
 * The failures after which upstream asks again. An API server that is down is not among them: clients get their refusal
 * at once.
 */
const TRANSIENT: ReadonlySet<string> = new Set([
  'ECONNRESET',
  'InternalError',
  'ServerTimeout',
  'Timeout',
  'TooManyRequests',
]);

export interface Ttls {
  readonly tokenMs: number;
  readonly authorizedMs: number;
  readonly unauthorizedMs: number;
}

interface TokenReviewStatus {
  readonly authenticated?: boolean;
  readonly error?: string;
  readonly user?: {
    readonly username?: string;
    readonly uid?: string;
    readonly groups?: readonly string[];
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
}

/** Requests a TokenReview. A rejected token is cached as long as a user; a failed request is not cached. */
export function tokenReviewer(create: Create, ttls: Pick<Ttls, 'tokenMs'>, seen?: CacheObserver): ReviewToken {
  const cache = new AnswerCache<User | null>({
    ttlMs: () => ttls.tokenMs,
    maxEntries: TOKENS_MAX,
    ...(seen ? { seen } : {}),
  });
  const apiVersion = 'authentication.k8s.io/v1';
  return (token) =>
    cache.get(token, async () => {
      const body = { apiVersion, kind: 'TokenReview', metadata: {}, spec: { token } };
      const review = await asked(create, { client: 'kube', apiVersion, resource: 'tokenreviews', body });
      const status = review['status'] as TokenReviewStatus | undefined;
      if (status?.authenticated === true) return userOf(status);
      if (status?.error) throw new Error(status.error);
      return null;
    });
}

function userOf({ user }: TokenReviewStatus): User {
  const { username = '', uid, groups = [], extra } = user ?? {};
  return { name: username, groups, ...(uid ? { uid } : {}), ...(extra ? { extra } : {}) };
}

export function accessReviewer(create: Create, nodeName: string, ttls: Omit<Ttls, 'tokenMs'>): Authorize {
  const cache = new AnswerCache<boolean>({
    ttlMs: (allowed) => (allowed ? ttls.authorizedMs : ttls.unauthorizedMs),
    maxEntries: RIGHTS_MAX,
  });
  const apiVersion = 'authorization.k8s.io/v1';
  return ({ user, verb, subresource }) => {
    const { name, uid, groups, extra } = user;
    const spec = {
      resourceAttributes: { ...(verb && { verb }), version: 'v1', resource: 'nodes', subresource, name: nodeName },
      ...(name && { user: name }),
      ...(groups.length > 0 && { groups: [...groups] }),
      ...(uid === undefined ? {} : { uid }),
      ...(extra === undefined ? {} : { extra }),
    } as { readonly [key: string]: Json };
    return cache.get(JSON.stringify(spec), async () => {
      const body = { apiVersion, kind: 'SubjectAccessReview', metadata: {}, spec };
      const review = await asked(create, { client: 'kube', apiVersion, resource: 'subjectaccessreviews', body });
      const { allowed, denied } = isObject(review['status']) ? review['status'] : {};
      if (allowed === true && denied === true) throw new Error('the right was both allowed and denied');
      return allowed === true;
    });
  };
}

async function asked(create: Create, request: Parameters<Create>[0]): Promise<KubeObject> {
  const signal = AbortSignal.timeout(REVIEW_TIMEOUT_MS);
  for (let tried = 1, waitMs = FIRST_RETRY_MS; ; tried++, waitMs *= RETRY_FACTOR) {
    try {
      return await create(request, signal);
    } catch (error) {
      const isTransient = TRANSIENT.has(toPlainError(error).code ?? '');
      if (!isTransient || tried === TRIES || signal.aborted) throw error;
      await pause(waitMs, undefined, { signal });
    }
  }
}

interface CacheOptions<Value> {
  readonly ttlMs: (value: Value) => number;
  readonly maxEntries: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
  readonly seen?: CacheObserver;
}

/** Receives the activity of a cache; `by` is 1 when a wait or request starts, and -1 when it ends. */
export interface CacheObserver {
  /** A lookup got its answer, or the error of the request. */
  answered(status: 'hit' | 'miss', durationMs: number): void;
  /** A lookup waits for a request in progress. */
  waits(by: 1 | -1): void;
  /** A request is sent, for all lookups of the same key. */
  fetches(by: 1 | -1): void;
  fetched(status: 'ok' | 'error'): void;
}

/**
 * A bounded cache of answers that expire, for the reviews of tokens and rights. Concurrent lookups share one request.
 *
 * Invariants: an expired answer is never returned; failures are not cached.
 */
export class AnswerCache<Value> {
  private readonly options: CacheOptions<Value>;
  private readonly secret = randomBytes(32);
  private readonly entries = new Map<string, { readonly value: Value; readonly until: number }>();
  private readonly pending = new Map<string, Promise<Value>>();

  constructor(options: CacheOptions<Value>) {
    this.options = options;
  }

  private now(): number {
    return this.options.now?.() ?? performance.now();
  }

  async get(question: string, ask: () => Promise<Value>): Promise<Value> {
    const key = createHmac('sha256', this.secret).update(question).digest('base64');
    const known = this.entries.get(key);
    if (known && known.until > this.now()) {
      this.options.seen?.answered('hit', 0);
      return known.value;
    }
    this.entries.delete(key);
    return await this.waited(this.pending.get(key) ?? this.ask(key, ask));
  }

  private async waited(answer: Promise<Value>): Promise<Value> {
    const { seen } = this.options;
    const beganMs = performance.now();
    seen?.waits(1);
    try {
      return await answer;
    } finally {
      seen?.waits(-1);
      seen?.answered('miss', performance.now() - beganMs);
    }
  }

  private ask(key: string, ask: () => Promise<Value>): Promise<Value> {
    this.options.seen?.fetches(1);
    const answer = ask()
      .then((value) => this.keep(key, value))
      .finally(() => {
        this.pending.delete(key);
        this.options.seen?.fetches(-1);
      });
    answer.then(
      () => this.options.seen?.fetched('ok'),
      () => this.options.seen?.fetched('error'),
    );
    this.pending.set(key, answer);
    return answer;
  }

  private keep(key: string, value: Value): Value {
    const ttlMs = this.options.ttlMs(value);
    if (ttlMs > 0) this.entries.set(key, { value, until: this.now() + ttlMs });
    keepNewest(this.entries, this.options.maxEntries);
    return value;
  }
}

/**
 * The user of a token by TokenReview; `null` if the token belongs to no user. A rejection means that the review failed.
 */
type ReviewToken = (token: string) => Promise<User | null>;

export interface AuthenticationOptions {
  readonly anonymous: boolean;
  readonly clientCertificates: boolean;
  /** A certificate does not name the uid of its user (gate AllowParsingUserUIDFromCertAuth). */
  readonly ignoresUids?: boolean;
  /** Whether this certificate is valid now: its authority may have changed since the handshake. */
  readonly isTrusted: (socket: TLSSocket) => boolean;
  /** `null`: tokens are ignored. */
  readonly reviewToken: ReviewToken | null;
  /** Receives the expiry of each presented certificate, valid or not. */
  readonly onCertificate: (notAfterMs: number) => void;
}

const AUTHENTICATED = 'system:authenticated';
const ANONYMOUS: User = { name: 'system:anonymous', groups: ['system:unauthenticated'] };

export type Authentication = { readonly user: User } | { readonly refused: string };

export async function authenticate(request: IncomingMessage, options: AuthenticationOptions): Promise<Authentication> {
  const refusals: string[] = [];
  if (options.clientCertificates) {
    const found = certificateUser(request.socket as TLSSocket, options);
    if (found && 'user' in found) return found;
    if (found) refusals.push(found.refused);
  }
  const found = options.reviewToken && (await tokenUser(request, options.reviewToken));
  if (found && 'user' in found) return found;
  if (found) refusals.push(found.refused);
  if (refusals.length === 0 && options.anonymous) return { user: ANONYMOUS };
  return { refused: refusals.join(', ') || 'no credentials' };
}

/**
 * The user with the group of authenticated users. A token of the anonymous user authenticates as little as a missing
 * token.
 */
const authenticated = (user: User): User =>
  user.name === ANONYMOUS.name || user.groups.includes(AUTHENTICATED)
    ? user
    : { ...user, groups: [...user.groups, AUTHENTICATED] };

async function tokenUser(request: IncomingMessage, reviewToken: ReviewToken): Promise<Authentication | null> {
  try {
    const token = bearerToken(request) ?? protocolToken(request);
    if (token === null) return null;
    const user = await reviewToken(token);
    return user === null ? { refused: 'invalid bearer token' } : { user: authenticated(user) };
  } catch (error) {
    return { refused: messageOf(error) };
  }
}

function certificateUser(
  socket: TLSSocket,
  { isTrusted, onCertificate, ignoresUids = false }: AuthenticationOptions,
): Authentication | null {
  const certificate = socket.getPeerX509Certificate?.();
  if (!certificate) return null;
  onCertificate(certificate.validToDate.getTime());
  if (!isTrusted(socket)) return { refused: `x509: ${socket.authorizationError ?? 'the authority has changed'}` };
  const { CN, O, [UID]: UIDs }: Subject = socket.getPeerCertificate().subject;
  const name = [CN ?? []].flat().at(-1) ?? '';
  if (name === '') return null;
  const uids = ignoresUids ? [] : [UIDs ?? []].flat();
  if (uids.length > 1) return { refused: `expected 1 UID, but found multiple: [${uids.join(' ')}]` };
  const [uid] = uids;
  if (uid === '') return { refused: 'UID cannot be an empty string' };
  const extra = { 'authentication.kubernetes.io/credential-id': [`X509SHA256=${fingerprint(certificate)}`] };
  return { user: authenticated({ name, groups: [O ?? []].flat(), ...(uid === undefined ? {} : { uid }), extra }) };
}

/** The attribute of a certificate's subject with the uid of its user, by the number that Kubernetes gave it. */
const UID = '1.3.6.1.4.1.57683.2';
type Subject = Readonly<Partial<Record<'CN' | 'O' | typeof UID, string | readonly string[]>>>;

const fingerprint = (certificate: X509Certificate): string =>
  createHash('sha256').update(certificate.raw).digest('hex');

const SUBPROTOCOL = 'base64url.bearer.authorization.k8s.io.';

function bearerToken({ headers }: IncomingMessage): string | null {
  const [scheme = '', token = ''] = (headers.authorization ?? '').trim().split(' ');
  return scheme.toLowerCase() === 'bearer' && token !== '' ? token : null;
}

/**
 * The token in the subprotocols of a WebSocket, for browsers, which cannot set the header. Throws for a malformed one.
 */
function protocolToken({ headers }: IncomingMessage): string | null {
  if (headers.upgrade?.toLowerCase() !== 'websocket') return null;
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
  const [encoded, ...further] = offered.flatMap((name) =>
    name.startsWith(SUBPROTOCOL) ? [name.slice(SUBPROTOCOL.length)] : [],
  );
  if (encoded === undefined) return null;
  if (further.length > 0) throw new Error('multiple base64.bearer.authorization tokens specified');
  if (!/^[\w-]*$/.test(encoded)) throw new Error('invalid base64.bearer.authorization token encoding');
  // The token must not be the only subprotocol, because it would be returned to the client.
  if (offered.length < 2) throw new Error('missing additional subprotocol');
  return Buffer.from(encoded, 'base64url').toString('utf8') || null;
}
