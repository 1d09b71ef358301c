/** Texts of Go's libraries for errors of system calls and sockets, which users know from events of every cluster. */
import { lstat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { getSystemErrorMap } from 'node:util';
import { memberOf, OperationError } from '../kernel/json.ts';
import { codeOf, messageOf } from '../kernel/thrown.ts';

const SYSTEM_TEXTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset by peer',
  EHOSTUNREACH: 'no route to host',
  EHOSTDOWN: 'host is down',
  ENETUNREACH: 'network is unreachable',
  ETIMEDOUT: 'connection timed out',
  EPIPE: 'broken pipe',
  EACCES: 'permission denied',
  EADDRNOTAVAIL: 'cannot assign requested address',
};
const LOOKUP_CODES: ReadonlySet<string> = new Set(['ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL', 'EAI_NODATA']);

interface SocketError extends Error {
  readonly code?: string;
  readonly syscall?: string;
  readonly hostname?: string;
}

/** `1.2.3.4:80`, `[::1]:80`. */
export const hostPort = (host: string, port: number): string => `${host.includes(':') ? `[${host}]` : host}:${port}`;

/** The text of an error before a connection was established. */
export function dialText(address: string, thrown: Error): string {
  const { code = '', hostname = '', message } = firstOf(thrown);
  if (LOOKUP_CODES.has(code)) return `dial tcp: lookup ${hostname}: no such host`;
  const text = SYSTEM_TEXTS[code];
  return `dial tcp ${address}: ${text === undefined ? message : `connect: ${text}`}`;
}

/** The text of an error between the request and the end of the response headers. */
export function exchangeText(address: string, thrown: Error): string {
  const { code = '', syscall = '', message } = firstOf(thrown);
  if (syscall === 'connect' || LOOKUP_CODES.has(code)) return dialText(address, thrown);
  if (isPlainAnswer(thrown)) return 'http: server gave HTTP response to HTTPS client';
  if (code.startsWith('HPE_')) return 'net/http: HTTP/1.x transport connection broken: malformed HTTP response';
  if (code === 'ECONNRESET' && message === 'socket hang up') return 'EOF';
  const text = SYSTEM_TEXTS[code];
  return text === undefined ? message : `read tcp ${address}: read: ${text}`;
}

/** The text of an error between the headers of a response and its end. */
export const bodyText = (thrown: SocketError): string =>
  String(thrown.code).startsWith('HPE_') ? 'malformed chunked encoding' : 'unexpected EOF';

/** Whether the server does not speak TLS. */
export const isPlainAnswer = ({ code }: SocketError): boolean =>
  code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'ERR_SSL_PACKET_LENGTH_TOO_LONG' || code === 'EPROTO';

/** A name with several addresses fails with one error for each. */
const firstOf = (thrown: Error): SocketError =>
  thrown instanceof AggregateError && thrown.errors[0] instanceof Error ? thrown.errors[0] : thrown;

/** Errno names whose text differs between Node and Go. */
const REASONS: Readonly<Record<string, string>> = {
  EISDIR: 'is a directory',
  ELOOP: 'too many levels of symbolic links',
  ENAMETOOLONG: 'file name too long',
};

/** The bare reason, as Go's text of an errno: `no such file or directory`. */
export function reasonOf(error: unknown): string {
  const errno = memberOf(error, 'errno');
  const [code = '', text = messageOf(error)] = (typeof errno === 'number' && getSystemErrorMap().get(errno)) || [];
  return REASONS[code] ?? text;
}

/** Go's text for a path that does not exist, as by `filepath.EvalSymlinks`: it names the first part that is missing. */
export async function missingText(path: string): Promise<string> {
  const parent = dirname(path);
  const exists = async (part: string) =>
    await lstat(part).then(
      () => true,
      () => false,
    );
  if (parent === path || (await exists(parent))) return `lstat ${path}: no such file or directory`;
  return await missingText(parent);
}

/** Go's text of a system error: `open /a/b: no such file or directory`. */
export function goError(call: string, path: string, error: unknown): OperationError {
  return new OperationError(`${call} ${path}: ${reasonOf(error)}`, { code: codeOf(error) ?? '' });
}
