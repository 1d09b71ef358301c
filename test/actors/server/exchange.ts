/** A client that sends given bytes and returns the bytes of the answer. */
import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Shown } from './golden-node.ts';

export interface Reply {
  readonly status: number;
  /** In order, with the names as sent. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
  /** The head as received. */
  readonly head: string;
}

export interface Sent {
  readonly port: number;
  readonly shown?: Shown;
  readonly isPlain?: boolean;
  /** The time limit of the whole exchange; far longer than needed, unless given. */
  readonly withinMs?: number;
  /** For answers that leave the connection open: an answer is complete when nothing more arrived for so long. */
  readonly quietMs?: number;
}

export function connect({ port, shown = {}, isPlain = false }: Sent): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const common = { host: '127.0.0.1', port };
    const socket = isPlain
      ? connectPlain(common, () => resolve(socket))
      : connectTls({ ...common, ...shown.certificate, rejectUnauthorized: false }, () => resolve(socket));
    socket.on('error', reject);
  });
}

/** Everything that the server sends until it closes the connection or the time is over. */
export async function exchangeRaw(bytes: string | Buffer, sent: Sent): Promise<Buffer> {
  const socket = await connect(sent);
  const chunks: Buffer[] = [];
  const ended = new Promise<void>((resolve) => {
    let timer = setTimeout(resolve, sent.withinMs ?? 60_000);
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      if (sent.quietMs === undefined) return;
      clearTimeout(timer);
      timer = setTimeout(resolve, sent.quietMs);
    });
    socket.on('error', () => {});
    socket.once('close', () => (clearTimeout(timer), resolve()));
  });
  socket.write(bytes);
  await ended;
  socket.destroy();
  return Buffer.concat(chunks);
}

export async function exchange(
  method: string,
  path: string,
  sent: Sent & { readonly headers?: readonly string[]; readonly body?: string | undefined },
): Promise<Reply> {
  const { headers = [], body, shown = {} } = sent;
  const authorization = shown.authorization === undefined ? [] : [`Authorization: ${shown.authorization}`];
  const hasConnection = headers.some((header) => /^connection:/i.test(header));
  const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`];
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'Host: node1',
    ...authorization,
    ...(hasConnection ? [] : ['Connection: close']),
    ...headers,
    ...length,
  ];
  return parseReply(await exchangeRaw(`${lines.join('\r\n')}\r\n\r\n${body ?? ''}`, sent));
}

export function parseReply(bytes: Buffer): Reply {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) throw new Error(`no whole head in ${JSON.stringify(bytes.toString('latin1', 0, 200))}`);
  const head = bytes.toString('latin1', 0, end);
  const [first = '', ...rest] = head.split('\r\n');
  const headers = rest.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon), line.slice(colon + 1).trim()] as const;
  });
  const isChunked = headers.some(([name, value]) => name.toLowerCase() === 'transfer-encoding' && value === 'chunked');
  const body = bytes.subarray(end + 4);
  return { status: Number(first.split(' ')[1]), headers, body: isChunked ? dechunked(body) : body, head };
}

function dechunked(bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; ; ) {
    const end = bytes.indexOf('\r\n', at);
    const size = end < 0 ? 0 : Number.parseInt(bytes.toString('latin1', at, end), 16);
    if (!(size > 0)) return Buffer.concat(parts);
    parts.push(bytes.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
}

export const headerOf = ({ headers }: Reply, name: string): string | undefined =>
  headers.find(([each]) => each.toLowerCase() === name)?.[1];
