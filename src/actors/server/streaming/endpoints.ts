/**
 * `/exec`, `/attach`, `/portForward`: streams between a client and a container, over the runtime's streaming server.
 * Also `/run`, the output of one command, and the calls of the runtime for all of these, over the connection of the
 * machines.
 *
 * Decides: which requests are rejected; which protocols this node handles itself (`v5.channel.k8s.io`, the SPDY tunnel)
 * and which the runtime (all others).
 * Upstream: pkg/kubelet/server/server.go, proxyStream and the handlers of WebSockets.
 *
 * `/run/<namespace>/<pod>[/<uid>]/<container>?cmd=`: runs one command to its end and returns its output.
 * Upstream: pkg/kubelet/server/server.go, getRun.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import type { OperationError } from '../../../kernel/json.ts';
import { messageOf } from '../../../kernel/thrown.ts';
import type { RuntimeClient } from '../../cri/client.ts';
import type { CheckpointContainer } from '../endpoints/pods.ts';
import {
  type Answer,
  type ApiRequest,
  type Endpoint,
  first,
  json,
  pageNotFound,
  refusal,
  text,
  UPGRADED,
} from '../http/endpoint.ts';
import { type ApiView, containerSpec, isAnswer, type NodePod, podOf, runningContainer } from '../node-pods.ts';
import {
  COMMAND_PROTOCOL,
  handshakeRefusal,
  hasStream,
  type Kind,
  optionsOf,
  portsOf,
  protocolsOf,
  RemoteCommand,
  type StreamOptions,
  wantsUpgrade,
} from './remote-command.ts';
import {
  forwardedHeaders,
  forwardPorts,
  type Opened,
  openRuntimeStream,
  openSpdy,
  TUNNEL_PROTOCOL,
  tunnel,
} from './tunnel.ts';

/** The timeout of a checkpoint: upstream's default of runtimeRequestTimeout. Clients do not wait longer. */
const CHECKPOINT_TIMEOUT_MS = 120_000;
const MS_PER_SECOND = 1_000;

/** The calls, over the connection of the machines. */
export function runtimeCalls(call: RuntimeClient['call']): { execSync: ExecSync; checkpoint: CheckpointContainer } {
  return {
    // Without a timeout: the command ends with its client.
    execSync: async ({ containerId, command }, signal) => {
      const request = { container_id: containerId, cmd: command, timeout: '0' };
      const { exit_code: exitCode, stdout, stderr } = await call('ExecSync', request, { timeoutMs: null, signal });
      return { exitCode, stdout: Buffer.from(stdout), stderr: Buffer.from(stderr) };
    },
    checkpoint: async ({ containerId, location, timeoutSeconds }, signal) => {
      const timeoutMs = timeoutSeconds > 0 ? timeoutSeconds * MS_PER_SECOND : CHECKPOINT_TIMEOUT_MS;
      const request = { container_id: containerId, location, timeout: String(timeoutSeconds) };
      await call('CheckpointContainer', request, { timeoutMs, signal });
    },
  };
}

/** The timeout of a URL, which a working runtime returns at once. */
const URL_TIMEOUT_MS = 30_000;

/** URLs of streams, from the runtime's Exec, Attach and PortForward. */
export function runtimeStreamUrls(call: RuntimeClient['call']): StreamUrls {
  const limits = () => ({ timeoutMs: URL_TIMEOUT_MS, signal: AbortSignal.timeout(URL_TIMEOUT_MS) });
  return {
    exec: async ({ containerId, command, ...streams }) =>
      (await call('Exec', { container_id: containerId, cmd: command, ...streams }, limits())).url,
    attach: async ({ containerId, ...streams }) =>
      (await call('Attach', { container_id: containerId, ...streams }, limits())).url,
    portForward: async ({ podSandboxId, ports }) =>
      (await call('PortForward', { pod_sandbox_id: podSandboxId, port: ports }, limits())).url,
  };
}

/** Requests the URL of a stream from the runtime. Each rejects with the runtime's own text. */
export interface StreamUrls {
  exec(request: StreamOptions & { readonly containerId: string; readonly command: readonly string[] }): Promise<string>;
  attach(request: StreamOptions & { readonly containerId: string }): Promise<string>;
  portForward(request: { readonly podSandboxId: string; readonly ports: readonly number[] }): Promise<string>;
}

