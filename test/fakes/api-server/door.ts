/** The first steps of a request: authentication, faults, and its target. */
import type { Duplex } from 'node:stream';
import { notAllowed, Refusal, unknownPath } from '../../../src/simulation/api-server/errors.ts';
import type { ApiObject, User } from '../../../src/simulation/api-server/kinds.ts';
import type { Place } from '../../../src/simulation/api-server/registry.ts';
import type { Store } from '../../../src/simulation/api-server/store.ts';
import { send } from './answers.ts';
import { discovery } from './discovery.ts';
import type { Fault, Faults } from './faults.ts';
import { authorize, verbOf } from './node-authorizer.ts';
import type { NodeProxy } from './node-proxy.ts';
import { isTable, type Router, type Target, targetOf } from './router.ts';
import { tableOf } from './table.ts';
import type { Request, Users } from './users.ts';
import { destroy, type Response, type Watches } from './watches.ts';

/** The newest requests are kept for tests that count them. */
const REQUESTS_MAX = 100_000;

export interface SeenRequest {
  readonly atMs: number;
  readonly method: string;
  /** The path with its query. */
  readonly path: string;
  readonly user: string;
  readonly userAgent: string;
  readonly watch: boolean;
  readonly httpVersion: string;
}

interface DoorParts {
  readonly users: Users;
  readonly faults: Faults;
  readonly router: Router;
  readonly watches: Watches;
  readonly proxy: NodeProxy;
  readonly store: Store;
}

export class Door {
  readonly requests: SeenRequest[] = [];
  private readonly parts: DoorParts;

  constructor(parts: DoorParts) {
    this.parts = parts;
  }

  onRequest(request: Request, response: Response): void {
    const chunks: Buffer[] = [];
    request.on('error', () => undefined);
    response.on('error', () => undefined);
    const url = new URL(request.url ?? '/', 'https://localhost');
    try {
      const user = this.parts.users.authenticate(request);
      const watch = url.searchParams.get('watch') === 'true' || url.searchParams.get('watch') === '1';
      const fault = this.note(request, user, watch);
      if (this.isStreamed(url)) return this.forward(request, response, url);
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        this.afterFault(response, fault, () => this.reply(request, response, { url, user, watch, body, fault }));
      });
    } catch (error) {
      refuse(response, error);
    }
  }

  private note(request: Request, user: User, watch: boolean): Fault | undefined {
    const method = request.method ?? 'GET';
    const path = request.url ?? '/';
    const userAgent = request.headers['user-agent'] ?? '';
    const { httpVersion } = request;
    this.requests.push({ atMs: Date.now(), method, path, user: user.name, userAgent, watch, httpVersion });
    if (this.requests.length > REQUESTS_MAX) this.requests.shift();
    return this.parts.faults.meet({ method, path, user: user.name, watch });
  }

  private afterFault(response: Response, fault: Fault | undefined, carryOut: () => void): void {
    switch (fault?.kind) {
      case 'status': {
        const { code, reason = '', message = 'the test asked for this', retryAfterSeconds } = fault;
        const details = retryAfterSeconds === undefined ? { code, reason } : { code, reason, retryAfterSeconds };
        return refuse(response, new Refusal(message, details));
      }
      case 'drop':
        return destroy(response);
      case 'hang':
        return;
      case 'body':
        response.setHeader('content-type', 'application/json');
        return void response.end(fault.text);
      case 'delay':
        return void setTimeout(carryOut, fault.ms);
      default:
        return carryOut();
    }
  }

  private reply(
    request: Request,
    response: Response,
    { url, user, watch, body, fault }: { url: URL; user: User; watch: boolean; body: string; fault: Fault | undefined },
  ): void {
    try {
      const found = request.method === 'GET' ? discovery(url.pathname.replace(/(?<=.)\/$/, '')) : undefined;
      if (found !== undefined) return send(response, { code: 200, body: found }, fault);
      if (['/healthz', '/livez', '/readyz'].includes(url.pathname)) {
        response.end('ok');
        return;
      }
      const target = targetOf(url.pathname);
      const accept = request.headers.accept ?? '';
      const verb = verbOf(request.method ?? 'GET', target, watch);
      authorize({ user, target, verb, query: url.searchParams }, this.parts.store);
      if (watch && request.method === 'GET') return this.watch(response, target, url.searchParams, accept);
      const call = {
        method: request.method ?? 'GET',
        target,
        query: url.searchParams,
        user,
        accept,
        contentType: (request.headers['content-type'] ?? '').split(';')[0]!.trim(),
        body,
      };
      send(response, this.parts.router.answer(call), fault);
    } catch (error) {
      refuse(response, error);
    }
  }

  private watch(response: Response, { kind, namespace, name }: Target, query: URLSearchParams, accept: string): void {
    if (kind.review) throw notAllowed();
    if (name !== undefined) query.set('fieldSelector', `metadata.name=${name}`);
    const render = (object: ApiObject) =>
      isTable({ accept })
        ? tableOf(kind, [object], query.get('includeObject'), object.metadata.resourceVersion)
        : object;
    this.parts.watches.serve(response, { kind, namespace, query, render });
  }

  /** Requests whose body and answer are those of a kubelet. */
  private isStreamed({ pathname }: URL): boolean {
    return /^\/api\/v1\/(nodes\/[^/]+\/proxy|namespaces\/[^/]+\/pods\/[^/]+\/(log|exec|attach|portforward))(\/|$)/.test(
      pathname,
    );
  }

  private forward(request: Request, response: Response, url: URL): void {
    const { kind, namespace, name = '', subresource, rest } = targetOf(url.pathname);
    const place: Place = { kind, namespace, name, subresource };
    this.parts.proxy.forward(request, response, place, rest, url.searchParams);
  }

  onUpgrade(request: Request, socket: Duplex, head: Buffer): void {
    try {
      const user = this.parts.users.authenticate(request);
      this.note(request, user, false);
      const url = new URL(request.url ?? '/', 'https://localhost');
      if (!this.isStreamed(url)) throw unknownPath();
      const { kind, namespace, name = '', subresource, rest } = targetOf(url.pathname);
      this.parts.proxy.upgrade(request, socket, head, { kind, namespace, name, subresource }, rest, url.searchParams);
    } catch (error) {
      const refusal = error instanceof Refusal ? error : undefined;
      const body = refusal ? JSON.stringify(refusal.status()) : String(error);
      const lines = [`HTTP/1.1 ${refusal?.code ?? 500} Refused`, 'content-type: application/json', 'connection: close'];
      socket.end(`${lines.join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    }
  }
}

function refuse(response: Response, thrown: unknown): void {
  if (!(thrown instanceof Refusal)) {
    const message = `Internal error occurred: ${thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)}`;
    return send(response, { code: 500, body: new Refusal(message, { code: 500, reason: 'InternalError' }).status() });
  }
  const headers = thrown.retryAfterSeconds === undefined ? {} : { 'retry-after': String(thrown.retryAfterSeconds) };
  send(response, { code: thrown.code, body: thrown.status(), headers });
}
