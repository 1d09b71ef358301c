/**
 * The API server's clients of one node, and the operations of machines on them.
 *
 * Invariants: before `kube.connect` succeeded every other operation fails with a clear text; objects for machines
 * contain handles instead of secrets, and objects for the server their values.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Vault } from '../../kernel/journal/secrets.ts';
import { type Json, memberOf, OperationError } from '../../kernel/json.ts';
import type { InputOf as OperationInput, PortCall, Ports } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type {
  KubeClient as ClientName,
  KubeObject,
  KubeSettings,
  KubeTarget,
  kubeOperations,
  WatchItem,
} from '../../machines/model/operations/kube.ts';
import { isTerminalPhase } from '../../machines/model/status/phase.ts';
import { openedPod } from '../pod-values.ts';
import { TokenBucket } from '../token-bucket.ts';
import { withLogin } from '../urls.ts';
import { type ClientRequest, KubeClient, type OnRequest, pathOf } from './client.ts';
import { checkClient } from './client-checks.ts';
import {
  answerToWrite,
  type DecodedList,
  decodedList,
  decodedObject,
  documentIdOf,
  isPod,
  memberText,
  POD_DOCUMENTS,
  parseExactly,
  sealed,
} from './decode.ts';
import { loadKubeconfig } from './kubeconfig.ts';
import type { OnTransport, Transport } from './transport.ts';
import { readWatch } from './watch.ts';

type KubePorts = Ports<typeof kubeOperations>;

export interface KubeConnection {
  readonly ports: KubePorts;
  /**
   * Creates an object on behalf of another port and returns the server's result: reviews of clients are not recorded in
   * the journal. Nothing is sealed.
   */
  readonly review: (target: Omit<KubeTarget, 'client'>, body: Json, signal: AbortSignal) => Promise<Json>;
  /** Reads an object on behalf of another port; nothing is sealed here either. */
  readonly read: (target: Omit<KubeTarget, 'client'>, signal: AbortSignal) => Promise<Json>;
  close(): Promise<void>;
}

/** Added to the requested duration of a watch: the server may be slow to end it. */
const WATCH_GRACE_MS = 30_000;
const SECOND_MS = 1_000;

type Clients = Readonly<Partial<Record<ClientName, KubeClient>>>;

export interface KubeOptions {
  /** Holds the values of secrets. */
  readonly vault: Vault;
  /** Receives each exchange with the server. */
  readonly onRequest?: OnRequest;
  /** Receives events of the underlying connections. */
  readonly onTransport?: OnTransport;
}

/** The ports of `kube.*`. */
export function connectKube({ vault, onRequest = () => undefined, onTransport }: KubeOptions): KubeConnection {
  const connection = new Connection(vault, onRequest, onTransport);
  return {
    ports: connection.ports(),
    review: async (target, body, signal) =>
      parseExactly(
        await connection.call({ ...target, client: 'kube' }, 'POST', { body: JSON.stringify(body), signal }),
      ),
    read: async (target, signal) =>
      parseExactly(await connection.call({ ...target, client: 'kube' }, 'GET', { signal })),
    close: () => connection.close(),
  };
}

class Connection {
  private readonly vault: Vault;
  private readonly onRequest: OnRequest;
  private readonly onTransport: OnTransport | undefined;
  private readonly transports = new Map<KubeSettings['role'], Transport>();
  private clients: Clients = {};

  constructor(vault: Vault, onRequest: OnRequest, onTransport: OnTransport | undefined) {
    this.vault = vault;
    this.onRequest = onRequest;
    this.onTransport = onTransport;
  }

  ports(): KubePorts {
    return {
      'kube.connect': async ({ input }) => await this.connect(input),
      'kube.closeConnections': async () => {
        await this.closeAll();
        return null;
      },
      'kube.checkHealth': async ({ input, signal }) => {
        const soon = AbortSignal.any([signal, AbortSignal.timeout(SECOND_MS)]);
        await this.client(input.client).call({ method: 'GET', path: '/healthz', signal: soon });
        return null;
      },
      'kube.get': ({ input, signal }) => this.object(input, 'GET', { signal }),
      'kube.list': (call) => this.list(call),
      'kube.watch': (call) => this.watch(call),
      'kube.create': ({ input, signal }) => this.object(input, 'POST', { body: this.body(input), signal }),
      'kube.update': ({ input, signal }) => this.object(input, 'PUT', { body: this.body(input), signal }),
      'kube.patch': ({ input, signal }) =>
        this.object(input, 'PATCH', {
          body: this.body(input),
          contentType: input.patchType,
          lane: laneOf(input, input.body),
          signal,
        }),
      'kube.delete': async ({ input, signal }) => {
        const { gracePeriodSeconds, preconditions } = input;
        const options = { kind: 'DeleteOptions', apiVersion: 'v1', gracePeriodSeconds, preconditions };
        await this.call(input, 'DELETE', { body: JSON.stringify(options), lane: laneOf(input, null), signal });
        return null;
      },
      'kube.deleteCollection': async ({ input, signal }) => {
        await this.call(input, 'DELETE', {
          query: { fieldSelector: input.fieldSelector, labelSelector: input.labelSelector },
          signal,
        });
        return null;
      },
    };
  }