const METHODS = ['GET', 'POST'];

/** Upstream's lifetime of a URL: after it, a runtime with too many unused URLs accepts requests again. */
const URL_LIFETIME_SECONDS = '60';

export interface StreamingOptions {
  /** Called for each WebSocket stream that this node serves itself, once the runtime has returned the stream's URL. */
  readonly onWebSocket?: (kind: Kind) => void;
  /** Milliseconds after which a silent stream ends; 0 for never. */
  readonly idleMs?: () => number | Promise<number>;
}

export function streamingEndpoints(
  view: ApiView,
  urls: StreamUrls,
  { onWebSocket = () => {}, idleMs = () => 0 }: StreamingOptions = {},
): Endpoint[] {
  const common = { methods: METHODS, subresources: ['proxy'] } as const;
  const nowhere = (path: string): Endpoint => ({ ...common, path, methods: 'any', answer: pageNotFound });
  const stream = (kind: Kind, path: string): Endpoint => ({
    ...common,
    produces: [],
    path: `/${kind}/:namespace/:pod${path}`,
    answer: async (request) => {
      const silentMs = await idleMs();
      const answer = await serveStream(kind, view, urls, request, onWebSocket);
      const { socket } = request.raw;
      if (answer === UPGRADED) socket.setTimeout(silentMs, () => socket.destroy());
      return answer;
    },
  });
  return [
    ...(['exec', 'attach'] as const).flatMap((kind) => [
      stream(kind, '/:container'),
      stream(kind, '/:uid/:container'),
      nowhere(`/${kind}`),
      nowhere(`/${kind}/*`),
    ]),
    stream('portForward', ''),
    stream('portForward', '/:uid'),
    nowhere('/portForward'),
    nowhere('/portForward/*'),
  ];
}

async function serveStream(
  kind: Kind,
  view: ApiView,
  urls: StreamUrls,
  request: ApiRequest,
  onWebSocket: (kind: Kind) => void,
): Promise<Answer> {
  const ports = kind === 'portForward' ? portsOf(request) : [];
  if (typeof ports === 'string') return text(400, ports);
  const target = await targetOf(kind, view, request);
  if (isAnswer(target)) return target;
  if (!wantsUpgrade(request.raw)) return refusal(500, 'Upgrade request required');
  const offered = protocolsOf(request.raw);
  const refused = handshakeRefusal(kind, offered, request);
  if (refused) return refused;
  let url: string;
  try {
    url = await urlOf(kind, urls, { ...target, ports }, request);
  } catch (error) {
    return refusalOfRuntime(error as OperationError);
  }
  try {
    if (!offered.includes(kind === 'portForward' ? TUNNEL_PROTOCOL : COMMAND_PROTOCOL)) {
      return await serveTunnel(kind, url, request);
    }
    onWebSocket(kind);
    return await (kind === 'portForward' ? servePorts(url, request) : serveCommand(kind, url, request));
  } catch (error) {
    return refusal(500, messageOf(error));
  }
}

/** The error of upstream's streaming library when the runtime gives no URL. */
function refusalOfRuntime({ code, message }: OperationError): Answer {
  if (code === 'NOT_FOUND') return text(404, message);
  if (code !== 'RESOURCE_EXHAUSTED') return text(500, message);
  const answer = text(429, message);
  return { ...answer, headers: { ...answer.headers, 'retry-after': URL_LIFETIME_SECONDS } };
}

interface Instance {
  readonly id: string;
  /** Whether the process has a terminal, which clients cannot change. Only for attach. */
  readonly tty?: boolean;
}

/** The container instance of a stream, or the request's error before any call to the runtime. */
async function targetOf(kind: Kind, view: ApiView, request: ApiRequest): Promise<Instance | Answer> {
  if (kind !== 'portForward' && !hasStream(request)) {
    return text(400, 'you must specify at least 1 of stdin, stdout, stderr');
  }
  const pod = await podOf(view, request);
  if (isAnswer(pod)) return pod;
  if (kind === 'portForward') return sandboxOf(pod, request.parameters['uid']);
  const name = request.parameters['container'] ?? '';
  const container = runningContainer(pod, name);
  if (container && kind === 'exec') return { id: container.id };
  const spec = containerSpec(pod.pod, name);
  if (container && spec) return { id: container.id, tty: spec.tty === true };
  const where = `${pod.name}_${pod.namespace}`;
  return text(
    500,
    kind === 'exec' ? `container not found (${JSON.stringify(name)})` : `container ${name} not found in pod ${where}`,
  );
}

