/**
 * Volumes of a CSI driver in a real pod of a cluster: attached, staged and published by real calls and real mounts,
 * across a crash of the agent, and removed completely. The test acts as the controller that attaches.
 */
import {
  type Dirent,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { systemCalls } from '../../src/actors/host/kernel/syscall.ts';
import { attachmentName } from '../../src/machines/model/csi/policy.ts';
import { needsMounts } from '../actors/volume/support.ts';
import { type ApiServer, startApiServer } from '../fakes/api-server/index.ts';
import { type CsiDriver, startCsiDriver } from '../fakes/csi-driver.ts';
import { eventually, TestNode } from '../support/daemon.ts';
import { type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

const DRIVER = 'csi.example.test';
const UNIQUE = `kubernetes.io/csi/${DRIVER}^handle-1`;
const CANARY = 'canary-91c40c7e-do-not-write-me';
/** For two daemons, one after the other, on a busy machine. */
const LIMITS = { timeout: patient(240_000) };
const WAIT_MS = 60_000;
/** Longer than all waits at the end of a test together. */
const LEAVING_MS = 300_000;
const until: typeof eventually = (what, look) => eventually(what, look, WAIT_MS);
const STORAGE = 'storage.k8s.io/v1';

let runtime: RuntimeInUse;
let server: ApiServer;
let node: TestNode;
let driver: CsiDriver;

async function listen(): Promise<void> {
  const registry = join(node.rootDir, 'plugins_registry');
  await until('the folder of plugins', () => existsSync(registry));
  const own = join(node.rootDir, `plugins/${DRIVER}`);
  mkdirSync(own, { recursive: true });
  driver = await startCsiDriver({
    socket: join(registry, `${DRIVER}-reg.sock`),
    endpoint: join(own, 'csi.sock'),
    capabilities: ['STAGE_UNSTAGE_VOLUME', 'EXPAND_VOLUME'],
  });
}

async function boot(spec: object): Promise<void> {
  server = await startApiServer({ tokenMinSeconds: 1 });
  const endpoint = runtime.endpoint === undefined ? {} : { endpoint: runtime.endpoint };
  node = new TestNode({ ...endpoint, flags: [`--kubeconfig=${await server.kubeconfig('system:node:node1')}`] });
  server.create({ apiVersion: STORAGE, kind: 'CSIDriver', metadata: { name: DRIVER }, spec });
  await node.start();
  await listen();
}

function createClaim(csi: object = {}, status: object = {}, volumeMode = 'Filesystem'): void {
  const source = { driver: DRIVER, volumeHandle: 'handle-1', volumeAttributes: { size: 'big' }, ...csi };
  const create = (kind: string, name: string, more: object) =>
    server.create({ apiVersion: 'v1', kind, metadata: { name }, ...more });
  const accessModes = ['ReadWriteOnce'];
  const claim = create('PersistentVolumeClaim', 'data', {
    spec: { accessModes, volumeName: 'pv1', resources: { requests: { storage: '128Ki' } } },
    status: { phase: 'Bound', ...status },
  });
  const claimRef = { uid: claim.metadata.uid };
  create('PersistentVolume', 'pv1', {
    spec: { capacity: { storage: '128Ki' }, accessModes, volumeMode, csi: source, claimRef },
  });
}

/** `container`: replaces the mount at `/data`. */
const createPod = (name: string, volume: object, container: object = {}) =>
  server.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      nodeName: 'node1',
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      volumes: [{ name: 'v', ...volume }],
      containers: [
        {
          name: 'app',
          image: runtime.image,
          command: ['sh', '-c', "echo written > /data/it; trap 'exit 0' TERM; sleep 3600 & wait"],
          volumeMounts: [{ name: 'v', mountPath: '/data' }],
          ...container,
        },
      ],
    },
  });
const claim = { persistentVolumeClaim: { claimName: 'data' } };

// oxlint-disable-next-line typescript/no-explicit-any -- objects of any kind
const get = (apiVersion: string, resource: string, name: string, namespace?: string): any =>
  server.store.get(apiVersion, resource, name, namespace);
const pod = (name: string) => get('v1', 'pods', name, 'default');
const running = (name: string) => until(`${name} runs`, () => pod(name)?.status?.phase === 'Running');
const gone = async (name: string) => {
  server.delete('v1', 'pods', name);
  await until(`${name} is gone`, () => pod(name) === undefined);
};
const methods = () => driver.calls.map(({ method }) => method);
/** No pod waits for this. */
const unstaged = () => until('it is unstaged', () => methods().includes('NodeUnstageVolume'));
const inUse = () => get('v1', 'nodes', 'node1')?.status?.volumesInUse ?? [];
const messages = () => server.store.list('v1', 'events', 'default').map(({ message }) => String(message));
const mounts = () => node.mounts();
const target = (name: string, spec: string) =>
  join(node.rootDir, `pods/${pod(name).metadata.uid}/volumes/kubernetes.io~csi/${spec}/mount`);
