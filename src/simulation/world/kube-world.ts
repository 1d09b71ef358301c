/**
 * The API server for the charts of pods: the operations `kube.*` on the objects of a simulated API server, without a
 * socket, in virtual time. Secrets are replaced by handles, as in the real port. Also the manifests of a run.
 */
import type { EffectResult } from '../../kernel/effects.ts';
import { Vault } from '../../kernel/journal/secrets.ts';
import type { JsonEvent } from '../../kernel/json.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { Image } from '../../machines/model/api/cri.ts';
import type { Manifest } from '../../machines/model/operations/host.ts';
import type { KubeObject } from '../../machines/model/operations/kube.ts';
import { Refusal, unknownPath } from '../api-server/errors.ts';
import { type ApiObject, isFields, knownKind, kindOf as servedKind, textOf } from '../api-server/kinds.ts';
import { Registry } from '../api-server/registry.ts';
import { type Origin, Store, type StoreEvent, selectorOf } from '../api-server/store.ts';
import type { VirtualTime } from './virtual-time.ts';

const ADMIN = { name: 'admin', groups: ['system:masters'] };

export interface Write {
  readonly atMs: number;
  readonly verb: 'create' | 'update' | 'patch' | 'delete' | 'deleteCollection' | 'get' | 'list';
  readonly path: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies of any kind
  readonly body: any;
  readonly error?: string;
}

// oxlint-disable-next-line typescript/no-explicit-any -- the inputs of seven operations
type Input = any;

export class KubeWorld {
  readonly store: Store;
  readonly registry: Registry;
  readonly vault = new Vault(Buffer.alloc(32, 7));
  /** Every write, in the order of the answers. */
  readonly requests: Write[] = [];
  /** The server does not answer. */
  isAway = false;
  /** The error of a request; `undefined` for none. */
  refuse: (verb: Write['verb'], path: string) => Refusal | undefined = () => undefined;
  private readonly time: VirtualTime;
  private readonly watches = new Set<() => void>();

  /** `nodeName`: a Node that exists already. `origin`: by default that of this machine. */
  constructor(time: VirtualTime, nodeName: string | null = 'node', origin?: Origin) {
    this.time = time;
    this.store = new Store(origin);
    this.registry = new Registry(this.store);
    for (const name of ['default', 'kube-system', 'other']) this.createNamespace(name);
    if (nodeName !== null) this.create({ apiVersion: 'v1', kind: 'Node', metadata: { name: nodeName } });
  }

  create(object: Input): ApiObject {
    const kind = kindOf(object);
    const namespace = kind.namespaced ? (object.metadata.namespace ?? 'default') : undefined;
    return this.registry.create(kind, namespace, object, ADMIN);
  }

