/** The connection from the API server to a kubelet: logs, exec, attach, port forwarding, and the proxy of a node. */

import { request as httpsRequest } from 'node:https';
import type { Duplex } from 'node:stream';
import { connect, type TLSSocket } from 'node:tls';
import { join } from '../../../src/actors/server/streaming/tunnel.ts';
import { badRequest, notFound, Refusal, unknownPath } from '../../../src/simulation/api-server/errors.ts';
import { type Fields, knownKind, textOf } from '../../../src/simulation/api-server/kinds.ts';
import type { Place } from '../../../src/simulation/api-server/registry.ts';
import type { Store } from '../../../src/simulation/api-server/store.ts';
import type { Credential } from './pki.ts';
import type { Request } from './users.ts';
import type { Response } from './watches.ts';

export interface KubeletAddress {
  readonly host: string;
  readonly port: number;
}

interface NodeProxyOptions {
  readonly store: Store;
  /** The credential of a user that the kubelet trusts. */
  readonly credential: Credential;
  /** The address of a node's kubelet; by default that in the node's status. */
  readonly address?: (nodeName: string) => KubeletAddress | undefined;
}

const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'host', 'authorization', 'upgrade']);

export class NodeProxy {
  private readonly options: NodeProxyOptions;

  constructor(options: NodeProxyOptions) {
    this.options = options;
  }

  /** Forwards a request with its body, and the answer. */
  forward(request: Request, response: Response, place: Place, rest: string, query: URLSearchParams): void {
    const { address, path } = this.target(place, rest, query);
    const passed = Object.entries(request.headers).filter(([name]) => !name.startsWith(':') && !HOP_BY_HOP.has(name));
    const outgoing = httpsRequest(
      {
        ...address,
        ...this.options.credential,
        path,
        method: request.method,
        headers: Object.fromEntries(passed),
        rejectUnauthorized: false,
        agent: false,
      },
      (answer) => {
        const { statusCode = 502 } = answer;
        if (place.subresource === 'log' && statusCode >= 400) {
          refuseLog(statusCode, answer, response).catch(() => response.destroy());
          return;
        }
        const headers = Object.entries(answer.headers).filter(([name]) => !HOP_BY_HOP.has(name));
        // Redirects to paths of the kubelet become redirects to paths behind the proxy.
        const { location } = answer.headers;
        const moved = location?.startsWith('/') ? { location: `/api/v1/nodes/${place.name}/proxy${location}` } : {};
        response.writeHead(statusCode, { ...Object.fromEntries(headers), ...moved } as Record<string, string>);
        answer.pipe(response);
      },
    );
    outgoing.on('error', (error) => {
      response.writeHead(500, { 'content-type': 'application/json' });
      response.end(unreachable(error));
    });
    response.once('close', () => outgoing.destroy());
    request.pipe(outgoing);
  }

