/** Pods of an API server on a daemon, as a user of the cluster sees them. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type ApiServer, startApiServer } from '../fakes/api-server/index.ts';
import { eventually, TestNode } from '../support/daemon.ts';
import { type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { requirement } from '../support/require.ts';

const NODE = 'node1';
let server: ApiServer;
let node: TestNode;
let runtime: RuntimeInUse;

for (const choice of runtimes) {
  const { skip } = requirement('containerd', choice.unavailable);
  describe.skipIf(skip)(`a node of a cluster on ${choice.name}`, () => {
    beforeAll(async () => {
      runtime = await choice.start();
    });
    afterAll(() => runtime.close());
    afterEach(async () => {
      if (!node.isRunning) await node.start();
      for (const { metadata } of server.store.list('v1', 'pods')) {
        server.delete('v1', 'pods', metadata.name, metadata.namespace, 1);
      }
      await eventually('no pod is left', () => server.store.list('v1', 'pods').length === 0);
      await node.close();
      await server.close();
    });
    cases();
  });
}

async function boot(configuration = ''): Promise<void> {
  server = await startApiServer({ tokenMinSeconds: 1 });
  const kubeconfig = await server.kubeconfig(`system:node:${NODE}`);
  const endpoint = runtime.endpoint === undefined ? {} : { endpoint: runtime.endpoint };
  node = new TestNode({ ...endpoint, flags: [`--kubeconfig=${kubeconfig}`], configuration });
  await node.start();
}

// oxlint-disable-next-line typescript/no-explicit-any -- objects of any kind
const pod = (name: string, namespace = 'default'): any => server.store.get('v1', 'pods', name, namespace);
const isRunning = (name: string) => () => pod(name)?.status?.phase === 'Running';

const createPod = (name: string, spec = {}) =>
  server.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      nodeName: NODE,
      terminationGracePeriodSeconds: 1,
      containers: [{ name: 'app', image: runtime.image, command: ['sh', '-c', WAIT] }],
      ...spec,
    },
  });

const requests = (method: string, path: RegExp) =>
  server.requests.filter((request) => request.method === method && path.test(request.path));
const reasons = () => server.store.list('v1', 'events', 'default').map(({ reason }) => reason);
const eventsOfPods = () =>
  server.store
    .list('v1', 'events', 'default')
    .filter((event) => (event['involvedObject'] as { kind: string }).kind === 'Pod')
    .map((event) => [event.metadata.name, event['reason'], event['count']]);
const replays = () => expect(node.statelet('replay', node.journal)).toMatchObject({ code: 0 });

/** Ends at once on the stop signal. */
const WAIT = "trap 'exit 0' TERM; sleep 3600 & wait";
const RECORDED = join(import.meta.dirname, '../golden/pods/cases/plain');

// oxlint-disable-next-line typescript/no-explicit-any -- a recording
type Recorded = any;

/** The part of a last status that does not depend on names, times and addresses. */
const gistOf = ({ phase, conditions, containerStatuses }: Recorded) => ({
  phase,
  conditions: conditions.map(({ type, status, reason }: Recorded) => [type, status, reason]),
  states: containerStatuses.map(({ state, ready, restartCount, started }: Recorded) => [
    state.terminated.reason,
    state.terminated.exitCode,
    ready,
    restartCount,
    started,
  ]),
});

