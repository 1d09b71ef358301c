/** Plain requests to an API server, with its answers and errors unchanged. */

import { loadKubeconfig } from '../../src/actors/kube/kubeconfig.ts';
import { Transport, type TransportRequest } from '../../src/actors/kube/transport.ts';
import type { Json } from '../../src/kernel/json.ts';
import type { KubeObject } from '../../src/machines/model/operations/kube.ts';
import { patient } from './patience.ts';

type Method = TransportRequest['method'];

interface ListObject {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly KubeObject[];
}

const LIMIT_MS = patient(30_000);
const DONE = [200, 202];
const CREATED = [201];
const NOT_FOUND = 404;
const CONFLICT = 409;

export class Rest {
  private readonly transport: Transport;

  constructor(kubeconfig: string) {
    this.transport = new Transport(loadKubeconfig(kubeconfig), null);
  }

  get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<KubeObject> {
    return this.expectOk('GET', path, undefined, headers);
  }

  post(path: string, body: object): Promise<KubeObject> {
    return this.expectOk('POST', path, body);
  }

  put(path: string, body: object): Promise<KubeObject> {
    return this.expectOk('PUT', path, body);
  }

  patch(path: string, contentType: string, body: object): Promise<KubeObject> {
    return this.expectOk('PATCH', path, body, { 'content-type': contentType });
  }

  delete(path: string, options: object): Promise<KubeObject> {
    return this.expectOk('DELETE', path, { apiVersion: 'v1', kind: 'DeleteOptions', ...options });
  }

  async list(path: string, query: Readonly<Record<string, string>>): Promise<ListObject> {
    return (await this.get(`${path}?${new URLSearchParams(query).toString()}`)) as unknown as ListObject;
  }

  /** The Status of a request that must fail. */
  async refused(method: Method, path: string, body?: object | Json, contentType?: string): Promise<object> {
    const options = method === 'DELETE' ? { apiVersion: 'v1', kind: 'DeleteOptions', ...(body as object) } : body;
    const { code, value } = await this.send(method, path, options, contentType ? { 'content-type': contentType } : {});
    if (code < 300) throw new Error(`${method} ${path} was carried out`);
    return value as object;
  }

  /** All events of a watch until the server ends it. */
  async watch(path: string, query: Readonly<Record<string, string>>): Promise<{ type: string; object: KubeObject }[]> {
    const search = new URLSearchParams({ ...query, watch: 'true' }).toString();
    const { text } = await this.send('GET', `${path}?${search}`);
    const lines = text.split('\n').filter(Boolean);
    return lines.map((line) => JSON.parse(line) as { type: string; object: KubeObject });
  }

  /** Creates an object that does not exist yet. */
  async ensure(path: string, body: object): Promise<void> {
    await this.expect([...CREATED, CONFLICT], 'POST', path, body);
  }

  async ensureDeleted(path: string, options: object): Promise<void> {
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', ...options };
    await this.expect([...DONE, NOT_FOUND], 'DELETE', path, body);
  }

  /** The answer as text. */
  async text(path: string): Promise<string> {
    return (await this.exchange('GET', path)).text;
  }

  private async expectOk(method: Method, path: string, body?: object, headers = {}): Promise<KubeObject> {
    const { code, value, text } = await this.send(method, path, body, headers);
    if (code >= 300) throw new Error(`${method} ${path}: ${code} ${text}`);
    return value as KubeObject;
  }

  private async expect(codes: readonly number[], method: Method, path: string, body: object): Promise<void> {
    const { code, text } = await this.exchange(method, path, body);
    if (!codes.includes(code)) throw new Error(`${method} ${path}: ${code} ${text}`);
  }

  private async send(method: Method, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) {
    const { code, text } = await this.exchange(method, path, body, headers);
    return { code, text, value: path.includes('watch=true') ? null : valueOf(code, text) };
  }

  private async exchange(method: Method, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) {
    const answer = await this.transport.request({
      method,
      path,
      headers: {
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(LIMIT_MS),
      headersTimeoutMs: LIMIT_MS,
    });
    return { code: answer.statusCode, text: await answer.body.text() };
  }
}

/** Below `/api/v1` an unknown path is answered in plain text, from which clients make this Status. */
function valueOf(code: number, text: string): unknown {
  if (code !== 404 || text.startsWith('{')) return JSON.parse(text);
  const message = 'the server could not find the requested resource';
  return { kind: 'Status', status: 'Failure', code, reason: 'NotFound', message };
}

/** A pod with one container. */
export const pod = (name: string, metadata: object = {}, spec: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, ...metadata },
  spec: { automountServiceAccountToken: false, containers: [{ name: 'app', image: 'busybox' }], ...spec },
});