  /** Forwards a connection unchanged after its first request, for SPDY and WebSocket. */
  upgrade(request: Request, socket: Duplex, head: Buffer, place: Place, rest: string, query: URLSearchParams): void {
    const { address, path } = this.target(place, rest, query);
    const backend: TLSSocket = connect({ ...address, ...this.options.credential, rejectUnauthorized: false }, () => {
      const lines = Object.entries(request.headers)
        .filter(([name]) => !['host', 'authorization'].includes(name))
        .map(([name, value]) => `${name}: ${String(value)}`);
      const first = `${request.method} ${path} HTTP/1.1`;
      backend.write(`${[first, `host: ${address.host}:${address.port}`, ...lines].join('\r\n')}\r\n\r\n`);
      if (head.length > 0) backend.write(head);
      backend.removeAllListeners('error');
      join(backend, socket);
    });
    backend.on('error', (error) => {
      const body = unreachable(error);
      const head = ['HTTP/1.1 500 Internal Server Error', 'content-type: application/json', 'connection: close'];
      socket.end(`${head.join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    });
    socket.on('error', () => backend.destroy());
  }

  private target(place: Place, rest: string, query: URLSearchParams): { address: KubeletAddress; path: string } {
    if (place.kind.resource === 'nodes') {
      const path = withQuery(`/${rest}`, query);
      return { address: this.addressOf(nodeNameIn(place.name)), path };
    }
    const pod = this.options.store.find(place.kind, place.namespace, place.name);
    if (!pod) throw notFound(place.kind, place.name);
    const node = pod.spec?.['nodeName'];
    if (typeof node !== 'string') throw badRequest(`pod ${place.name} does not have a host assigned`);
    const path = podPath(place, place.subresource === 'portforward' ? '' : containerOf(place, pod.spec, query), query);
    return { address: this.addressOf(node), path };
  }

  private addressOf(nodeName: string): KubeletAddress {
    const own = this.options.address?.(nodeName);
    if (own) return own;
    const kind = knownKind('v1', 'nodes');
    const node = this.options.store.find(kind, undefined, nodeName);
    if (!node) throw notFound(kind, nodeName);
    const addresses = (node.status?.['addresses'] ?? []) as { type: string; address: string }[];
    const host = ['InternalIP', 'ExternalIP', 'Hostname'].flatMap((type) =>
      addresses.filter((each) => each.type === type),
    )[0]?.address;
    const endpoints = node.status?.['daemonEndpoints'] as { kubeletEndpoint?: { Port?: number } } | undefined;
    const port = endpoints?.kubeletEndpoint?.Port;
    if (host === undefined || port === undefined) {
      throw new Refusal(`no preferred addresses found; known addresses: ${JSON.stringify(addresses)}`, {
        code: 500,
        reason: 'InternalError',
      });
    }
    return { host, port };
  }
}

/** Accepts `node1`, `node1:10250`, `https:node1:`. */
function nodeNameIn(name: string): string {
  const parts = name.split(':');
  return parts[parts.length === 3 ? 1 : 0]!;
}

const unreachable = ({ message }: Error): string =>
  JSON.stringify(new Refusal(`error dialing backend: ${message}`, { code: 500, reason: 'InternalError' }).status());

/** The kubelet rejects a request for a log with a text, from which an API server makes a Status. */
async function refuseLog(code: number, answer: AsyncIterable<Buffer>, response: Response): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  const message = Buffer.concat(chunks).toString();
  const refusal = code === 400 ? badRequest(message) : new Refusal(message, { code, reason: 'InternalError' });
  response.writeHead(code, { 'content-type': 'application/json' });
  response.end(JSON.stringify(refusal.status()));
}

const withQuery = (path: string, query: URLSearchParams): string =>
  query.size > 0 ? `${path}?${query.toString()}` : path;

function containerOf({ name }: Place, spec: Fields | undefined, query: URLSearchParams): string {
  const asked = query.get('container');
  const namesIn = (field: string) => ((spec?.[field] ?? []) as Fields[]).map((each) => textOf(each['name']));
  const names = namesIn('containers');
  if (asked) {
    const known = [...names, ...namesIn('initContainers'), ...namesIn('ephemeralContainers')];
    if (!known.includes(asked)) throw badRequest(`container ${asked} is not valid for pod ${name}`);
    return asked;
  }
  if (names.length === 1) return names[0]!;
  throw badRequest(`a container name must be specified for pod ${name}, choose one of: [${names.join(' ')}]`);
}

/** The kubelet's path for a path of the API server. */
function podPath({ namespace, name, subresource }: Place, container: string, query: URLSearchParams): string {
  const rest = new URLSearchParams(query);
  rest.delete('container');
  switch (subresource) {
    case 'log':
      return withQuery(`/containerLogs/${namespace}/${name}/${container}`, rest);
    case 'portforward': {
      const ports = rest.get('ports');
      return withQuery(`/portForward/${namespace}/${name}`, new URLSearchParams(ports === null ? {} : { ports }));
    }
    case 'exec':
    case 'attach':
      return withQuery(`/${subresource}/${namespace}/${name}/${container}`, streamQuery(rest));
    default:
      throw unknownPath();
  }
}

function streamQuery(query: URLSearchParams): URLSearchParams {
  const names: Readonly<Record<string, string>> = { stdin: 'input', stdout: 'output', stderr: 'error', tty: 'tty' };
  const flags = Object.entries(names).filter(([name]) => ['true', '1'].includes(query.get(name) ?? ''));
  return new URLSearchParams([
    ...query.getAll('command').map((word): [string, string] => ['command', word]),
    ...flags.map(([, name]): [string, string] => [name, '1']),
  ]);
}
