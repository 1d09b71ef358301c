/**
 * Certificates by the cluster's signers: real keys, requests and files against the test API server, compared with a
 * recording of the Go kubelet (test/golden/http/csr-flow.json).
 */
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createRequest } from '../../../src/actors/certificate/certificate-request.ts';
import { certificatePorts } from '../../../src/actors/certificate/certificates.ts';
import type { KubeSettings } from '../../../src/machines/model/operations/kube.ts';
import { certificateManagerMachine } from '../../../src/machines/startup/certificates/certificate-manager.ts';
import {
  CLIENT_SIGNER,
  nodeTemplate,
  SERVING_SIGNER,
  servingPlace,
} from '../../../src/machines/startup/certificates/setup.ts';
import { clientBuilderMachine, clientCertificateInput } from '../../../src/machines/startup/clients/client-builder.ts';
import { type ApiServer, startApiServer } from '../../fakes/api-server/index.ts';
import { perform } from '../../support/host-ports.ts';
import { runForReal, until } from '../../support/real-machine.ts';
import { bench, pods, settings } from '../kube/support.ts';

interface Step {
  readonly step: string;
  readonly csr: readonly { readonly spec: Record<string, unknown>; readonly request: string }[];
  readonly kubeconfig: string;
  readonly files: {
    readonly entries: readonly {
      readonly path: string;
      readonly type: string;
      readonly mode: string;
      readonly pemBlocks?: string[];
    }[];
  };
}
const golden = (
  JSON.parse(readFileSync(new URL('../../golden/http/csr-flow.json', import.meta.url), 'utf8')) as { steps: Step[] }
).steps;
const recorded = (number: number): Step => golden[number - 1]!;

let server: ApiServer;
let node: ReturnType<typeof bench>;
let root: string;
let running: ReturnType<typeof runForReal>[] = [];

beforeEach(async () => {
  server = await startApiServer({ certificates: { sign: true } });
  server.users.tokens.set('boot', { name: 'system:bootstrap:07401b', uid: 'ub', groups: ['system:bootstrappers'] });
  root = mkdtempSync(join(tmpdir(), 'certificates-'));
  node = bench();
});
afterEach(async () => {
  for (const each of running) each.stop();
  running = [];
  await node.connection.close();
  await server.close();
  rmSync(root, { recursive: true, force: true });
});

const start = (machine: Parameters<typeof runForReal>[0], input: unknown) => {
  const world = runForReal(machine, input, { ...node.connection.ports, ...certificatePorts({ vault: node.vault }) });
  running.push(world);
  return world;
};
const pki = () => join(root, 'pki');
const kubeconfig = () => join(root, 'kubelet.kubeconfig');
const csrs = () => server.store.list('certificates.k8s.io/v1', 'certificatesigningrequests');
const csrSpec = (index: number) => csrs()[index]!.spec as Record<string, unknown>;
const decoded = (request: unknown) =>
  execFileSync('openssl', ['req', '-noout', '-text'], { input: Buffer.from(String(request), 'base64') })
    .toString()
    .split('\n')
    .filter((line) => !/^ {8,}([0-9a-f]{2}:|[0-9a-f]{2}$)|pub:|ASN1 OID|NIST CURVE|Signature Value/.test(line))
    .map((line) => line.replace(/IP Address:[\d.]+/, 'IP Address:<ip>'))
    .join('\n');
const mode = (path: string) => `0o${(statSync(path).mode & 0o777).toString(8)}`;

async function builder(more: object = {}) {
  const bootstrapKubeconfig = await server.kubeconfig('bootstrap', { token: 'boot' });
  const world = start(clientBuilderMachine, {
    kubeconfig: kubeconfig(),
    bootstrapKubeconfig,
    certDir: pki(),
    rotateCertificates: true,
    nodeName: 'node2',
    userAgent: 'kubelet/test',
    kubeAPIQPS: 50,
    kubeAPIBurst: 100,
    eventRecordQPS: 50,
    eventBurst: 100,
    nodeStatusUpdateFrequencyMs: 10_000,
    nodeLeaseDurationSeconds: 40,
    ...more,
  });
  await until(() => world.sent().length > 0, world.logged);
  return world;
}
const clientManager = () =>
  start(certificateManagerMachine, clientCertificateInput({ certDir: pki(), nodeName: 'node2' }, false));

