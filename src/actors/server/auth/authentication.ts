/**
 * Authenticates a client: by client certificate, by bearer token, or as anonymous.
 *
 * Order and outcomes are upstream's: a verified certificate takes precedence over any token; a token counts without
 * such a certificate; a client with a rejected credential is rejected, and only a client without credentials is
 * anonymous.
 */

import { createHash, type X509Certificate } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { messageOf } from '../../../kernel/thrown.ts';
import type { User } from '../http/endpoint.ts';

/**
 * The user of a token by TokenReview; `null` if the token belongs to no user. A rejection means that the review failed.
 */
export type ReviewToken = (token: string) => Promise<User | null>;

export interface AuthenticationOptions {
  readonly anonymous: boolean;
  /** Certificates of clients are accepted. */
  readonly clientCertificates: boolean;
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
  { isTrusted, onCertificate }: AuthenticationOptions,
): Authentication | null {
  const certificate = socket.getPeerX509Certificate?.();
  if (!certificate) return null;
  onCertificate(certificate.validToDate.getTime());
  if (!isTrusted(socket)) return { refused: `x509: ${socket.authorizationError ?? 'the authority has changed'}` };
  const { CN, O }: { CN?: string | string[]; O?: string | string[] } = socket.getPeerCertificate().subject;
  const name = [CN ?? []].flat().at(-1) ?? '';
  if (name === '') return null;
  const extra = { 'authentication.kubernetes.io/credential-id': [`X509SHA256=${fingerprint(certificate)}`] };
  return { user: authenticated({ name, groups: [O ?? []].flat(), extra }) };
}

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
