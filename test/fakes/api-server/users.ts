/** The user of a request: by client certificate, static token, or token of a service account; or an error. */
import { X509Certificate } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { unauthorized } from '../../../src/simulation/api-server/errors.ts';
import type { User } from '../../../src/simulation/api-server/kinds.ts';
import type { ServiceAccountTokens } from './service-account-tokens.ts';

export type Request = IncomingMessage;

export class Users {
  /** Bearer tokens with their users; a test may add and remove some. */
  readonly tokens = new Map<string, User>();
  private readonly serviceAccounts: ServiceAccountTokens;

  constructor(serviceAccounts: ServiceAccountTokens) {
    this.serviceAccounts = serviceAccounts;
  }

  /** Rejects invalid credentials, and requests without any. */
  authenticate(request: Request): User {
    const bearer = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1];
    const user = certificateUser(request.socket as TLSSocket) ?? (bearer ? this.tokenUser(bearer) : undefined);
    if (user) return { ...user, groups: [...new Set([...user.groups, 'system:authenticated'])] };
    throw unauthorized();
  }

  tokenUser(token: string, audiences?: readonly string[]): User | undefined {
    return this.tokens.get(token) ?? this.serviceAccounts.userOf(token, audiences);
  }
}

function certificateUser(socket: TLSSocket): User | undefined {
  if (!socket.authorized) return undefined;
  const certificate = socket.getPeerX509Certificate();
  if (!certificate) return undefined;
  const fields = new X509Certificate(certificate.raw).subject.split('\n');
  const values = (name: string) =>
    fields.filter((field) => field.startsWith(`${name}=`)).map((field) => field.slice(name.length + 1));
  const [name] = values('CN');
  if (name === undefined) return undefined;
  const id = `X509SHA256=${certificate.fingerprint256.replaceAll(':', '').toLowerCase()}`;
  return { name, groups: values('O'), extra: { 'authentication.kubernetes.io/credential-id': [id] } };
}
