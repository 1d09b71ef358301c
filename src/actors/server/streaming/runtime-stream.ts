/** A connection to the runtime's streaming server: the URL that it gave for one exec, attach or port forward. */
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import type { Duplex } from 'node:stream';
import { exchangeText } from '../../go-errors.ts';

/** Until the runtime has answered the upgrade; its own limit for a client to come is of the same size. */
const UPGRADE_TIMEOUT_MS = 30_000;

export type Opened =
  | { readonly kind: 'upgraded'; readonly response: IncomingMessage; readonly socket: Duplex; readonly head: Buffer }
  /** The runtime answered, but did not upgrade. */
  | { readonly kind: 'answered'; readonly response: IncomingMessage };

/**
 * Requests an upgrade at `url` with these headers.
 * @throws the error of the connection with Go's text: connection refused, or no answer in time
 */
export function openRuntimeStream(url: string, method: string, headers: OutgoingHttpHeaders): Promise<Opened> {
  return new Promise((resolve, reject) => {
    const asked = request(url, {
      method,
      headers,
      timeout: UPGRADE_TIMEOUT_MS,
      setDefaultHeaders: false,
      agent: false,
    });
    asked.once('upgrade', (response, socket, head) => {
      (socket as Duplex & { setTimeout(ms: number): void }).setTimeout(0);
      resolve({ kind: 'upgraded', response, socket, head });
    });
    asked.once('response', (response) => resolve({ kind: 'answered', response }));
    asked.once('timeout', () => asked.destroy(new Error(`the runtime did not answer at ${new URL(url).host} in time`)));
    asked.once('error', (error) => reject(new Error(exchangeText(new URL(url).host, error), { cause: error })));
    asked.end();
  });
}

/** Opens `url` as a SPDY client that speaks one of `protocols`. */
export const openSpdy = (url: string, protocols: readonly string[]): Promise<Opened> =>
  openRuntimeStream(url, 'POST', {
    Host: new URL(url).host,
    Connection: 'Upgrade',
    Upgrade: 'SPDY/3.1',
    'X-Stream-Protocol-Version': [...protocols],
    'Content-Length': '0',
  });
