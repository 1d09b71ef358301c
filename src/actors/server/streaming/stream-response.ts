/** Connects a client to the stream at the runtime's URL, or returns the response of a runtime that did not upgrade. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { type Answer, refusal, text, UPGRADED } from '../http/answer.ts';
import type { ApiRequest } from '../http/endpoint.ts';
import { RemoteCommand } from './remote-command.ts';
import { COMMAND_PROTOCOL, type Kind, optionsOf } from './stream-request.ts';
import {
  forwardedHeaders,
  forwardPorts,
  type Opened,
  openRuntimeStream,
  openSpdy,
  TUNNEL_PROTOCOL,
  tunnel,
} from './tunnel.ts';

/** The protocol offered to the runtime's SPDY server for a command: its status then is JSON. */
const RUNTIME_PROTOCOLS = ['v4.channel.k8s.io'];

/** Largest message of a client; kubectl sends up to 32 KiB. */
const MESSAGE_MAX_BYTES = 4 * 1024 * 1024;

/** The response if the runtime did not upgrade: the runtime's response, except for a redirect. */
function passedOn(kind: Kind, { response }: Opened): Answer {
  const { statusCode = 500, headers } = response;
  if (kind === 'portForward' && statusCode === 200) {
    response.destroy();
    return refusal(500, `invalid upgrade response: status code ${statusCode}`);
  }
  // An API server would follow a redirect with its own credentials (CVE-2020-8559).
  if (statusCode >= 300 && statusCode < 400) {
    response.destroy();
    return text(502, 'the backend attempted to redirect this request, which is not permitted');
  }
  const { connection: _connection, 'transfer-encoding': _encoding, ...kept } = headers;
  return { status: statusCode, headers: { ...present(kept), ...acceptedProtocols(response) }, body: response };
}

const present = (headers: IncomingMessage['headers']) =>
  Object.fromEntries(Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));

/** The accepted protocols, one header each: Node would join repeated headers, but clients read them one by one. */
function acceptedProtocols({ headersDistinct }: IncomingMessage): Record<string, string[]> {
  const name = 'x-accepted-stream-protocol-versions';
  const values = headersDistinct[name];
  return values === undefined ? {} : { [name]: values };
}

export async function serveTunnel(kind: Kind, url: string, request: ApiRequest): Promise<Answer> {
  if (!request.upgrade) {
    const { raw } = request;
    return passedOn(kind, await openRuntimeStream(url, raw.method ?? 'GET', forwardedHeaders(raw, url)));
  }
  const answered = await tunnel(url, request.raw, request.upgrade);
  return answered === null ? UPGRADED : passedOn(kind, { kind: 'answered', response: answered });
}

export async function serveCommand(kind: Kind, url: string, request: ApiRequest): Promise<Answer> {
  const opened = await openSpdy(url, RUNTIME_PROTOCOLS);
  if (opened.kind === 'answered') return passedOn(kind, opened);
  acceptWebSocket(request, COMMAND_PROTOCOL, opened, (client) => {
    void new RemoteCommand(client, opened, { ...optionsOf(request), attaches: kind === 'attach' });
  });
  return UPGRADED;
}

export async function servePorts(url: string, request: ApiRequest): Promise<Answer> {
  const opened = await openSpdy(url, ['portforward.k8s.io']);
  if (opened.kind === 'answered') return passedOn('portForward', opened);
  acceptWebSocket(request, TUNNEL_PROTOCOL, opened, (client) => forwardPorts(client, opened));
  return UPGRADED;
}

type Client = Parameters<Parameters<WebSocketServer['handleUpgrade']>[3]>[0];

/** Completes the client's upgrade; destroys the runtime's connection if the client disconnected in the meantime. */
function acceptWebSocket(
  request: ApiRequest,
  protocol: string,
  runtime: { readonly socket: Duplex },
  begin: (client: Client) => void,
): void {
  let hasBegun = false;
  const { socket, head }: { socket: Duplex; head: Buffer } = request.upgrade!.take();
  const server = new WebSocketServer({ noServer: true, maxPayload: MESSAGE_MAX_BYTES, perMessageDeflate: false });
  // The name of the SPDY tunnel is no token, so the library would reject it.
  delete request.raw.headers['sec-websocket-protocol'];
  server.on('headers', (headers) => headers.push(`Sec-WebSocket-Protocol: ${protocol}`));
  server.handleUpgrade(request.raw, socket, head, (client) => {
    hasBegun = true;
    begin(client);
  });
  if (!hasBegun) runtime.socket.destroy();
}
