/**
 * A node with only a bootstrap kubeconfig: it requests its client certificate, registers with it, and requests the
 * certificate of its own server.
 */
import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KubeObject } from '../../src/machines/model/operations/kube.ts';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { eventually, TestNode } from '../support/daemon.ts';

const CSRS = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const PATIENCE_MS = 90_000;
const BOOTSTRAPPER = { kind: 'Group', apiGroup: 'rbac.authorization.k8s.io', name: 'system:bootstrappers' };
const binding = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRoleBinding',
  metadata: { name: 'bootstrap' },
  roleRef: { kind: 'ClusterRole', apiGroup: 'rbac.authorization.k8s.io', name: 'system:node-bootstrapper' },
  subjects: [BOOTSTRAPPER],
};

describe('a node with a bootstrap kubeconfig', () => {
  let cluster: Cluster;
  let node: TestNode;
  beforeAll(async () => {
    cluster = await startCluster();
    await cluster.admin.create(binding);
    node = new TestNode({
      flags: [`--client-ca-file=${cluster.caFile}`],
      configuration: 'rotateCertificates: true\nserverTLSBootstrap: true',
    });
    const bootstrap = await cluster.kubeconfig('system:bootstrap:abcdef', { groups: [BOOTSTRAPPER.name] });
    await node.start([`--bootstrap-kubeconfig=${bootstrap}`, `--kubeconfig=${join(node.directory, 'kubeconfig')}`]);
  });
  afterAll(async () => {
    await node?.close();
    await cluster?.close();
  });

  const requestFor = (signer: string): Promise<KubeObject> =>
    eventually(
      `a request for ${signer}`,
      async () => {
        const { items } = await cluster.admin.rest.list(CSRS, {});
        return items.find(({ spec }) => (spec as { signerName: string }).signerName === `kubernetes.io/${signer}`);
      },
      PATIENCE_MS,
    );

  async function approve({ metadata }: KubeObject): Promise<void> {
    const csr = await cluster.admin.rest.get(`${CSRS}/${metadata.name}`);
    const condition = { type: 'Approved', status: 'True', reason: 'TestApproved', message: 'by the test' };
    const status = { ...(csr['status'] as object), conditions: [condition] };
    await cluster.admin.rest.put(`${CSRS}/${metadata.name}/approval`, { ...csr, status });
    await cluster.sign(metadata.name);
  }
  const certificate = (name: string): X509Certificate =>
    new X509Certificate(readFileSync(join(node.directory, 'pki', `${name}-current.pem`)));

  it('gets its client certificate and is ready', async () => {
    const csr = await requestFor('kube-apiserver-client-kubelet');
    expect(csr['spec']).toMatchObject({
      username: 'system:bootstrap:abcdef',
      usages: ['digital signature', 'client auth'],
    });
    await approve(csr);
    await eventually(
      'the node is ready',
      async () => {
        const { status } = await cluster.admin.rest.get('/api/v1/nodes/node1');
        const { conditions } = status as { conditions: { type: string; status: string }[] };
        return conditions.some((each) => each.type === 'Ready' && each.status === 'True');
      },
      PATIENCE_MS,
    );
    expect(certificate('kubelet-client').subject).toBe('O=system:nodes\nCN=system:node:node1');
    expect(statSync(join(node.directory, 'kubeconfig')).mode & 0o777).toBe(0o600);
  });

  it('gets the certificate of its server, with the names and addresses of its Node', async () => {
    const csr = await requestFor('kubelet-serving');
    expect(csr['spec']).toMatchObject({ username: 'system:node:node1', usages: ['digital signature', 'server auth'] });
    await approve(csr);
    await eventually('the certificate', () => certificate('kubelet-server'), PATIENCE_MS);
    expect(certificate('kubelet-server').subjectAltName).toBe('DNS:node1, IP Address:127.0.0.1');
  });
});
