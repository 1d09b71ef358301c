/**
 * A test API server: the protocol of kube-apiserver on a loopback port, with its objects in memory.
 *
 * Real: TLS with its own CA, client certificates and tokens, REST on generic storage, discovery, tables, pages,
 * watches, the three patch languages, optimistic locking, graceful deletion, TokenRequest, CSR, reviews, the connection
 * to kubelets. Nodes are authorized by the rules of the node authorizer and NodeRestriction; all other users may do
 * everything. Missing: validation of every field, server-side apply, dry run, RBAC, controllers.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ApiObject, apiVersionOf, KINDS, type User } from '../../../src/simulation/api-server/kinds.ts';
import { Registry } from '../../../src/simulation/api-server/registry.ts';
import { Store } from '../../../src/simulation/api-server/store.ts';
import { Door, type SeenRequest } from './door.ts';
import { Faults } from './faults.ts';
import { Listener } from './listener.ts';
import { keepNamespaces } from './namespaces.ts';
import { restrict } from './node-authorizer.ts';
import { type KubeletAddress, NodeProxy } from './node-proxy.ts';
import { Authority, type Credential } from './pki.ts';
import { PodSigner } from './pod-signer.ts';
import type { AccessRule } from './reviews.ts';
import { Router, targetOf } from './router.ts';
import { ServiceAccountTokens } from './service-account-tokens.ts';
import { createdCsr, Signer, type SignerOptions } from './signer.ts';
import { Users } from './users.ts';
import { Watches } from './watches.ts';
import { type ClusterUser, writeKubeconfig } from './write-kubeconfig.ts';

const ISSUER = 'https://kubernetes.default.svc.cluster.local';

export interface ApiServerOptions {
  /** The folder for certificates and kubeconfigs; default: a new one, which `close()` removes. */
  readonly directory?: string;
  readonly certificates?: SignerOptions;
  /** The shortest lifetime of a service account's token. Default 600, as on the real server. */
  readonly tokenMinSeconds?: number;
  readonly bookmarkPeriodMs?: number;
  readonly http2?: boolean;
  readonly kubeletAddress?: (nodeName: string) => KubeletAddress | undefined;
}

export type ApiServer = TestApiServer;

export async function startApiServer(options: ApiServerOptions = {}): Promise<ApiServer> {
  const authority = await Authority.create('test-api-server-ca');
  const names = [
    { type: 'ip', value: '127.0.0.1' },
    { type: 'dns', value: 'localhost' },
    { type: 'dns', value: 'kubernetes.default.svc' },
  ] as const;
  const serving = await authority.issue({ commonName: 'kube-apiserver', names: [...names], usages: ['server auth'] });
  const kubelet = await authority.issue({
    commonName: 'kube-apiserver-kubelet-client',
    organizations: ['system:masters'],
    usages: ['client auth'],
  });
  const server = new TestApiServer(authority, { serving, kubelet }, options);
  await server.start();
  return server;
}

class TestApiServer {
  readonly store = new Store();
  readonly faults: Faults;
  readonly users: Users;
  readonly signer: Signer;
  readonly podSigner: PodSigner;
  readonly authority: Authority;
  readonly directory: string;
  readonly caFile: string;
  /** What SubjectAccessReview allows besides `system:masters`. */
  readonly accessRules: AccessRule[] = [];
  /** Every request, in the order of arrival. */
  readonly requests: readonly SeenRequest[];
  private readonly ownsDirectory: boolean;
  private readonly registry: Registry;
  private readonly watches: Watches;
  private readonly listener: Listener;