  async call(
    target: KubeTarget,
    method: ClientRequest['method'],
    rest: Omit<ClientRequest, 'method' | 'path'>,
  ): Promise<string> {
    return await this.client(target.client).call({ method, path: pathFor(target, method), ...rest });
  }

  async close(): Promise<void> {
    await this.closeAll();
    this.clients = {};
  }

  private async connect(settings: KubeSettings): Promise<{ server: string }> {
    const config = loadKubeconfig(settings.kubeconfig, { mayLackCertificate: settings.isBootstrapping });
    if (settings.role === 'node' && !settings.isBootstrapping) checkClient(config, settings.certificateFile);
    await this.transports.get(settings.role)?.closeConnections();
    // The HTTP library uses 25 MB, which a standalone node saves.
    const { Transport } = await import('./transport.ts');
    const transport = new Transport(config, settings.certificateFile, this.onTransport);
    this.transports.set(settings.role, transport);
    this.clients = { ...this.clients, ...clientsOf(settings, transport, this.onRequest) };
    return { server: withLogin(config.server, () => '<masked>') };
  }

  private async closeAll(): Promise<void> {
    await Promise.all([...this.transports.values()].map((transport) => transport.closeConnections()));
  }

  private client(name: ClientName): KubeClient {
    const client = this.clients[name];
    if (client) return client;
    throw new OperationError(`the ${name} client is not connected to an API server yet`, {
      code: 'UNAVAILABLE',
      retriable: true,
    });
  }

  private body(target: KubeTarget & { readonly body: Json }): string {
    const body = isPod(target) ? openedPod(target.body, this.vault) : target.body;
    return JSON.stringify(this.vault.openAll(body));
  }

  private async object(
    target: KubeTarget,
    method: ClientRequest['method'],
    rest: Omit<ClientRequest, 'method' | 'path'>,
  ): Promise<KubeObject> {
    const object = decodedObject(complete(await this.call(target, method, rest)), target.resource);
    return (method === 'GET' ? sealed : answerToWrite)(target, object, this.vault);
  }

  private async list({ input, signal }: PortCall<InputOf<'kube.list'>>) {
    const { limit, resourceVersion, fieldSelector, labelSelector } = input;
    const query = { limit, continue: input.continue, resourceVersion, fieldSelector, labelSelector };
    const list = decodedList(complete(await this.call(input, 'GET', { query, signal })));
    const items = list.items.map((item) => sealed(input, item, this.vault));
    this.releaseUnlisted(input, list);
    return {
      items,
      resourceVersion: list.metadata.resourceVersion ?? '',
      continue: list.metadata.continue ?? '',
    };
  }

  /** Pods that ended unnoticed, such as while the API server was away. They are known by a list of a single page. */
  private releaseUnlisted(input: InputOf<'kube.list'>, { items, metadata }: DecodedList): void {
    if (!isPod(input) || input.name !== undefined || input.continue || metadata.continue) return;
    this.vault.releaseOthers(POD_DOCUMENTS, new Set(items.map(({ metadata }) => memberText(metadata, 'uid'))));
  }

