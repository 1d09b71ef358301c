/**
 * PortForward of the embedded runtime: connections of a client to ports of a pod, which are ports of the host.
 *
 * Invariants: a connection ends with its two streams, and the reverse; a request with only one stream is dropped.
 */
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { codeOf, messageOf } from '../../../kernel/thrown.ts';
import { SpdyServer, type SpdyServerStream } from '../../spdy/server.ts';

export const PORT_PROTOCOL = 'portforward.k8s.io';

/** Upstream's limit for the second stream of a request. */
const PAIRING_LIMIT_MS = 30_000;

interface Pair {
  data?: SpdyServerStream;
  error?: SpdyServerStream;
  readonly late: NodeJS.Timeout;
}

/**
 * Serves a client connection, with many connections to ports, until the client ends it. A request of the client is two
 * streams with the same `requestid`, for data and for errors.
 */
export function forwardPorts(socket: Duplex, head: Buffer, sandboxId: string): void {
  const pairs = new Map<string, Pair>();
  const drop = (id: string): void => {
    const pair = pairs.get(id);
    pairs.delete(id);
    pair?.data?.destroy();
    pair?.error?.destroy();
  };
  const session = new SpdyServer(socket, head, (stream) => {
    const { streamtype: type, requestid: id = '', port = '' } = stream.headers;
    if (type !== 'data' && type !== 'error') {
      stream.destroy();
      return;
    }
    const pair = pairs.get(id) ?? { late: setTimeout(() => drop(id), PAIRING_LIMIT_MS) };
    pairs.set(id, pair);
    pair[type] = stream;
    if (!pair.data || !pair.error) return;
    clearTimeout(pair.late);
    pairs.delete(id);
    void forward(Number(port), pair.data, pair.error, sandboxId);
  });
  session.gone.addEventListener('abort', () => {
    for (const { late } of pairs.values()) clearTimeout(late);
  });
}

async function forward(port: number, data: SpdyServerStream, error: SpdyServerStream, sandboxId: string) {
  // The client sends nothing on the error stream.
  error.resume();
  try {
    join(await connected(port), data);
    data.once('close', () => error.end());
  } catch (thrown) {
    const why = `error forwarding port ${port} to pod ${sandboxId}, uid : ${messageOf(thrown)}`;
    error.end(why);
    data.end();
    data.resume();
  }
}

/** Connects to a local port over IPv4 or IPv6, as upstream. Rejects with both errors in one text. */
async function connected(port: number): Promise<Socket> {
  const refusals: string[] = [];
  for (const host of ['127.0.0.1', '::1']) {
    try {
      return await opened(port, host);
    } catch (thrown) {
      refusals.push(codeOf(thrown) === 'ECONNREFUSED' ? 'connection refused' : String(thrown));
    }
  }
  const [first = '', second = ''] = refusals;
  throw new Error(
    `failed to connect to localhost:${port} on the host, IPv4: dial tcp4 127.0.0.1:${port}: connect: ${first} ` +
      `IPv6 dial tcp6 [::1]:${port}: connect: ${second}`,
  );
}

const opened = (port: number, host: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect({ port, host, allowHalfOpen: true, noDelay: true });
    socket.once('connect', () => {
      socket.removeListener('error', reject);
      resolve(socket);
    });
    socket.once('error', reject);
  });

/** Forwards the end of each side; if one side breaks without an end, the other is destroyed. */
function join(socket: Socket, stream: SpdyServerStream): void {
  socket.on('error', () => socket.destroy());
  socket.pipe(stream);
  stream.pipe(socket);
  socket.once('close', () => {
    if (!socket.readableEnded) stream.destroy();
  });
  stream.once('close', () => {
    if (!stream.readableEnded || !stream.writableFinished) socket.destroy();
  });
}
