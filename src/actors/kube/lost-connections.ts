/**
 * How an HTTP/2 connection that died in silence is found: it is pinged, and ended when no answer comes in time.
 *
 * A connection may carry nothing but watches, on which an hour without a word is no sign of anything. The HTTP library
 * sends pings, but does not miss their answers. Only connections with TLS are tested: those of gRPC are sockets of this
 * machine, and its servers close a connection that is pinged too often.
 */
import { subscribe } from 'node:diagnostics_channel';
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';

const SECOND_MS = 1_000;
/** Go's names and defaults. */
const READ_IDLE = { name: 'HTTP2_READ_IDLE_TIMEOUT_SECONDS', seconds: 30 };
const PING = { name: 'HTTP2_PING_TIMEOUT_SECONDS', seconds: 15 };

const tested = new WeakSet<ClientHttp2Session>();

/** Every connection of this process is watched from its first stream on. */
export function endLostConnections(): void {
  subscribe('http2.client.stream.created', (message) => {
    const { session } = (message as { readonly stream: ClientHttp2Stream }).stream;
    if (session?.encrypted) lookAfter(session as ClientHttp2Session);
  });
}

function lookAfter(session: ClientHttp2Session): void {
  const idleMs = millisecondsOf(READ_IDLE);
  if (idleMs === 0 || tested.has(session)) return;
  tested.add(session);
  const timer = setInterval(() => ping(session), idleMs).unref();
  session.once('close', () => clearInterval(timer));
}

function ping(session: ClientHttp2Session): void {
  if (session.destroyed) return;
  const limit = setTimeout(
    () => {
      session.destroy(Object.assign(new Error('http2: client connection lost'), { code: 'ECONNRESET' }));
    },
    millisecondsOf(PING) || PING.seconds * SECOND_MS,
  ).unref();
  session.ping(() => clearTimeout(limit));
}

/** What is no number is as if it was not there. */
function millisecondsOf({ name, seconds }: { readonly name: string; readonly seconds: number }): number {
  const said = process.env[name] ?? '';
  return (/^\d+$/.test(said) ? Number(said) : seconds) * SECOND_MS;
}