  private async watch(call: PortCall<InputOf<'kube.watch'>, WatchItem>) {
    const { input, signal } = call;
    const { resourceVersion, timeoutSeconds, fieldSelector, labelSelector } = input;
    const query = {
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion,
      timeoutSeconds,
      fieldSelector,
      labelSelector,
    };
    const limitMs = timeoutSeconds === undefined ? undefined : timeoutSeconds * SECOND_MS + WATCH_GRACE_MS;
    const bounded = limitMs === undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
    const beganMs = performance.now();
    try {
      const request = { method: 'GET', path: pathFor(input, 'LIST'), query, signal: bounded } as const;
      const answer = await this.client(input.client).open(request);
      const end = await readWatch(answer, resourceVersion, (change, object) => {
        // A cancelled watch reports nothing more: the next watch reads these changes again.
        if (signal.aborted) return;
        call.emit({ type: 'watch.changed', change, object: sealed(input, object, this.vault) });
        if (change === 'DELETED') this.release(input, object);
      });
      return end.reason === 'expired' ? await expired(resourceVersion, beganMs, signal) : end;
    } catch (error) {
      const code = codeOf(error) ?? '';
      if (code === 'Expired' || code === 'Gone') return await expired(resourceVersion, beganMs, signal);
      throw UNREADABLE.has(code) ? unreadable(error) : error;
    } finally {
      // No pod uses the object any more.
      const name = nameIn(fieldSelector);
      if (signal.aborted && name !== undefined)
        this.release(input, { metadata: { namespace: input.namespace ?? '', name } });
    }
  }

  private release(target: KubeTarget, object: Pick<KubeObject, 'metadata'>): void {
    const id = documentIdOf(target, object);
    if (id !== null) this.vault.release(id);
  }
}

/** The name of the one object that a watch is about. */
const nameIn = (fieldSelector = ''): string | undefined => /^metadata\.name=([^,]+)$/.exec(fieldSelector)?.[1];

type Operations = typeof kubeOperations;
type InputOf<Name extends keyof Operations> = OperationInput<Operations[Name]>;

/** client-go's wait before it lists again: limits requests to a server that always reports expiry. */
const EXPIRED_MIN_MS = 800;

async function expired(resourceVersion: string, beganMs: number, signal: AbortSignal) {
  const leftMs = beganMs + EXPIRED_MIN_MS - performance.now();
  if (leftMs > 0) await sleep(leftMs, undefined, { signal });
  return { reason: 'expired' as const, resourceVersion };
}

/** Codes of an unreadable change. */
const UNREADABLE: ReadonlySet<string> = new Set(['MALFORMED', 'TooLarge']);

/**
 * A watch from the same version would begin with the same unreadable change. As in client-go, a new list skips the
 * change: it has the current object, or lacks it.
 */
const unreadable = (error: unknown): OperationError =>
  new OperationError(messageOf(error), { name: 'DecodeError', code: 'Expired', retriable: true });

/**
 * The path of a request. An object is created at the path of its collection, because its name is in the body; a
 * subresource is created at the path of its object.
 */
function pathFor(target: KubeTarget, method: string): string {
  if ((method !== 'POST' && method !== 'LIST') || target.subresource !== undefined) return pathOf(target);
  const { name: _name, ...collection } = target;
  return pathOf(collection);
}

/**
 * The lane of a write. Thousands of pods may be rejected or deleted at once: their last writes do not delay the
 * statuses of pods that run, nor either of them the requests that other pods need to start.
 */
function laneOf(target: KubeTarget, body: Json): string {
  if (!isPod(target)) return '';
  const phase = memberOf(memberOf(body, 'status'), 'phase');
  const hasEnded = body === null || (typeof phase === 'string' && isTerminalPhase(phase));
  return hasEnded ? 'pods that ended' : 'pods that run';
}

/** client-go's limits of a client whose configured ones are zero. Zero is no limit of events, as documented. */
const DEFAULT_QPS = 5;
const DEFAULT_BURST = 10;

function clientsOf(settings: KubeSettings, transport: Transport, onRequest: OnRequest): Clients {
  const { role, userAgent, qps, burst, eventQps, eventBurst, heartbeatTimeoutMs } = settings;
  const client = (limit: TokenBucket | null, timeoutMs = 0) =>
    new KubeClient({ transport, userAgent, limit, timeoutMs, onRequest });
  const limit = new TokenBucket(qps || DEFAULT_QPS, burst || DEFAULT_BURST);
  if (role === 'bootstrap') return { bootstrap: client(limit) };
  return {
    kube: client(limit),
    event: client(new TokenBucket(eventQps, eventBurst || DEFAULT_BURST)),
    heartbeat: client(null, heartbeatTimeoutMs),
  };
}

/** Parses a response. A response with status 200 but incomplete JSON may be retried. */
function complete(text: string): Json {
  try {
    return parseExactly(text);
  } catch {
    throw new OperationError('unexpected end of JSON input', {
      name: 'DecodeError',
      code: 'MALFORMED',
      retriable: true,
    });
  }
}
