/**
 * The request of a stream: which streams, ports and protocols its client asks for, and whether its handshake is valid.
 */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { type Answer, type ApiRequest, refusal, text } from '../http/endpoint.ts';
import type { StreamOptions } from './remote-command.ts';
import { parsePorts, TUNNEL_PROTOCOL } from './tunnel.ts';

export type Kind = 'exec' | 'attach' | 'portForward';

export const COMMAND_PROTOCOL = 'v5.channel.k8s.io';

const isSet = ({ query }: ApiRequest, name: string): boolean => query.get(name)?.[0] === '1';
export function hasStream(request: ApiRequest): boolean {
  const { stdin, stdout, stderr } = optionsOf(request);
  return stdin || stdout || stderr;
}

export function optionsOf(request: ApiRequest): StreamOptions {
  const tty = isSet(request, 'tty');
  return {
    stdin: isSet(request, 'input'),
    stdout: isSet(request, 'output'),
    stderr: isSet(request, 'error') && !tty,
    tty,
  };
}

/** The ports in the query, used by WebSockets without a tunnel, or why they are invalid. */
export function portsOf({ raw, query }: ApiRequest): readonly number[] | string {
  const isReported = isWebSocket(raw) && wantsUpgrade(raw) && !protocolsOf(raw).includes(TUNNEL_PROTOCOL);
  return isReported ? parsePorts(query.get('port') ?? []) : [];
}

/** Whether the client requests an upgrade; as upstream, only `Connection` is read. */
export const wantsUpgrade = ({ headers }: IncomingMessage): boolean => /\bupgrade\b/i.test(headers.connection ?? '');
const isWebSocket = ({ headers }: IncomingMessage): boolean => headers.upgrade?.toLowerCase() === 'websocket';

export const protocolsOf = (raw: IncomingMessage): readonly string[] =>
  isWebSocket(raw) ? (raw.headers['sec-websocket-protocol'] ?? '').split(',').map((protocol) => protocol.trim()) : [];

/** The error of a handshake that this node handles itself, with the texts of upstream's libraries. */
export function handshakeRefusal(kind: Kind, offered: readonly string[], request: ApiRequest): Answer | null {
  const { raw, method } = request;
  if (!isWebSocket(raw)) return null;
  if (kind === 'portForward') {
    if (!offered.includes(TUNNEL_PROTOCOL) || isWellFormed(raw)) return null;
    return withVersion(refusal(400, 'Bad Request'));
  }
  if (!offered.includes(COMMAND_PROTOCOL)) return null;
  if (method !== 'GET') return text(405, 'bad method');
  if (raw.headers['sec-websocket-key'] === undefined) return untyped('mismatch challenge/response');
  if (raw.headers['sec-websocket-version'] !== '13') {
    return withVersion(untyped('missing or bad WebSocket Version'));
  }
  return isWellFormed(raw) ? null : untyped('mismatch challenge/response');
}

/** A response without a content type, because upstream's WebSocket library writes it and bypasses the HTTP server. */
const untyped = (body: string): Answer => ({
  status: 400,
  headers: { 'content-length': String(body.length) },
  body: Readable.from([Buffer.from(body)]),
});

/** Announces the supported version of the protocol (RFC 6455 4.4). */
const withVersion = (answer: Answer): Answer => ({
  ...answer,
  headers: { ...answer.headers, 'sec-websocket-version': '13' },
});

/** The handshake of RFC 6455: version 13 and a key of 16 bytes. */
const isWellFormed = ({ headers }: IncomingMessage): boolean =>
  headers['sec-websocket-version'] === '13' && /^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '');