const isSame = (incarnation: string[] = []) =>
  expect(node.statelet('replay', node.journal, ...incarnation)).toMatchObject({ code: 0 });

/** Attaches as the cluster's controller does when the Node reports that it uses the volume. */
function attach(): void {
  const name = attachmentName({ driver: DRIVER, handle: 'handle-1' }, 'node1');
  const spec = { attacher: DRIVER, nodeName: 'node1', source: { persistentVolumeName: 'pv1' } };
  server.create({ apiVersion: STORAGE, kind: 'VolumeAttachment', metadata: { name }, spec });
  const attached = { attached: true, attachmentMetadata: { device: '/dev/x' } };
  server.patch(
    { apiVersion: STORAGE, resource: 'volumeattachments', name, subresource: 'status' },
    { status: attached },
  );
  const volumesAttached = [{ name: UNIQUE, devicePath: '' }];
  server.patch(
    { apiVersion: 'v1', resource: 'nodes', name: 'node1', subresource: 'status' },
    { status: { volumesAttached } },
  );
}

function written(): string {
  const entries: Dirent[] = readdirSync(node.directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return files.map((path) => readFileSync(path, 'latin1')).join('\n');
}

/** Removes the leftovers of one test only, because the next one may have begun. */
async function leave(ownNode: TestNode, ownServer: ApiServer, ownDriver: CsiDriver): Promise<void> {
  ownDriver.fault = () => undefined;
  if (!ownNode.isRunning) await ownNode.start();
  const pods = () => ownServer.store.list('v1', 'pods');
  for (const { metadata } of pods()) ownServer.delete('v1', 'pods', metadata.name);
  await until('no pod is left', () => pods().length === 0).catch(() => {});
  ownDriver.close();
  for (const point of await ownNode.mounts()) systemCalls()!.unmount(point);
  await ownNode.close();
  await ownServer.close();
}

for (const choice of runtimes) {
  const { skip } = requirement('containerd', choice.unavailable);
  describe.skipIf(skip || needsMounts)(`CSI volumes on ${choice.name}`, () => {
    beforeAll(async () => {
      runtime = await choice.start();
    });
    afterAll(() => runtime.close());
    afterEach(() => leave(node, server, driver), LEAVING_MS);
    cases();
  });
}

function cases(): void {
  it(
    'a claim’s volume is attached, mounted and used, over a crash of the agent, and leaves nothing',
    LIMITS,
    async () => {
      await boot({ attachRequired: true, podInfoOnMount: true });
      createClaim({ nodePublishSecretRef: { name: 'key', namespace: 'default' } });
      const stringData = { password: CANARY };
      server.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'key', namespace: 'default' }, stringData });
      createPod('web', claim);
      await until('the Node lists the volume', () => inUse().includes(UNIQUE));
      expect(methods()).toEqual([]);
      attach();
      await running('web');
      const path = target('web', 'pv1');
      expect(methods()).toEqual(['NodeStageVolume', 'NodePublishVolume']);
      const [stage, publish] = driver.calls.map(({ request }) => request);
      expect(stage).toMatchObject({ volume_id: 'handle-1', publish_context: { device: '/dev/x' }, secrets: {} });
      expect(publish).toMatchObject({ target_path: path, secrets: { password: CANARY } });
      expect(publish.volume_context).toMatchObject({ size: 'big', 'csi.storage.k8s.io/pod.name': 'web' });
      expect((await mounts()).filter((point) => point === path)).toHaveLength(1);
      if (runtime.endpoint) await until('the file', () => readFileSync(join(path, 'it'), 'utf8') === 'written\n');

      await node.stop('SIGKILL');
      await node.start();
      await until('the agent knows it', () => node.log.includes('Registered CSI driver'));
      await running('web');
      await until('the driver is asked again', () => methods().length === 4);
      expect(methods().slice(2)).toEqual(['NodeStageVolume', 'NodePublishVolume']);
      expect((await mounts()).filter((point) => point === path)).toHaveLength(1);

      await gone('web');
      await unstaged();
      expect(methods().slice(4)).toEqual(['NodeUnpublishVolume', 'NodeUnstageVolume']);
      await until('the Node lists nothing', () => inUse().length === 0);
      expect(await mounts()).toEqual([]);
      expect(existsSync(path)).toBe(false);
      expect(written()).not.toContain(CANARY);
      await node.stop();
      isSame();
    },
  );

  it(
    'a volume of the pod itself: its driver’s failures are the pod’s events, and end when it heals',
    LIMITS,
    async () => {
      await boot({
        attachRequired: false,
        volumeLifecycleModes: ['Ephemeral'],
        tokenRequests: [{ audience: 'vault' }],
      });
      driver.fault = ({ method }) =>
        method === 'NodePublishVolume' ? { code: status.INTERNAL, details: 'no such secret' } : undefined;
      createPod('own', { csi: { driver: DRIVER, volumeAttributes: { a: 'b' } } });
      const event = 'MountVolume.SetUp failed for volume "v" : rpc error: code = Internal desc = no such secret';
      await until('the event', () => messages().includes(event));
      expect(existsSync(target('own', 'v'))).toBe(false);
      driver.fault = () => undefined;
      await running('own');
      const { request } = driver.calls.at(-1)!;
      const tokens = JSON.parse(request.volume_context['csi.storage.k8s.io/serviceAccount.tokens']);
      expect(tokens).toEqual({
        vault: { token: expect.stringMatching(/^ey/), expirationTimestamp: expect.any(String) },
      });
      expect(written()).not.toContain(tokens.vault.token);
      await gone('own');
      expect(methods().at(-1)).toBe('NodeUnpublishVolume');
      await node.stop();
      isSame();
    },
  );

  it(
    'a pod that goes while the agent is away is taken away by the next one, though its driver cannot at first',
    LIMITS,
    async () => {
      await boot({ attachRequired: false });
      createClaim();
      createPod('web', claim);
      await running('web');
      await node.stop('SIGKILL');
      server.delete('v1', 'pods', 'web', 'default', 0);
      driver.fault = ({ method }) =>
        method === 'NodeUnpublishVolume' ? { code: status.UNAVAILABLE, details: 'not yet' } : undefined;
      await node.start();
      await until('it is tried', () => node.log.includes('UnmountVolume.TearDown failed'));
      createPod('other', { emptyDir: {} });
      await running('other');
      expect(await mounts()).not.toEqual([]);
      driver.fault = () => undefined;
      await until('nothing is mounted', async () => (await mounts()).length === 0);
      expect(methods().slice(-1)).toEqual(['NodeUnstageVolume']);
      await until(
        'no record is left',
        () => readdirSync(join(node.rootDir, `plugins/kubernetes.io/csi/${DRIVER}`)).length === 0,
      );
      await node.stop();
      isSame();
    },
  );

  it('a claim that was made larger is expanded before its pod begins, and says so', LIMITS, async () => {
    await boot({ attachRequired: false });
    const conditions = [{ type: 'FileSystemResizePending', status: 'True' }];
    const allocated = {
      allocatedResources: { storage: '128Ki' },
      allocatedResourceStatuses: { storage: 'NodeResizePending' },
    };
    createClaim({}, { capacity: { storage: '64Ki' }, ...allocated, conditions });
    createPod('web', claim);
    await running('web');
    expect(methods()).toEqual(['NodeStageVolume', 'NodePublishVolume', 'NodeExpandVolume']);
    const { blocks, bsize } = statfsSync(target('web', 'pv1'));
    expect(blocks * bsize).toBe(128 * 1024);
    const { status: claimStatus } = get('v1', 'persistentvolumeclaims', 'data', 'default');
    expect(claimStatus).toMatchObject({ capacity: { storage: '128Ki' }, conditions: [] });
    expect(claimStatus).not.toHaveProperty('allocatedResourceStatuses');
    const text = 'MountVolume.NodeExpandVolume succeeded for volume "pv1" node1';
    await until('the events', () => messages().filter((each) => each === text).length === 2);
    await gone('web');
    await node.stop();
    isSame();
  });

  it('a block device is in the container as one, over a crash of the agent, and leaves nothing', LIMITS, async () => {
    await boot({ attachRequired: false });
    driver.disk = join(node.directory, 'disk.img');
    writeFileSync(driver.disk, 'from the disk'.padEnd(1_048_576));
    createClaim({}, {}, 'Block');
    const isReal = runtime.endpoint !== undefined;
    createPod('web', claim, {
      volumeMounts: [],
      volumeDevices: [{ name: 'v', devicePath: '/dev/data' }],
      command: ['sh', '-c', `${isReal ? 'head -c 13 /dev/data; echo; ' : ''}trap 'exit 0' TERM; sleep 3600 & wait`],
    });
    await running('web');
    const { uid } = pod('web').metadata;
    const link = join(node.rootDir, `pods/${uid}/volumeDevices/kubernetes.io~csi/pv1`);
    expect(statSync(link).isBlockDevice()).toBe(true);
    const log = () => readFileSync(join(node.directory, `logs/default_web_${uid}/app/0.log`), 'utf8');
    if (isReal) await until('what the container read', () => log().includes('from the disk'));
    await node.stop('SIGKILL');
    await node.start();
    await running('web');
    await gone('web');
    await unstaged();
    expect(new Set(methods())).toEqual(
      new Set(['NodeStageVolume', 'NodePublishVolume', 'NodeUnpublishVolume', 'NodeUnstageVolume']),
    );
    await until('nothing is mounted', async () => (await mounts()).length === 0);
    expect(existsSync(link)).toBe(false);
    await node.stop();
    isSame();
  });
}
