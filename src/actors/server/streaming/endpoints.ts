/**
 * `/exec`, `/attach`, `/portForward`: streams between a client and a container, over the runtime's streaming server.
 *
 * Decides: which requests are rejected; which protocols this node handles itself (`v5.channel.k8s.io`, the SPDY tunnel)
 * and which the runtime (all others).
 * Upstream: pkg/kubelet/server/server.go, proxyStream and the handlers of WebSockets.
 */
import type { OperationError } from '../../../kernel/json.ts';
import { messageOf } from '../../../kernel/thrown.ts';
import { type Answer, pageNotFound, refusal, text, UPGRADED } from '../http/answer.ts';
import type { ApiRequest, Endpoint } from '../http/endpoint.ts';
import { type ApiView, containerSpec, isAnswer, type NodePod, podOf, runningContainer } from '../node-pods.ts';
import type { StreamOptions } from './remote-command.ts';
import {
  COMMAND_PROTOCOL,
  handshakeRefusal,
  hasStream,
  type Kind,
  optionsOf,
  portsOf,
  protocolsOf,
  wantsUpgrade,
} from './stream-request.ts';
import { serveCommand, servePorts, serveTunnel } from './stream-response.ts';
import { TUNNEL_PROTOCOL } from './tunnel.ts';

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
