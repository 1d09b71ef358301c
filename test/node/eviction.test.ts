/** A node of a cluster with a resource shortage: which pods are evicted, and what the cluster shows. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it, onTestFinished, vi } from 'vitest';
import { type ApiServer, startApiServer } from '../fakes/api-server/index.ts';
import { containerdAvailable, startContainerd } from '../support/containerd.ts';
import { eventually, TestNode } from '../support/daemon.ts';
import { BUSYBOX_IMAGE, PAUSE_IMAGE } from '../support/image.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

const NODE = 'node1';
/** The watches measure every 10 s. */
const PATIENTLY_MS = 120_000;
vi.setConfig({ testTimeout: patient(4 * PATIENTLY_MS) });
let server: ApiServer | undefined;
let node: TestNode;

afterEach(async () => {
  await node.close();
  await server?.close();
});

async function boot(configuration = ''): Promise<void> {
  server = await startApiServer();
  const kubeconfig = await server.kubeconfig(`system:node:${NODE}`);
  node = new TestNode({ flags: [`--kubeconfig=${kubeconfig}`], configuration });
  await node.start();
}

// oxlint-disable-next-line typescript/no-explicit-any -- objects of any kind
const pod = (name: string): any => server!.store.get('v1', 'pods', name, 'default');
const app = { name: 'app', image: 'busybox', command: ['sleep', '3600'] };
const createPod = (name: string, spec = {}, resources = {}) =>
  server!.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      nodeName: NODE,
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      containers: [{ ...app, resources }],
      ...spec,
    },
  });
const untilPhase = (name: string, phase: string) =>
  eventually(`${name} is ${phase}`, () => pod(name)?.status?.phase === phase, PATIENTLY_MS);
const eventsOf = (name: string) =>
  server!.store
    .list('v1', 'events', 'default')
    .filter((event) => (event['involvedObject'] as { name: string }).name === name);

it('a pod whose emptyDir exceeds its limit is evicted, and the cluster gets the reason', async () => {
  await boot();
  const containers = [{ ...app, volumeMounts: [{ name: 'd', mountPath: '/d' }] }];
  createPod('filler', { containers, volumes: [{ name: 'd', emptyDir: { sizeLimit: '1Mi' } }] });
  await untilPhase('filler', 'Running');
  const volume = join(node.rootDir, 'pods', pod('filler').metadata.uid, 'volumes/kubernetes.io~empty-dir/d');
  writeFileSync(join(volume, 'file'), Buffer.alloc(2 ** 21, 1));
  await untilPhase('filler', 'Failed');
  const message = 'Usage of EmptyDir volume "d" exceeds the limit "1Mi". ';
  expect(pod('filler').status).toMatchObject({ reason: 'Evicted', message });
  expect(pod('filler').status.conditions.map(({ type }: { type: string }) => type)).not.toContain('DisruptionTarget');
  await eventually('the event', () => eventsOf('filler').some((event) => event['reason'] === 'Evicted'));
  expect(eventsOf('filler')).toContainEqual(expect.objectContaining({ type: 'Warning', reason: 'Evicted', message }));
  await node.stop();
  expect(node.statelet('replay', node.journal)).toMatchObject({ code: 0, stderr: '' });
});

it('a node that is short of memory takes less, says so, and gives up a pod', async () => {
  await boot(`evictionSoft:
  memory.available: 1Ti
evictionSoftGracePeriod:
  memory.available: 15s
`);
  const condition = () =>
    // oxlint-disable-next-line typescript/no-explicit-any -- a Node as it is
    (server!.store.get('v1', 'nodes', NODE) as any)?.status?.conditions?.find(
      ({ type }: { type: string }) => type === 'MemoryPressure',
    );
  await eventually('MemoryPressure', () => condition()?.status === 'True', PATIENTLY_MS);
  expect(condition()).toMatchObject({ reason: 'KubeletHasInsufficientMemory' });
  createPod('best-effort');
  createPod('asking', {}, { requests: { memory: '1Mi' } });
  await untilPhase('best-effort', 'Failed');
  expect(pod('best-effort').status).toMatchObject({
    reason: 'Evicted',
    message: 'Pod was rejected: The node had condition: [MemoryPressure]. ',
  });
  await untilPhase('asking', 'Failed');
  const { status } = pod('asking');
  expect(status.reason).toBe('Evicted');
  expect(status.message).toMatch(
    /^The node was low on resource: memory\. Threshold quantity: 1Ti, available: \d+\w*\. /,
  );
  expect(status.conditions).toContainEqual(
    expect.objectContaining({ type: 'DisruptionTarget', status: 'True', reason: 'TerminationByKubelet' }),
  );
  await node.stop();
  expect(node.statelet('replay', node.journal)).toMatchObject({ code: 0, stderr: '' });
});

it.skipIf(requirement('containerd', containerdAvailable()).skip)(
  'a node that is short of disk removes unused images, except that of sandboxes',
  async () => {
    const containerd = await startContainerd();
    onTestFinished(() => containerd.close());
    server = undefined;
    const configuration = `evictionSoft:
  nodefs.available: 99.9%
evictionSoftGracePeriod:
  nodefs.available: 5s
imageGCHighThresholdPercent: 100
imageMinimumGCAge: 1s
`;
    node = new TestNode({ endpoint: containerd.endpoint, configuration });
    const images = async () =>
      (await containerd.ctr('images', 'ls', '-q')).split('\n').filter((name) => name.startsWith('localhost/'));
    await node.start();
    await eventually('clearing', async () => !(await images()).includes(BUSYBOX_IMAGE), PATIENTLY_MS);
    // This containerd does not pin the image of its sandboxes, and there is no registry to pull it from.
    expect(await images()).toEqual([PAUSE_IMAGE]);
  },
);
