/**
 * Fault 15: the machine of a cluster's node shuts down. Pods end first, in order, including those that ignore the
 * signal, and the machine waits for them. For a loss of power see `faults-of-power.test.ts`.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { startApiServer } from '../fakes/api-server/index.ts';
import { eventually, TestNode } from '../support/daemon.ts';
import { temporaryFolder } from '../support/host-ports.ts';
import { FakeLogind } from '../support/logind.ts';
import { requirement } from '../support/require.ts';
import { startBus } from '../support/systemd.ts';

const NODE = 'node1';
const PERIOD_MS = 20_000;
const FIRST_GROUP_MS = 10_000;
/** For a busy machine; waiting for the grace period of a pod would take ten minutes. */
const LONG_MS = 6 * PERIOD_MS;
const missing = ['/usr/bin/systemd-inhibit', '/usr/bin/dbus-daemon'].find((path) => !existsSync(path));
const { skip } = requirement('logind', missing === undefined ? null : `there is no ${missing}`);

async function boot() {
  const folder = await temporaryFolder();
  const address = await startBus('dbus-daemon', folder);
  const logind = new FakeLogind(folder);
  logind.delayUs = 60_000_000n;
  await logind.serve(address);
  const server = await startApiServer();
  onTestFinished(() => server.close());
  const kubeconfig = await server.kubeconfig(`system:node:${NODE}`);
  const configuration = `shutdownGracePeriod: ${PERIOD_MS / 1_000}s\nshutdownGracePeriodCriticalPods: 10s\n`;
  const node = new TestNode({ flags: [`--kubeconfig=${kubeconfig}`], configuration });
  onTestFinished(() => node.close());
  await node.start([], { DBUS_SYSTEM_BUS_ADDRESS: address });
  return { logind, server, node };
}

it.skipIf(skip)('pods end by priority, the node says why it is not ready, and then the machine may go', async () => {
  const { logind, server, node } = await boot();
  // oxlint-disable-next-line typescript/no-explicit-any -- objects of any kind
  const get = (kind: string, name: string, namespace?: string): any => server.store.get('v1', kind, name, namespace);
  const status = (name: string) => get('pods', name, 'default')?.status;
  const create = (name: string, priority: number, graceSeconds = 2, command = ['sleep', '3600']) =>
    server.create({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name },
      spec: {
        nodeName: NODE,
        priority,
        terminationGracePeriodSeconds: graceSeconds,
        automountServiceAccountToken: false,
        containers: [{ name: 'app', image: 'busybox', command }],
      },
    });
  create('app', 0);
  create('system', 2_000_000_000);
  create('deaf', 0, 600, ['sh', '-c', "trap '' TERM; while :; do sleep 1; done"]);
  const all = ['app', 'system', 'deaf'];
  await eventually('Running', () => all.every((name) => status(name)?.phase === 'Running'));
  await eventually('the lock', () => logind.locks[0]?.isHeld() === true);
  logind.prepareForShutdown(true);
  const began = Date.now();
  await eventually('all ended', () => all.every((name) => status(name)?.phase === 'Failed'), LONG_MS);
  expect(status('app')).toMatchObject({
    reason: 'Terminated',
    message: 'Pod was terminated in response to imminent node shutdown.',
  });
  expect(status('app').conditions).toContainEqual(
    expect.objectContaining({ type: 'DisruptionTarget', status: 'True' }),
  );
  const ended = (name: string) => Date.parse(status(name).containerStatuses[0].state.terminated.finishedAt);
  expect(ended('app')).toBeLessThanOrEqual(ended('system'));
  // Its own grace period is longer than the machine waits.
  expect(status('deaf').containerStatuses[0].state.terminated.exitCode).toBe(137);
  // Its time ends together with that of its group, for which the next group waits. Times are whole seconds.
  for (const name of ['deaf', 'system']) expect(ended(name), name).toBeGreaterThan(began + FIRST_GROUP_MS - 1_000);
  await eventually('the machine may go', () => logind.locks[0]?.isHeld() === false);
  expect(Date.now() - began, 'what the machine waits for').toBeLessThan(LONG_MS);
  type Condition = { type: string; status: string; message: string };
  const ready = (): Condition | undefined =>
    get('nodes', NODE)?.status?.conditions?.find(({ type }: Condition) => type === 'Ready');
  await eventually('not ready', () => ready()?.status === 'False');
  expect(ready()?.message).toContain('node is shutting down');
  const kept = JSON.parse(readFileSync(join(node.rootDir, 'graceful_node_shutdown_state'), 'utf8'));
  expect(Date.parse(kept.endTime)).toBeGreaterThanOrEqual(Date.parse(kept.startTime));
  create('late', 0);
  await eventually('refused', () => status('late')?.phase === 'Failed');
  expect(status('late')).toMatchObject({
    reason: 'NodeShutdown',
    message: 'Pod was rejected: Pod was rejected as the node is shutting down.',
  });
  await node.stop();
  expect(node.statelet('replay', node.journal)).toMatchObject({ code: 0, stderr: '' });
});