describe('a node that has only a bootstrap token', () => {
  it('asks for its certificate as the Go kubelet does, and speaks with it as soon as it is signed', async () => {
    await builder();
    expect(readFileSync(kubeconfig(), 'utf8')).toBe(
      recorded(3)
        .kubeconfig.replaceAll('${PKI}/ca.crt', server.caFile)
        .replaceAll('https://127.0.0.1:${PORT}', server.url)
        .replaceAll('${ROOT}', root),
    );
    expect(mode(kubeconfig())).toBe('0o600');

    const manager = clientManager();
    await until(() => csrs().length === 1, manager.logged);
    const { request, ...spec } = csrSpec(0);
    const { request: _recorded, ...expected } = recorded(1).csr[0]!.spec;
    expect(spec).toEqual(expected);
    expect(decoded(request)).toBe(recorded(1).csr[0]!.request);
    expect(csrs()[0]!.metadata).toMatchObject({ generateName: 'csr-', name: expect.stringMatching(/^csr-\w{5}$/) });

    // A watch shows both answers only if it is open when they arrive.
    await until(
      () => server.load.watches === 1,
      () => server.load,
    );
    server.signer.decide(csrs()[0]!.metadata.name);
    await until(() => manager.logged().includes('Certificate rotation deadline determined'), manager.logged);
    const files = readdirSync(pki()).toSorted();
    expect(files).toEqual([
      expect.stringMatching(/^kubelet-client-\d{4}(-\d\d){5}\.pem$/),
      'kubelet-client-current.pem',
    ]);
    const [dated] = files;
    expect(readlinkSync(join(pki(), 'kubelet-client-current.pem'))).toBe(join(pki(), dated!));
    expect(mode(join(pki(), dated!))).toBe('0o600');
    const blocks = [...readFileSync(join(pki(), dated!), 'utf8').matchAll(/BEGIN ([A-Z ]+)-/g)].map(([, name]) => name);
    expect(blocks).toEqual(recorded(3).files.entries[0]!.pemBlocks);

    await node.ask('kube.list', { ...pods(), fieldSelector: 'spec.nodeName=node2' });
    expect(server.requests.at(-1)?.user).toBe('system:node:node2');
    expect(manager.logged()).toEqual([
      'Rotating certificates',
      'Certificate signing request created',
      'Certificate signing request is approved, waiting to be issued',
      'Certificate signing request is issued',
      'Certificate rotation detected, shutting down client connections to start using new credentials',
      'Certificate rotation deadline determined',
    ]);
    expect(JSON.stringify(manager.records())).not.toContain('PRIVATE KEY');
    expect(manager.divergence()).toBeNull();
  });

  it('asks nothing when it starts again with a valid certificate', async () => {
    server.signer.autoApprove = true;
    await builder();
    const first = clientManager();
    await until(() => first.logged().includes('Certificate rotation deadline determined'), first.logged);
    first.stop();
    const again = await builder();
    expect(again.logged()).toContain('Current kubeconfig file contents are still valid, no bootstrap necessary');
    const second = clientManager();
    await until(() => second.logged().includes('Certificate rotation deadline determined'), second.logged);
    expect(second.logged()[0]).toBe('Loading cert/key pair from a file');
    expect(csrs()).toHaveLength(1);
  });

  it('waits for its certificate before it starts when it will not rotate', async () => {
    server.signer.autoApprove = true;
    const world = await builder({ rotateCertificates: false });
    expect(world.sent()).toMatchObject([{ output: { ok: true, value: { mode: 'cluster', rotates: false } } }]);
    await node.ask('kube.list', { ...pods(), fieldSelector: 'spec.nodeName=node2' });
    expect(server.requests.at(-1)?.user).toBe('system:node:node2');
  });

  it('goes on asking when its token is not accepted, and when it was denied', async () => {
    server.users.tokens.delete('boot');
    await builder();
    const manager = clientManager();
    const failure = 'Failed while requesting a signed certificate from the control plane';
    await until(() => manager.logged().includes(failure), manager.logged);
    const errors = manager
      .records()
      .flatMap((record) => (record.k === 'log' && record.level === 'error' ? [record.fields] : []));
    expect(errors).toMatchObject([{ err: 'cannot create certificate signing request: Unauthorized' }]);

    server.users.tokens.set('boot', { name: 'system:bootstrap:07401b', groups: ['system:bootstrappers'] });
    await until(() => csrs().length === 1, manager.logged);
    server.signer.decide(csrs()[0]!.metadata.name, 'Denied');
    await until(() => csrs().length === 2, manager.logged);
    expect(manager.logged()).toContain('Certificate request was not signed');
  });
});

