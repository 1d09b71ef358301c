/** Trust anchors and certificates in the volumes of a running node: their files as a container sees them. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type ApiServer, startApiServer } from '../fakes/api-server/index.ts';
import { eventually, TestNode } from '../support/daemon.ts';

const GATES = ['ClusterTrustBundle', 'ClusterTrustBundleProjection', 'PodCertificateRequest'];
const SIGNER = 'example.com/signer';
let server: ApiServer;
let node: TestNode;
let kubeconfig: string[];

beforeEach(async () => {
  server = await startApiServer();
  const gates = GATES.map((gate) => `${gate}: true`).join(', ');
  node = new TestNode({ configuration: `featureGates: { ${gates} }` });
  kubeconfig = [`--kubeconfig=${await server.kubeconfig('system:node:node1')}`];
  await node.start(kubeconfig);
  await eventually('the Node', () => server.store.get('v1', 'nodes', 'node1'));
});
afterEach(async () => {
  // The node unmounts the volumes, which would otherwise stay mounted.
  if (!node.isRunning) await node.start(kubeconfig);
  for (const { metadata } of server.store.list('v1', 'pods')) server.delete('v1', 'pods', metadata.name, 'default', 1);
  await eventually('no pod is left', () => server.store.list('v1', 'pods').length === 0);
  await node.close();
  await server.close();
});

// oxlint-disable-next-line typescript/no-explicit-any -- a pod as it is stored
const pod = (name: string): any => server.store.get('v1', 'pods', name, 'default');
const isRunning = (name: string) => () => pod(name)?.status?.phase === 'Running';
const events = () =>
  server.store.list('v1', 'events', 'default').map(({ reason, message }) => `${String(reason)}: ${String(message)}`);

const createPod = (name: string, sources: readonly object[], spec = {}) =>
  server.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      nodeName: 'node1',
      hostNetwork: true,
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 1,
      containers: [
        {
          name: 'c',
          image: 'busybox',
          command: ['sh', '-c', 'sleep 3600'],
          volumeMounts: [{ name: 'v', mountPath: '/v' }],
        },
      ],
      volumes: [{ name: 'v', projected: { sources } }],
      ...spec,
    },
  });
const volume = (name: string) => join(node.rootDir, `pods/${pod(name).metadata.uid}/volumes/kubernetes.io~projected/v`);
const text = (name: string, file: string) => readFileSync(join(volume(name), file), 'utf8');
const createBundle = (name: string, trustBundle: string, spec = {}) =>
  server.create({
    apiVersion: 'certificates.k8s.io/v1beta1',
    kind: 'ClusterTrustBundle',
    metadata: { name, labels: { live: 'yes' } },
    spec: { trustBundle, ...spec },
  });

it('a trust bundle is a file that changes with it', async () => {
  const other = await startApiServer();
  await other.close();
  createBundle('roots', `what we trust\n${server.authority.caPem}${server.authority.caPem}`, { signerName: SIGNER });
  const labelSelector = { matchLabels: { live: 'yes' } };
  createPod('web', [
    { clusterTrustBundle: { name: 'roots', path: 'by-name.pem' } },
    { clusterTrustBundle: { signerName: SIGNER, labelSelector, path: 'by-signer.pem' } },
    { clusterTrustBundle: { name: 'none', optional: true, path: 'none.pem' } },
  ]);
  await eventually('Running', isRunning('web'));
  expect(text('web', 'by-name.pem')).toBe(server.authority.caPem);
  expect(text('web', 'by-signer.pem')).toBe(server.authority.caPem);
  expect(text('web', 'none.pem')).toBe('');
  createBundle('more', other.authority.caPem, { signerName: SIGNER });
  await eventually('the other root', () => text('web', 'by-signer.pem').includes(other.authority.caPem));
  expect(text('web', 'by-name.pem')).toBe(server.authority.caPem);
});

it('a certificate is in the volume beside its key, and the key nowhere else', async () => {
  server.podSigner.rules.set(SIGNER, { lifetimeSeconds: 3_600, refreshSeconds: 1_800 });
  const paths = { credentialBundlePath: 'all.pem', keyPath: 'key.pem', certificateChainPath: 'chain.pem' };
  createPod('web', [{ podCertificate: { signerName: SIGNER, keyType: 'ECDSAP256', ...paths } }]);
  await eventually('Running', isRunning('web'));
  const [key, chain] = [text('web', 'key.pem'), text('web', 'chain.pem')];
  expect(text('web', 'all.pem')).toBe(`${key}${chain}`);
  const leaf = new X509Certificate(chain);
  expect(leaf.subject).toBe('CN=web');
  expect(leaf.checkPrivateKey(createPrivateKey(key))).toBe(true);
  expect(leaf.verify(new X509Certificate(server.authority.caPem).publicKey)).toBe(true);
  const secret = key.split('\n')[1]!;
  expect(node.log).not.toContain(secret);
  const files = readdirSync(node.journal, { recursive: true, encoding: 'utf8' }).map((each) =>
    join(node.journal, each),
  );
  const written = files.filter((file) => statSync(file).isFile()).map((file) => readFileSync(file, 'latin1'));
  expect(written.filter((content) => content.includes(secret))).toEqual([]);
  await node.stop();
  expect(node.statelet('replay', node.journal)).toMatchObject({ code: 0 });
});

it('a certificate that is denied is reported in an event of the pod', async () => {
  server.podSigner.rules.set(SIGNER, { denies: 'UnsupportedKeyType', message: 'only RSA3072' });
  const source = { signerName: SIGNER, keyType: 'ED25519', credentialBundlePath: 'all.pem' };
  createPod('web', [{ podCertificate: source }]);
  const why = 'reason="UnsupportedKeyType" message="only RSA3072"';
  await eventually('the event', () =>
    events().includes(
      `FailedMount: MountVolume.SetUp failed for volume "v" : PodCertificateRequest was permanently denied: ${why}`,
    ),
  );
  expect(events()).toContainEqual(
    expect.stringMatching(/^Denied: PodCertificateRequest default\/req-\w+ was denied, /),
  );
  expect(isRunning('web')()).toBe(false);
});