  /** Creates a namespace with its default service account. */
  createNamespace(name: string): void {
    this.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    this.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace: name } });
  }

  /** Creates a pod that is bound to the node, without ServiceAccount admission. */
  createPod(
    name: string,
    { containers = [{ name: 'app', image: 'app:1' }], ...spec }: Input = {},
    metadata: Input = {},
  ) {
    return this.create({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'default', ...metadata },
      spec: {
        nodeName: 'node',
        automountServiceAccountToken: false,
        ...spec,
        containers: withMounts(containers, spec['volumes']),
      },
    });
  }

  pod(name: string, namespace = 'default'): Input {
    return this.store.get('v1', 'pods', name, namespace);
  }

  patch(resource: string, name: string, patch: Input, subresource?: string): void {
    const kind = knownKind('v1', resource);
    const namespace = kind.namespaced ? 'default' : undefined;
    this.registry.patch({ kind, namespace, name, subresource }, 'application/merge-patch+json', patch);
  }

  delete(resource: string, name: string, gracePeriodSeconds?: number, namespace = 'default'): void {
    const options = gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds };
    this.registry.delete({ kind: knownKind('v1', resource), namespace, name }, options);
  }

  /** The requests of one verb whose path matches. */
  of(verb: Write['verb'], path: RegExp = /./): Write[] {
    return this.requests.filter((request) => request.verb === verb && path.test(request.path));
  }

  /** Breaks the connection of every watch. */
  breakWatches(): void {
    for (const end of this.watches) end();
  }

  handle(
    name: string,
    input: Input,
    answer: (result: EffectResult) => void,
    emit: (event: JsonEvent) => void,
  ): void | (() => void) {
    const verb = name.slice('kube.'.length) as Write['verb'];
    const path = pathOf(input);
    try {
      if (this.isAway) throw Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:6443'), { code: 'ECONNREFUSED' });
      if (name === 'kube.watch') return this.watch(input, answer, emit);
      const refusal = this.refuse(verb, path);
      if (refusal) throw refusal;
      const output = this.perform(verb, input);
      this.note(verb, path, input);
      return answer({ output });
    } catch (error) {
      this.note(verb, path, input, messageOf(error));
      return answer({ error: plain(error) });
    }
  }

  private note(verb: Write['verb'], path: string, input: Input, error?: string): void {
    const { gracePeriodSeconds, preconditions, body } = input;
    const noted = verb === 'delete' ? { gracePeriodSeconds, preconditions } : body;
    const failed = error === undefined ? {} : { error };
    this.requests.push({ atMs: this.time.ms, verb, path, body: structuredClone(noted), ...failed });
  }

  private perform(verb: Write['verb'], input: Input): unknown {
    const kind = servedKind(input.apiVersion, input.resource);
    if (!kind) throw unknownPath();
    const place = { kind, namespace: input.namespace, name: input.name, subresource: input.subresource };
    switch (verb) {
      case 'get':
        return this.shown(this.registry.get(place));
      case 'list': {
        const selects = selectorOf(queryOf(input));
        const items = this.store
          .all(kind, input.namespace)
          .filter(selects)
          .map((each) => this.shown(each));
        return { items, resourceVersion: this.store.resourceVersion, continue: '' };
      }
      case 'create':
        if (input.subresource === 'token') return this.token(input);
        return this.shown(this.registry.create(kind, input.namespace, input.body, ADMIN));
      case 'update':
        return this.shown(this.registry.update(place, input.body));
      case 'patch':
        return this.shown(this.registry.patch(place, input.patchType, input.body));
      case 'delete':
        this.registry.delete(place, input);
        return null;
      case 'deleteCollection':
        for (const { metadata } of this.store.all(kind, input.namespace).filter(selectorOf(queryOf(input))))
          this.registry.delete({ kind, namespace: metadata.namespace, name: metadata.name }, {});
        return null;
      default:
        throw new Error(`this API server cannot ${String(verb)}`);
    }
  }

  private tokens = 0;
  /** The number of further answers to token requests that have no token. */
  brokenTokens = 0;

  /** The maximum lifetime of tokens, whatever is requested. */
  tokenSecondsMax = Number.POSITIVE_INFINITY;

  private token({ body }: Input): unknown {
    this.tokens += 1;
    if (this.brokenTokens-- > 0) return { ...body, status: null };
    const expirationSeconds = Math.min(body.spec.expirationSeconds, this.tokenSecondsMax);
    const expires = new Date(this.time.now() + expirationSeconds * 1_000).toISOString();
    const token = this.vault.seal(`token-${this.tokens}`);
    return {
      ...body,
      spec: { ...body.spec, expirationSeconds },
      status: { token, expirationTimestamp: expires.replace(/\.\d+Z$/, 'Z') },
    };
  }

  private keys = 0;

  /** A key, and a text that represents its certificate request. */
  podKey({ keyType }: { readonly keyType: string }) {
    if (!keyType.startsWith('E')) throw new Error(`unknown key type "${keyType}"`);
    this.keys += 1;
    return { request: btoa(`request-${this.keys}`), key: this.vault.seal(`canary-key-${this.keys}`) };
  }

  private watch(input: Input, answer: (result: EffectResult) => void, emit: (event: JsonEvent) => void) {
    const kind = knownKind(input.apiVersion, input.resource);
    const selects = selectorOf(queryOf(input));
    let version = Number(input.resourceVersion);
    const report = (event: StoreEvent): void => {
      version = event.version;
      const isOthers = input.namespace !== undefined && event.object.metadata.namespace !== input.namespace;
      if (event.kind !== kind || isOthers) return;
      const now = event.type !== 'DELETED' && selects(event.object);
      const before = event.previous !== undefined && selects(event.previous);
      const change = now ? (before ? 'MODIFIED' : 'ADDED') : before ? 'DELETED' : undefined;
      if (change) emit({ type: 'watch.changed', change, object: this.shown(event.object) });
    };
    /** Changes are reported soon, but never within the call that made them. */
    const later = (event: StoreEvent): void => void this.time.arm(this.time.ms + 1, () => open && report(event));
    let open = true;
    const close = (): void => {
      open = false;
      this.store.changes.off('event', later);
      this.watches.delete(end);
    };
    const end = (): void => {
      close();
      answer({ error: { name: 'Error', message: 'the watch broke', code: 'ECONNRESET', retriable: true } });
    };
    for (const event of this.store.since(version)) report(event);
    this.store.changes.on('event', later);
    this.watches.add(end);
    return close;
  }

  /** The object as the real port returns it: without managed fields, with handles for secrets. */
  private shown(object: ApiObject): KubeObject {
    if (object.kind !== 'Secret') return structuredClone(object) as never;
    const data = Object.entries(isFields(object['data']) ? object['data'] : {});
    const sealed = data.map(([key, value]) => [
      key,
      { text: this.vault.seal(Buffer.from(textOf(value), 'base64').toString()) },
    ]);
    return { ...structuredClone(object), data: Object.fromEntries(sealed) } as never;
  }
}

