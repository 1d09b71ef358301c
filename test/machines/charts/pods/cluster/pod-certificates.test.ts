/** Certificates of pods in projected volumes: keys of the node, chains of a signer. */
import { afterEach, describe, expect, it } from 'vitest';
import { certificatesPem } from '../../../../../src/machines/model/objects/trust-anchors.ts';
import { Refusal } from '../../../../../src/simulation/api-server/errors.ts';
import { type ApiObject, knownKind } from '../../../../../src/simulation/api-server/kinds.ts';
import { type ClusterNode, clusterNode } from './support.ts';

let cluster: ClusterNode;
const kind = knownKind('certificates.k8s.io/v1beta1', 'podcertificaterequests');
const HOUR_MS = 3_600_000;
const NODE_UID = () => cluster.kube.store.get('v1', 'nodes', 'node')!.metadata.uid;

function booted(podCertificates = true): ClusterNode {
  const apiServer = { changeDetection: 'Watch', podCertificates } as const;
  cluster = clusterNode({ apiServer, rememberedPodsDir: '/journal/pods' });
  cluster.node.boot().run(1_000);
  return cluster;
}

const chain = (name: string) => certificatesPem([btoa(name), btoa('intermediate')]);
const projected = (source: object = {}) => ({
  volumes: [
    {
      name: 'v',
      projected: {
        sources: [
          { downwardAPI: { items: [] } },
          {
            podCertificate: {
              signerName: 'example.com/ca',
              keyType: 'ECDSAP256',
              credentialBundlePath: 'bundle.pem',
              ...source,
            },
          },
        ],
      },
    },
  ],
});
const isRunning = (name: string) => () => cluster.kube.pod(name)?.status?.phase === 'Running';
const messages = () =>
  cluster.node.logs('Event occurred').map(({ reason, message }) => `${String(reason)}: ${String(message)}`);
const files = (): { path: string; mode: number; content: object }[] =>
  cluster.node.sink.records
    .flatMap((record) =>
      record.k === 'effect' && record.name === 'volume.setUp'
        ? [record.input as { volumes: { files: { path: string; mode: number; content: object }[] }[] }]
        : [],
    )
    .at(-1)?.volumes[0]?.files ?? [];
const FAILED = 'FailedMount: MountVolume.SetUp failed for volume "v" : ';
const requests = (): ApiObject[] => cluster.kube.store.all(kind, 'default');
const created = () => cluster.kube.of('create', /podcertificaterequests$/);

const versionOf = ({ metadata }: ApiObject): number => Number(metadata.resourceVersion);

/** A signer's answer to the newest unanswered request. */
function answer(status: object): void {
  const [object] = requests()
    .filter((each) => each.status === undefined)
    .toSorted((one, other) => versionOf(other) - versionOf(one));
  const place = { kind, namespace: 'default', name: object!.metadata.name, subresource: 'status' };
  cluster.kube.registry.patch(place, 'application/merge-patch+json', { status });
}
const condition = (type: string, reason = 'TestReason', message = 'said the test') => ({
  conditions: [{ type, status: 'True', reason, message, lastTransitionTime: '2026-11-21T00:00:00Z' }],
});
function issue(name: string, refreshInMs = HOUR_MS, expiresInMs = 2 * HOUR_MS): void {
  const at = (ms: number) => new Date(cluster.node.world.time.now() + ms).toISOString().replace(/\.\d+Z$/, 'Z');
  const times = { notBefore: at(0), beginRefreshAt: at(refreshInMs), notAfter: at(expiresInMs) };
  answer({ ...condition('Issued'), certificateChain: `${name}\n${chain(name)}`, ...times });
}
const waits = (count = 1) => cluster.node.until('a request', () => created().length === count, 2 * HOUR_MS);

afterEach(({ task }) => {
  expect(task.name.includes('crashed') ? [] : cluster.node.crashes()).toEqual([]);
  expect(JSON.stringify(cluster.node.sink.records)).not.toContain('canary-key');
  cluster.node.assertReplays();
});

