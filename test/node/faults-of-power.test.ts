/**
 * Fault 15, by a loss of power: the machine goes down and comes back while the API server is unreachable. Every process
 * and the content of memory are gone; files are unchanged.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiServer, startApiServer } from '../fakes/api-server/index.ts';
import { containerdAvailable } from '../support/containerd.ts';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { FaultyNode } from '../support/faulty-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

const NODE = 'node1';
/** It takes some seconds; a busy machine may need many times that. */
const TIMEOUT_MS = patient(480_000);
const BOOTS = ['4b1f3d5e-0001-4000-8000-000000000000', '4b1f3d5e-0002-4000-8000-000000000000'] as const;

const { skip } = requirement('containerd', containerdAvailable());

describe.skipIf(skip)('a machine that loses power while the API server is away', () => {
  const folder = mkdtempSync(join(tmpdir(), 'statelet-power-'));
  const bootId = join(folder, 'boot_id');
  let server: ApiServer;
  let node: FaultyNode;
  beforeAll(async () => {
    server = await startApiServer();
    const kubeconfig = await server.kubeconfig(`system:node:${NODE}`);
    writeFileSync(bootId, `${BOOTS[0]}\n`);
    const shown = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"';
    node = await FaultyNode.create({
      flags: [`--kubeconfig=${kubeconfig}`],
      within: ['unshare', '--mount', 'sh', '-c', shown, bootId],
    });
    node.write('static.json', shellPod('static', node.image, SLEEP));
    create('bound', SLEEP, 'Always');
    create('done', 'exit 0', 'Never');
    create('once', SLEEP, 'Never');
    await eventually('all are there', () => phases() === 'bound Running, done Succeeded, once Running', TIMEOUT_MS);
    await node.untilReady('static');
  }, TIMEOUT_MS);
  afterAll(async () => {
    await node.close();
    await server.close();
    rmSync(folder, { recursive: true });
  });

  // oxlint-disable-next-line typescript/no-explicit-any -- objects of any kind
  const get = (kind: string, name: string, namespace?: string): any => server.store.get('v1', kind, name, namespace);
  /** The names of static pods on the node. */
  const named = (name: string) => `${name}-${NODE}`;
  const status = (name: string) => get('pods', named(name), 'default')?.status;
  const create = (name: string, script: string, restartPolicy: string) => {
    const { spec, ...pod } = shellPod(named(name), node.image, script, { restartPolicy });
    server.create({ ...pod, spec: { ...spec, nodeName: NODE, automountServiceAccountToken: false } });
  };
  const phases = () => ['bound', 'done', 'once'].map((name) => `${name} ${status(name)?.phase}`).join(', ');
  const attempts = async (pod: string) => (await node.instances(pod)).map(({ state, attempt }) => [state, attempt]);

  it(
    'starts the pods that it may start without the API server, once',
    async () => {
      await server.stop();
      await node.stop('SIGKILL');
      await node.containerd.reset();
      writeFileSync(bootId, `${BOOTS[1]}\n`);
      await node.start();
      await node.untilReady('static');
      await eventually('what is remembered runs', async () =>
        (await attempts('bound')).some(([state, attempt]) => state === 'CONTAINER_RUNNING' && attempt === 1),
      );
      expect((await attempts('static')).filter(([state]) => state === 'CONTAINER_RUNNING')).toHaveLength(1);
      for (const pod of ['done', 'once']) {
        expect(
          (await attempts(pod)).filter(([state]) => state === 'CONTAINER_RUNNING'),
          pod,
        ).toEqual([]);
      }
    },
    TIMEOUT_MS,
  );

  it(
    'reports the actual state when the API server is back, including the reboot of the machine',
    async () => {
      await server.start();
      const truth = 'bound Running, done Succeeded, once Failed';
      await eventually('the truth', () => phases() === truth, TIMEOUT_MS);
      await eventually('its second run', () => status('bound').containerStatuses[0].restartCount === 1, TIMEOUT_MS);
      expect(status('bound').containerStatuses).toMatchObject([
        { ready: true, restartCount: 1, lastState: { terminated: { exitCode: 255 } } },
      ]);
      const events = () => server.store.list('v1', 'events', 'default');
      const rebooted = `Node ${NODE} has been rebooted, boot id: ${BOOTS[1]}`;
      await eventually('the event', () => events().some((event) => event['message'] === rebooted), TIMEOUT_MS);
      await eventually('its Node says so', () => get('nodes', NODE).status.nodeInfo.bootID === BOOTS[1], TIMEOUT_MS);
    },
    TIMEOUT_MS,
  );

  it('every journal verifies and replays', () => node.keepsItsWord().then(() => node.start()), TIMEOUT_MS);
});