function queryOf({ fieldSelector, labelSelector }: Input): URLSearchParams {
  const given = { fieldSelector, labelSelector };
  return new URLSearchParams(
    Object.entries(given).flatMap(([key, value]) => (typeof value === 'string' && value !== '' ? [[key, value]] : [])),
  );
}

const RESOURCES: Readonly<Record<string, string>> = { RuntimeClass: 'runtimeclasses' };

function kindOf({ apiVersion, kind }: Input) {
  return knownKind(apiVersion, RESOURCES[kind] ?? `${String(kind).toLowerCase()}s`);
}

const pathOf = ({ resource, namespace, name, subresource }: Input): string =>
  [namespace, resource, name, subresource].filter((part) => part !== undefined).join('/');

function plain(error: unknown) {
  const message = messageOf(error);
  if (error instanceof Refusal) {
    const retryAfterMs = error.retryAfterSeconds === undefined ? {} : { retryAfterMs: error.retryAfterSeconds * 1_000 };
    const retriable = error.code === 429 || error.code >= 500;
    return { name: 'ApiError', message, code: error.reason, retriable, ...retryAfterMs };
  }
  const code = codeOf(error);
  return { name: 'Error', message, ...(code === undefined ? {} : { code }), retriable: true };
}

/** Manifests and images of a simulated node. */
export interface PodOptions {
  readonly uid: string;
  readonly name?: string;
  readonly spec?: Record<string, unknown>;
  readonly containers?: readonly Record<string, unknown>[];
}

/** The manifest of a pod, with one container `app` by default. */
export function manifest({ uid, name = 'web', spec = {}, containers }: PodOptions): Manifest {
  const { volumes } = spec as { readonly volumes?: readonly { readonly name: string }[] };
  return {
    file: `/etc/kubernetes/manifests/${name}.yaml`,
    uid,
    value: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'default' },
      spec: { containers: withMounts(containers ?? [{ name: 'app', image: 'app:1' }], volumes), ...spec },
    } as never,
  };
}

export const image = (name: string): Image => ({
  id: `sha256:${name}`,
  repo_tags: [name],
  repo_digests: [],
  size: '1000',
  username: '',
  pinned: false,
});

interface Container {
  readonly volumeMounts?: readonly unknown[];
  readonly volumeDevices?: readonly unknown[];
}

/**
 * The containers with mounts of their pod's volumes, because the kubelet ignores volumes that no container mounts. A
 * container without a list of mounts gets every volume except images, at `/<name>`.
 */
export function withMounts<Each extends object>(
  containers: readonly Each[],
  volumes: readonly { readonly name: string }[] = [],
): readonly Each[] {
  const isQuiet = (each: Container) => !each.volumeMounts && !each.volumeDevices;
  const volumeMounts = volumes.flatMap((volume) =>
    'image' in volume ? [] : [{ name: volume.name, mountPath: `/${volume.name}` }],
  );
  if (volumeMounts.length === 0) return containers;
  return containers.map((each) => (isQuiet(each) ? { ...each, volumeMounts } : each));
}