function sandboxOf(pod: NodePod, uid: string | undefined): { readonly id: string } | Answer {
  if (uid !== undefined && uid !== pod.uid) return text(404, 'pod not found');
  const sandbox = pod.runtime?.sandboxes.find(({ state }) => state === 'SANDBOX_READY');
  return sandbox ? { id: sandbox.id } : text(500, `pod not found (${JSON.stringify(`${pod.name}_${pod.namespace}`)})`);
}

interface Target extends Instance {
  readonly ports: readonly number[];
}

async function urlOf(
  kind: Kind,
  urls: StreamUrls,
  { id, ports, tty = false }: Target,
  request: ApiRequest,
): Promise<string> {
  if (kind === 'portForward') return await urls.portForward({ podSandboxId: id, ports });
  const stream = { ...optionsOf(request), containerId: id };
  if (kind === 'attach') return await urls.attach({ ...stream, tty });
  return await urls.exec({ ...stream, command: request.query.get('command') ?? [] });
}

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

async function serveTunnel(kind: Kind, url: string, request: ApiRequest): Promise<Answer> {
  if (!request.upgrade) {
    const { raw } = request;
    return passedOn(kind, await openRuntimeStream(url, raw.method ?? 'GET', forwardedHeaders(raw, url)));
  }
  const answered = await tunnel(url, request.raw, request.upgrade);
  return answered === null ? UPGRADED : passedOn(kind, { kind: 'answered', response: answered });
}

async function serveCommand(kind: Kind, url: string, request: ApiRequest): Promise<Answer> {
  const opened = await openSpdy(url, RUNTIME_PROTOCOLS);
  if (opened.kind === 'answered') return passedOn(kind, opened);
  acceptWebSocket(request, COMMAND_PROTOCOL, opened, (client) => {
    void new RemoteCommand(client, opened, { ...optionsOf(request), attaches: kind === 'attach' });
  });
  return UPGRADED;
}

async function servePorts(url: string, request: ApiRequest): Promise<Answer> {
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

/** Runs a command in a container and waits for its end. Rejects with the runtime's text if it cannot be started. */
export type ExecSync = (
  request: { readonly containerId: string; readonly command: readonly string[] },
  signal: AbortSignal,
) => Promise<{ readonly exitCode: number; readonly stdout: Buffer; readonly stderr: Buffer }>;

export function runEndpoints(view: ApiView, execSync: ExecSync): Endpoint[] {
  const common = { methods: ['POST'], subresources: ['proxy'] } as const;
  const answer = (request: ApiRequest) => run(view, execSync, request);
  return [
    { ...common, produces: [], path: '/run/:namespace/:pod/:container', answer },
    { ...common, produces: [], path: '/run/:namespace/:pod/:uid/:container', answer },
    { ...common, path: '/run', methods: 'any', answer: pageNotFound },
    { ...common, path: '/run/*', methods: 'any', answer: pageNotFound },
  ];
}

async function run(view: ApiView, execSync: ExecSync, request: ApiRequest): Promise<Answer> {
  const pod = await podOf(view, request);
  if (isAnswer(pod)) return pod;
  const name = request.parameters['container'] ?? '';
  const container = runningContainer(pod, name);
  if (!container) return text(500, `container not found (${JSON.stringify(name)})`);
  const cmd = first(request, 'cmd') ?? '';
  try {
    const { exitCode, stdout, stderr } = await execSync(
      { containerId: container.id, command: cmd.split(' ') },
      request.signal,
    );
    if (exitCode !== 0) return failed(`command '${cmd}' exited with ${exitCode}: `, stderr);
    const output = Buffer.concat([stdout, stderr]);
    return output.length === 0 ? { status: 200, headers: {}, body: '' } : json(output);
  } catch (error) {
    return text(500, messageOf(error));
  }
}

/** The error with the command's own error output, text or not. */
const failed = (why: string, stderr: Buffer): Answer => text(500, Buffer.concat([Buffer.from(why), stderr]));