describe('podCertificate', () => {
  it('is asked for with who the pod is, and lies in the volume beside its key', () => {
    const { node, kube } = booted();
    const source = { keyPath: 'tls/key.pem', certificateChainPath: 'tls/chain.pem', maxExpirationSeconds: 7_200 };
    const pod = kube.createPod('web', projected({ ...source, userAnnotations: { 'example.com/a': 'b' } }));
    waits();
    expect(requests()[0]).toMatchObject({
      metadata: {
        name: expect.stringMatching(/^req-/),
        ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'web', uid: pod.metadata.uid }],
      },
      spec: {
        signerName: 'example.com/ca',
        podName: 'web',
        podUID: pod.metadata.uid,
        serviceAccountName: 'default',
        serviceAccountUID: kube.store.get('v1', 'serviceaccounts', 'default', 'default')!.metadata.uid,
        nodeName: 'node',
        nodeUID: NODE_UID(),
        maxExpirationSeconds: 7_200,
        stubPKCS10Request: btoa('request-1'),
        unverifiedUserAnnotations: { 'example.com/a': 'b' },
      },
    });
    node.run(5_000);
    expect(messages().filter((each) => each.startsWith('FailedMount'))).toEqual([]);
    issue('one');
    node.until('Running', isRunning('web'), 5_000);
    const key = expect.objectContaining({ $secret: expect.stringMatching(/^§/) });
    expect(files()).toEqual([
      { path: 'bundle.pem', mode: 0o644, content: { joined: [key, chain('one')] } },
      { path: 'tls/chain.pem', mode: 0o644, content: { text: chain('one') } },
      { path: 'tls/key.pem', mode: 0o644, content: { text: key } },
    ]);
    // The pod would start without the API server, and without a key.
    expect(node.world.remembered.size).toBe(0);
  });

  it('is another one, with another key, when the signer wants to be asked again', () => {
    const { node, kube } = booted();
    kube.createPod('web', projected());
    waits();
    issue('one');
    const fromMs = node.world.time.now();
    node.until('Running', isRunning('web'), 5_000);
    waits(2);
    const afterMs = node.world.time.now() - fromMs;
    expect(afterMs).toBeGreaterThanOrEqual(HOUR_MS);
    expect(afterMs).toBeLessThan(HOUR_MS + 301_000);
    const [before] = files();
    issue('two');
    node.until('the second', () => JSON.stringify(files()).includes(JSON.stringify(chain('two')).slice(1, -1)), 5_000);
    expect(JSON.stringify(before)).not.toBe(JSON.stringify(files()[0]));
    expect(messages().filter((each) => each.startsWith('Certificate'))).toEqual([]);
  });

  it('that is too old is complained of, once each', () => {
    const { node, kube } = booted();
    kube.createPod('web', projected());
    waits();
    issue('one');
    node.until('Running', isRunning('web'), 5_000);
    kube.refuse = (verb, path) =>
      verb === 'create' && path.endsWith('podcertificaterequests')
        ? new Refusal('no', { code: 403, reason: 'Forbidden' })
        : undefined;
    node.run(HOUR_MS + 660_000);
    expect(messages()).toContain('CertificateOverdueForRefresh: PodCertificate refresh overdue');
    expect(messages()).not.toContain('CertificateExpired: PodCertificate expired');
    node.run(HOUR_MS);
    expect(messages().filter((each) => each.startsWith('Certificate'))).toEqual([
      'CertificateOverdueForRefresh: PodCertificate refresh overdue',
      'CertificateExpired: PodCertificate expired',
    ]);
    expect(JSON.stringify(files())).toContain(JSON.stringify(chain('one')).slice(1, -1));
  });

  it.each([
    ['Denied', 'was denied', 'denied'],
    ['Failed', 'failed', 'failed'],
  ])('that is %s is not asked for again', (type, stated, word) => {
    const { node, kube } = booted();
    kube.createPod('web', projected());
    waits();
    answer(condition(type, 'UnsupportedKeyType', 'use "RSA3072"'));
    node.run(60_000);
    const { name } = requests()[0]!.metadata;
    const why = 'reason="UnsupportedKeyType"';
    const text = 'message="use \\"RSA3072\\""';
    expect(messages()).toContain(`${type}: PodCertificateRequest default/${name} ${stated}, ${why}, ${text}`);
    expect(messages()).toContain(`${FAILED}PodCertificateRequest was permanently ${word}: ${why} ${text}`);
    expect(created()).toHaveLength(1);
    expect(node.world.runtime.started).toEqual([]);
  });

  it('that is not issued is reported, and used when it is issued', () => {
    const { node, kube } = booted();
    kube.createPod('web', projected());
    waits();
    node.run(900_000);
    expect(messages()).toContain(`${FAILED}credential bundle is not issued yet`);
    expect(created()).toHaveLength(1);
    issue('late');
    node.until('Running', isRunning('web'), 150_000);
  });

  it('whose request was deleted is asked for again', () => {
    const { kube } = booted();
    kube.createPod('web', projected());
    waits();
    cluster.node.run(1_000);
    kube.registry.delete({ kind, namespace: 'default', name: requests()[0]!.metadata.name }, {});
    waits(2);
    expect(new Set(created().map(({ body }) => body.spec.stubPKCS10Request)).size).toBe(2);
    issue('second');
    cluster.node.until('Running', isRunning('web'), 150_000);
  });

  it('that was issued without a certificate is asked for again', () => {
    const { kube } = booted();
    kube.createPod('web', projected());
    waits();
    answer({ ...condition('Issued'), certificateChain: 'none', beginRefreshAt: 'soon', notAfter: 'never' });
    waits(2);
  });

  it('with a key type that there is not is said', () => {
    const { node, kube } = booted();
    kube.createPod('web', projected({ keyType: 'DSA' }));
    node.run(5_000);
    const why = 'while generating keypair: unknown key type "DSA"';
    expect(messages()).toContain(`${FAILED}credential bundle is not issued yet: ${why}`);
  });

  it('of a service account that is gone is said', () => {
    const { node, kube } = booted();
    kube.createPod('web', projected());
    const account = knownKind('v1', 'serviceaccounts');
    kube.registry.delete({ kind: account, namespace: 'default', name: 'default' }, {});
    node.run(5_000);
    const why = 'while fetching service account: serviceaccounts "default" not found';
    expect(messages()).toContain(`${FAILED}credential bundle is not issued yet: ${why}`);
  });

  it('is requested again by another podCertificate actor when the first one crashed', () => {
    const { node, kube } = booted();
    const { uid } = kube.createPod('web', projected()).metadata;
    waits();
    node.kernel.dispatch(`kubelet/pods/pod-${uid}/certificate-0`, { type: 'reflector.listed', items: null }, 'test');
    waits(2);
    expect(node.crashes()).toHaveLength(1);
    issue('two');
    node.until('Running', isRunning('web'), 5_000);
    expect(JSON.stringify(files())).toContain(JSON.stringify(chain('two')).slice(1, -1));
  });

  it('is no longer asked for when its pod is gone', () => {
    const { node, kube } = booted();
    kube.createPod('web', projected());
    waits();
    issue('one');
    node.until('Running', isRunning('web'), 5_000);
    kube.delete('pods', 'web');
    node.until('gone', () => kube.pod('web') === undefined).run(2 * HOUR_MS);
    expect(created()).toHaveLength(1);
  });

  it('is not served by a node whose gate is off, and that is said', () => {
    const { node, kube } = booted(false);
    kube.createPod('web', projected());
    node.run(5_000);
    expect(messages()).toContain(
      `${FAILED}a projected source of kind podCertificate needs the feature gate PodCertificateRequest`,
    );
    expect(created()).toEqual([]);
  });
});
