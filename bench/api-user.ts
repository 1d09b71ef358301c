/**
 * A user of the API server with a connection of its own: posts and deletes pods, and follows them on a watch. Times are
 * those at which this process received the event.
 */
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { Agent } from 'undici';
import type { PodStatus } from '../src/machines/model/api/pod.ts';
import type { ApiServer } from '../test/fakes/api-server/index.ts';

const TOKEN = 'bench';
const PODS = '/api/v1/namespaces/default/pods';
/** Ninety pods at once take a quarter of this on a busy machine. */
const PATIENCE_MS = 120_000;

interface PodEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: { readonly metadata: { readonly name: string }; readonly status?: PodStatus };
}

type Matches = (event: PodEvent) => boolean;

interface Waiter {
  readonly name: string;
  readonly matches: Matches;
  readonly done: (atMs: number) => void;
}

export const isRunning: Matches = ({ object: { status } }) =>
  status?.phase === 'Running' && (status.containerStatuses ?? []).every(({ state }) => state?.running !== undefined);
export const isDeleted: Matches = ({ type }) => type === 'DELETED';

export class ApiUser {
  readonly #server: ApiServer;
  readonly #dispatcher: Agent;
  readonly #stop = new AbortController();
  #waiters: Waiter[] = [];

  constructor(server: ApiServer) {
    this.#server = server;
    server.users.tokens.set(TOKEN, { name: 'bench', groups: ['system:masters'] });
    this.#dispatcher = new Agent({ connect: { ca: readFileSync(server.caFile) }, bodyTimeout: 0 });
  }

  /** Resolves when the watch is open. */
  async watch(): Promise<void> {
    const { body } = await this.#request('GET', `${PODS}?watch=1`, undefined, this.#stop.signal);
    const lines = createInterface({ input: body });
    lines.on('line', (line) => this.#take(JSON.parse(line) as PodEvent));
    lines.on('error', (error: Error) => {
      if (!this.#stop.signal.aborted) throw new Error(`the watch of pods broke: ${error.message}`, { cause: error });
    });
  }

  #take(event: PodEvent): void {
    const atMs = performance.now();
    const isMeant = ({ name, matches }: Waiter) => event.object.metadata.name === name && matches(event);
    for (const { done } of this.#waiters.filter(isMeant)) done(atMs);
    this.#waiters = this.#waiters.filter((waiter) => !isMeant(waiter));
  }

  /** The time (`performance.now()`) of the pod's next event on the watch for which `matches` is true. */
  when(name: string, matches: Matches): Promise<number> {
    return new Promise((done, fail) => {
      const late = () =>
        fail(new Error(`the pod ${name}: not within ${PATIENCE_MS} ms: ${JSON.stringify(this.#now(name))}`));
      const timer = setTimeout(late, PATIENCE_MS);
      const seen = (atMs: number) => {
        clearTimeout(timer);
        done(atMs);
      };
      this.#waiters.push({ name, matches, done: seen });
    });
  }

  #now(name: string): unknown {
    return this.#server.store.get('v1', 'pods', name, 'default')?.status ?? 'there is no such pod';
  }

  /** Resolves when the API server has stored the pod. */
  async post(pod: object): Promise<void> {
    await (await this.#request('POST', PODS, JSON.stringify(pod))).body.dump();
  }

  /** Milliseconds from the POST of the pod to the event that shows it running. */
  async start(pod: { readonly metadata: { readonly name: string } }): Promise<number> {
    const running = this.when(pod.metadata.name, isRunning);
    const startedAt = performance.now();
    await this.post(pod);
    return (await running) - startedAt;
  }

  /** Milliseconds from the DELETE of the pod to the event of its removal. */
  async remove(name: string): Promise<number> {
    const deleted = this.when(name, isDeleted);
    const startedAt = performance.now();
    await (await this.#request('DELETE', `${PODS}/${name}`)).body.dump();
    return (await deleted) - startedAt;
  }

  async #request(method: 'GET' | 'POST' | 'DELETE', path: string, body?: string, signal?: AbortSignal) {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
    const origin = this.#server.url;
    const options = { origin, path, method, headers, body: body ?? null, signal: signal ?? null };
    const answer = await this.#dispatcher.request(options);
    if (answer.statusCode >= 300)
      throw new Error(`${method} ${path}: ${answer.statusCode} ${await answer.body.text()}`);
    return answer as { readonly body: Readable & { dump(): Promise<void> } };
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#dispatcher.destroy();
  }
}