function cases(): void {
  describe('a pod that is bound to the node', () => {
    it('runs with its token, costs two writes and no read, and is gone when it is deleted', async () => {
      await boot();
      server.create({
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'kubernetes', namespace: 'default' },
        spec: { clusterIP: '10.96.0.1', ports: [{ name: 'https', port: 443, protocol: 'TCP' }] },
      });
      createPod('web');
      await eventually('Running', isRunning('web'));
      expect(requests('PATCH', /pods\/web\/status/).length).toBeLessThanOrEqual(2);
      expect(requests('GET', /pods\/web/)).toEqual([]);
      expect(requests('POST', /serviceaccounts\/default\/token/)).toHaveLength(1);
      await eventually('events', () => reasons().includes('Started'));
      server.delete('v1', 'pods', 'web');
      await eventually('gone', () => pod('web') === undefined);
      await node.stop();
      replays();
    });

    it('sees the change of a ConfigMap, and of a Secret in its volume', async () => {
      await boot();
      const make = (kind: string, data: object) =>
        server.create({ apiVersion: 'v1', kind, metadata: { name: 'settings' }, ...data });
      make('ConfigMap', { data: { a: 'one' } });
      make('Secret', { stringData: { s: 'canary-one' } });
      const volumes = [
        { name: 'c', configMap: { name: 'settings' } },
        { name: 's', secret: { secretName: 'settings' } },
      ];
      const volumeMounts = volumes.map(({ name }) => ({ name, mountPath: `/${name}` }));
      const containers = [{ name: 'app', image: runtime.image, command: ['sh', '-c', WAIT], volumeMounts }];
      createPod('web', { containers, volumes, automountServiceAccountToken: false });
      await eventually('Running', isRunning('web'));
      const file = (plugin: string, path: string) =>
        readFileSync(
          join(node.rootDir, `pods/${pod('web').metadata.uid}/volumes/kubernetes.io~${plugin}/${path}`),
          'utf8',
        );
      expect([file('configmap', 'c/a'), file('secret', 's/s')]).toEqual(['one', 'canary-one']);
      server.patch({ apiVersion: 'v1', resource: 'configmaps', name: 'settings' }, { data: { a: 'two' } });
      await eventually('the new text', () => file('configmap', 'c/a') === 'two');
      server.patch({ apiVersion: 'v1', resource: 'secrets', name: 'settings' }, { data: { s: btoa('canary-two') } });
      await eventually('the new secret', () => file('secret', 's/s') === 'canary-two');
      const files = readdirSync(node.journal, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
      const written = files.map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'latin1')).join('');
      expect(written).not.toMatch(/canary-|Y2FuYXJ5L/);
    });

    it('survives a restart of the agent, without a write to the API server', async () => {
      await boot();
      createPod('web', { automountServiceAccountToken: false });
      await eventually('Running', isRunning('web'));
      await eventually('events', () => reasons().includes('Started'));
      const { containerStatuses } = pod('web').status;
      const { resourceVersion } = pod('web').metadata;
      await node.stop('SIGTERM');
      const known = eventsOfPods();
      const before = server.requests.length;
      await node.start();
      await eventually('its list', () => server.requests.slice(before).some(({ path }) => /\/pods\?/.test(path)));
      await new Promise((done) => setTimeout(done, 3_000));
      expect(pod('web').metadata.resourceVersion).toBe(resourceVersion);
      expect(pod('web').status.containerStatuses).toEqual(containerStatuses);
      const later = server.requests.slice(before);
      expect(later.filter(({ method, path }) => method !== 'GET' && /\/pods/.test(path))).toEqual([]);
      expect(eventsOfPods()).toEqual(known);
    });
    it('ends as the recorded pod `plain` does', async () => {
      await boot();
      createPod('p', { automountServiceAccountToken: false });
      await eventually('Running', isRunning('p'));
      let last: unknown;
      server.store.changes.on('event', ({ type, kind, object }) => {
        if (kind.resource === 'pods' && type !== 'DELETED') last = object.status;
      });
      server.delete('v1', 'pods', 'p');
      await eventually('gone', () => pod('p') === undefined);
      await eventually('events', () => reasons().includes('Killing'));
      const lines = readFileSync(join(RECORDED, 'status.ndjson'), 'utf8').trim().split('\n');
      const recorded: unknown = (JSON.parse(lines.at(-1)!) as { status: unknown }).status;
      expect(gistOf(last)).toEqual(gistOf(recorded));
      expect(eventsOfPods().map(([, reason]) => reason)).toEqual(
        expect.arrayContaining(['Pulled', 'Created', 'Started', 'Killing']),
      );
    });
  });

  describe('a static pod', () => {
    it('has a mirror pod, which is created again after its deletion', async () => {
      await boot();
      node.write('web.yaml', {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'web' },
        spec: {
          terminationGracePeriodSeconds: 1,
          containers: [{ name: 'app', image: runtime.image, command: ['sh', '-c', WAIT] }],
        },
      });
      await eventually('a running mirror', isRunning(`web-${NODE}`));
      const { uid } = pod(`web-${NODE}`).metadata;
      server.delete('v1', 'pods', `web-${NODE}`, 'default', 0);
      await eventually('another one', () => isRunning(`web-${NODE}`)() && pod(`web-${NODE}`).metadata.uid !== uid);
      node.remove('web.yaml');
      await eventually('no mirror', () => pod(`web-${NODE}`) === undefined);
      await node.stop();
      replays();
    });
  });

  describe('an API server that is away', () => {
    it('finds its pods as they are when it is back', async () => {
      await boot();
      createPod('web', { automountServiceAccountToken: false });
      await eventually('Running', isRunning('web'));
      const { containerID } = pod('web').status.containerStatuses[0];
      await server.stop();
      await new Promise((done) => setTimeout(done, 2_000));
      await server.start();
      createPod('later', { automountServiceAccountToken: false });
      await eventually('Running', isRunning('later'), 60_000);
      expect(pod('web').status.containerStatuses[0].containerID).toBe(containerID);
    });
  });
}