describe('the signers of the cluster', () => {
  it.each([
    [
      'for a client with names',
      CLIENT_SIGNER,
      ['client auth'],
      { dnsNames: ['node2'] },
      'DNS subjectAltNames are not allowed',
    ],
    ['for a server without names', SERVING_SIGNER, ['server auth'], {}, 'DNS or IP subjectAltName is required'],
    [
      'for another purpose',
      CLIENT_SIGNER,
      ['server auth'],
      {},
      'usages did not match [client auth digital signature key encipherment]',
    ],
    [
      'of another group',
      CLIENT_SIGNER,
      ['client auth'],
      { organizations: ['system:masters'] },
      'subject organization is not system:nodes',
    ],
    [
      'of no node',
      CLIENT_SIGNER,
      ['client auth'],
      { commonName: 'jane' },
      'subject common name does not begin with system:node:',
    ],
  ] as const)('sign nothing %s', async (_what, signerName, purpose, more, message) => {
    const template = { ...nodeTemplate('node2', { dnsNames: [], ipAddresses: [] }), ...more };
    const { request } = await createRequest(template);
    const spec = {
      request: Buffer.from(request).toString('base64'),
      signerName,
      usages: ['digital signature', ...purpose],
    };
    const csr = {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { name: 'bad' },
      spec,
    };
    server.create(csr);
    server.signer.decide('bad');
    await until(
      () => JSON.stringify(csrs()[0]!.status).includes('Failed'),
      () => csrs()[0]!.status,
    );
    expect(csrs()[0]!.status).toMatchObject({
      conditions: [{ type: 'Approved' }, { type: 'Failed', reason: 'SignerValidationFailure', message }],
    });
    expect(csrs()[0]!.status).not.toHaveProperty('certificate');
  });
});

describe('a certificate that nears its end', () => {
  it('is replaced in time, and the old one stays on disk', async () => {
    server.signer.autoApprove = true;
    // The certificate is backdated by five minutes, so four fifths of its lifetime have passed when it is issued.
    server.signer.certificateSeconds = 60;
    await builder();
    const manager = clientManager();
    const byNode = () => csrs().find(({ spec }) => spec?.['username'] === 'system:node:node2');
    await until(() => byNode() !== undefined, manager.logged, 40_000);
    const { request: _recorded, extra: _extra, ...expected } = recorded(6).csr[0]!.spec;
    expect(byNode()!.spec).toMatchObject({
      ...expected,
      extra: { 'authentication.kubernetes.io/credential-id': [expect.stringMatching(/^X509SHA256=[0-9a-f]{64}$/)] },
    });
    expect(readdirSync(pki()).length).toBeGreaterThanOrEqual(2);
  });
});

