/**
 * The API server for the tests of the cluster tier: a real kube-apiserver with its etcd if `KUBEBUILDER_ASSETS` names a
 * folder with both, otherwise the test API server. Tests use both in the same way, over the network.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { KubeObject } from '../../src/machines/model/operations/kube.ts';
import { type ApiObject, apiVersionOf, KINDS } from '../../src/simulation/api-server/kinds.ts';
import { signerRefusal } from '../fakes/api-server/csr-rules.ts';
import { startApiServer } from '../fakes/api-server/index.ts';
import type { Authority } from '../fakes/api-server/pki.ts';
import type { ClusterUser } from '../fakes/api-server/write-kubeconfig.ts';
import { startRealApiServer } from './real-api-server.ts';
import { Rest } from './rest.ts';

export interface Cluster {
  readonly isReal: boolean;
  /** 36 for `v1.36`. */
  readonly minor: number;
  readonly url: string;
  /** The authority of clients that may send requests to the nodes. */
  readonly caFile: string;
  /** Requests as the cluster's administrator. */
  readonly admin: ClusterAdmin;
  /** Signs an approved CertificateSigningRequest, if kube-controller-manager would. */
  sign(name: string): Promise<void>;
  /** The path of a kubeconfig with a client certificate for this user. */
  kubeconfig(user?: string, options?: ClusterUser): Promise<string>;
  close(): Promise<void>;
}

/** Why there is no real API server here; null if there is one. */
export function realClusterMissing(): string | null {
  const assets = process.env['KUBEBUILDER_ASSETS'];
  if (!assets) return 'KUBEBUILDER_ASSETS does not name a folder with etcd and kube-apiserver';
  const missing = ['etcd', 'kube-apiserver'].filter((name) => !existsSync(join(assets, name)));
  return missing.length === 0 ? null : `${assets} has no ${missing.join(' and no ')}`;
}

export async function startCluster(): Promise<Cluster> {
  const isReal = realClusterMissing() === null;
  const server = isReal ? await startRealApiServer(process.env['KUBEBUILDER_ASSETS']!) : await startApiServer();
  try {
    const rest = new Rest(await server.kubeconfig('admin'));
    return {
      isReal,
      minor: await minorOf(rest),
      url: server.url,
      caFile: server.caFile,
      admin: new ClusterAdmin(rest),
      // The test API server signs by itself.
      sign: (name) => ('signer' in server ? Promise.resolve() : sign(rest, server.authority, name)),
      kubeconfig: (user, options) => server.kubeconfig(user, options),
      close: () => server.close(),
    };
  } catch (error) {
    await server.close();
    throw error;
  }
}

const CSRS = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const CERTIFICATE_MS = 3_600_000;

/** Signs in place of kube-controller-manager, which does not run. */
async function sign(rest: Rest, authority: Authority, name: string): Promise<void> {
  const csr = (await rest.get(`${CSRS}/${name}`)) as unknown as ApiObject;
  const why = signerRefusal(csr);
  if (why !== '') throw new Error(`the signer does not sign ${name}: ${why ?? 'it is for another signer'}`);
  const { request, usages } = csr.spec as { request: string; usages: string[] };
  const pem = await authority.sign(Buffer.from(request, 'base64').toString(), usages, CERTIFICATE_MS);
  const status = { ...csr.status, certificate: Buffer.from(pem).toString('base64') };
  await rest.put(`${CSRS}/${name}/status`, { ...csr, status });
}

/** The first minor version with each feature, newest first, for a build that does not report its version. */
const SINCE: readonly (readonly [string, number])[] = [
  ['pods/resize', 33],
  ['pods/ephemeralcontainers', 25],
  ['serviceaccounts/token', 20],
];

async function minorOf(rest: Rest): Promise<number> {
  const { minor } = (await rest.get('/version')) as unknown as { readonly minor: string };
  const version = Number.parseInt(minor, 10);
  if (version > 0) return version;
  const { resources } = (await rest.get('/api/v1')) as unknown as { readonly resources: { readonly name: string }[] };
  return SINCE.find(([resource]) => resources.some(({ name }) => name === resource))?.[1] ?? 0;
}

/** Creates, lists and deletes objects of the core API in the namespace `default`. */
class ClusterAdmin {
  readonly rest: Rest;

  constructor(rest: Rest) {
    this.rest = rest;
  }

  create(object: { readonly apiVersion: string; readonly kind: string }): Promise<KubeObject> {
    return this.rest.post(collectionOf(object), object);
  }

  /** @param resource of the core API, such as `pods` */
  async list(resource: string): Promise<readonly KubeObject[]> {
    return (await this.rest.list(`/api/v1/namespaces/default/${resource}`, {})).items;
  }

  /** A missing object is not an error. */
  async delete(resource: string, name: string, gracePeriodSeconds: number): Promise<void> {
    await this.rest.ensureDeleted(`/api/v1/namespaces/default/${resource}/${name}`, { gracePeriodSeconds });
  }
}

function collectionOf({ apiVersion, kind }: { readonly apiVersion: string; readonly kind: string }): string {
  const found = KINDS.find((each) => each.kind === kind && apiVersionOf(each) === apiVersion);
  if (!found) throw new Error(`the tests know no ${kind} in ${apiVersion}`);
  const group = found.group === '' ? '/api/v1' : `/apis/${apiVersion}`;
  return found.namespaced ? `${group}/namespaces/default/${found.resource}` : `${group}/${found.resource}`;
}