  constructor(
    authority: Authority,
    credentials: { serving: Credential; kubelet: Credential },
    options: ApiServerOptions,
  ) {
    this.authority = authority;
    this.ownsDirectory = options.directory === undefined;
    this.directory = options.directory ?? mkdtempSync(join(tmpdir(), 'api-server-'));
    mkdirSync(this.directory, { recursive: true });
    this.caFile = join(this.directory, 'ca.crt');
    writeFileSync(this.caFile, authority.caPem);
    const { store } = this;
    const tokens = new ServiceAccountTokens(store, ISSUER, options.tokenMinSeconds);
    this.users = new Users(tokens);
    this.registry = new Registry(store, { restrict, createdCsr });
    this.signer = new Signer(store, authority, options.certificates ?? {});
    this.podSigner = new PodSigner(store, authority);
    this.watches = new Watches(store, {
      bookmarks: () => !this.faults.noBookmarks,
      ...(options.bookmarkPeriodMs === undefined ? {} : { bookmarkPeriodMs: options.bookmarkPeriodMs }),
    });
    this.faults = new Faults((how) => this.watches.endAll(how));
    const { registry, users, accessRules } = this;
    const router = new Router({ store, registry, users, tokens, accessRules });
    const address = options.kubeletAddress;
    const proxy = new NodeProxy({ store, credential: credentials.kubelet, ...(address ? { address } : {}) });
    const door = new Door({ users, faults: this.faults, router, watches: this.watches, proxy, store });
    this.requests = door.requests;
    this.listener = new Listener({
      credential: credentials.serving,
      ca: authority.caPem,
      http2: options.http2 ?? true,
      onRequest: (request, response) => door.onRequest(request, response),
      onUpgrade: (request, socket, head) => door.onUpgrade(request, socket, head),
    });
    keepNamespaces(store, registry, authority.caPem);
  }

  get url(): string {
    return this.listener.url;
  }

  /** Open connections, open watches, and the number of all connections so far. */
  get load(): { connections: number; watches: number; accepted: number } {
    return { connections: this.listener.connections, watches: this.watches.size, accepted: this.listener.accepted };
  }

  /** Starts, again under the same address. */
  start(): Promise<void> {
    return this.listener.start();
  }

  /** Stops: connections break, new ones are refused. The objects stay. */
  stop(): Promise<void> {
    return this.listener.stop();
  }

  /** Breaks every connection once; new ones are accepted. */
  breakConnections(): void {
    this.listener.breakConnections();
  }

  async close(): Promise<void> {
    await this.listener.stop();
    if (this.ownsDirectory) rmSync(this.directory, { recursive: true, force: true });
  }

  /** Creates an object as a user (by default an administrator) with kubectl. */
  create(object: object, user: User = { name: 'admin', groups: ['system:masters'] }): ApiObject {
    const body = object as ApiObject;
    const kind = targetKind(body);
    return this.registry.create(kind, kind.namespaced ? (body.metadata.namespace ?? 'default') : undefined, body, user);
  }

  /** Deletes an object as kubectl does: pods with their grace period. */
  delete(apiVersion: string, resource: string, name: string, namespace = 'default', gracePeriodSeconds?: number): void {
    const { kind } = targetOf(`${apiVersion.includes('/') ? '/apis' : '/api'}/${apiVersion}/${resource}`);
    const options = gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds };
    this.registry.delete({ kind, namespace, name }, options);
  }

  /** Changes an object by a merge patch. */
  patch(
    place: { apiVersion: string; resource: string; name: string; namespace?: string; subresource?: string },
    patch: object,
  ) {
    const { apiVersion, resource, name, namespace = 'default', subresource } = place;
    const { kind } = targetOf(`${apiVersion.includes('/') ? '/apis' : '/api'}/${apiVersion}/${resource}`);
    return this.registry.patch({ kind, namespace, name, subresource }, 'application/merge-patch+json', patch);
  }

  /** See {@link writeKubeconfig}; `users.tokens` has the users of tokens. */
  async kubeconfig(user = 'admin', options: ClusterUser = {}): Promise<string> {
    return await writeKubeconfig(this, user, options);
  }
}

function targetKind(body: ApiObject) {
  const found = KINDS.find((each) => each.kind === body.kind && apiVersionOf(each) === body.apiVersion);
  if (!found) throw new Error(`the test API server has no ${body.kind} in ${body.apiVersion}`);
  return found;
}