describe('a serving certificate', () => {
  const serving = (certFile = '', keyFile = '') => ({
    purpose: 'serving',
    once: false,
    signerName: SERVING_SIGNER,
    place: servingPlace(pki()),
    certFile,
    keyFile,
    template: nodeTemplate('node2', { dnsNames: [], ipAddresses: [] }),
  });
  const connect = async (more: Partial<KubeSettings> = {}) =>
    void (await node.ask('kube.connect', settings(await server.kubeconfig('system:node:node2'), more)));

  it('is asked for when the node has addresses, with names as the Go kubelet has them', async () => {
    await connect();
    const manager = start(certificateManagerMachine, serving());
    await until(() => manager.state()?.includes('awaitingNames') ?? false, manager.state);
    manager.send({ type: 'certificate.namesChanged', dnsNames: ['node2'], ipAddresses: ['10.1.2.3'] } as never);
    await until(() => csrs().length === 1, manager.logged);
    const { request, extra: _extra, ...spec } = csrSpec(0);
    const { request: _recorded, extra: _recordedExtra, ...expected } = recorded(4).csr[0]!.spec;
    expect(spec).toEqual(expected);
    expect(decoded(request)).toBe(recorded(4).csr[0]!.request);
    server.signer.decide(csrs()[0]!.metadata.name);
    await until(
      () => readdirSync(root).includes('pki') && readdirSync(pki()).includes('kubelet-server-current.pem'),
      manager.logged,
    );
    expect(manager.logged()).not.toContain(
      'Certificate rotation detected, shutting down client connections to start using new credentials',
    );
  });

  it('is asked for again when the node gets another address', async () => {
    server.signer.autoApprove = true;
    await connect();
    const manager = start(certificateManagerMachine, serving());
    const names = (ipAddresses: string[]) =>
      manager.send({ type: 'certificate.namesChanged', dnsNames: ['node2'], ipAddresses } as never);
    names(['10.1.2.3']);
    await until(() => manager.logged().includes('Certificate rotation deadline determined'), manager.logged);
    names(['10.1.2.3', '10.1.2.4']);
    await until(() => csrs().length === 2, manager.logged);
    expect(manager.logged()).toContain('Current certificate is missing requested IP addresses [10.1.2.4]');
  });

  it('is asked for once by a node with an IPv6 address', async () => {
    server.signer.autoApprove = true;
    await connect();
    const manager = start(certificateManagerMachine, serving());
    manager.send({ type: 'certificate.namesChanged', dnsNames: ['node2'], ipAddresses: ['fd00::a:1'] } as never);
    const determined = 'Certificate rotation deadline determined';
    await until(() => manager.logged().includes(determined), manager.logged);
    expect(csrs()).toHaveLength(1);
  });

  it('that is no certificate ends the node with upstream words', async () => {
    await connect();
    const certFile = join(root, 'tls.crt');
    writeFileSync(certFile, 'nonsense');
    const manager = start(certificateManagerMachine, serving(certFile, certFile));
    await until(() => manager.sent().length > 0, manager.logged);
    expect(manager.sent()).toMatchObject([
      {
        type: 'certificate.failed',
        message:
          'failed to create kubelet: failed to initialize certificate manager: ' +
          'failed to initialize server certificate manager: tls: failed to find any PEM data in certificate input',
      },
    ]);
  });
});

it('a file that cannot take its place leaves nothing behind, which may be a key', async () => {
  const bootstrap = join(root, 'bootstrap');
  const clusters = [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }];
  const contexts = [{ name: 'c', context: { cluster: 'c', user: 'c' } }];
  const users = [{ name: 'c', user: { token: 't' } }];
  writeFileSync(bootstrap, JSON.stringify({ clusters, contexts, users, 'current-context': 'c' }));
  mkdirSync(kubeconfig());
  const input = {
    kubeconfig: kubeconfig(),
    bootstrapKubeconfig: bootstrap,
    place: { directory: pki(), name: 'kubelet-client' },
  };
  const written = perform(certificatePorts({ vault: node.vault })['certificate.writeKubeconfig'], input);
  await expect(written).rejects.toThrow('EISDIR');
  expect(readdirSync(root).toSorted()).toEqual(['bootstrap', 'kubelet.kubeconfig']);
});
