/**
 * What lies in the runtime and no manifest names (bad input 36): what another wrote is left alone, what an agent left
 * behind ends, and no label leads to a path.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { requirement } from '../support/require.ts';

const CALL = { timeoutMs: 20_000 };
const TIMEOUT_MS = 120_000;
/** Two rounds of housekeeping, in which nothing may happen to what is of others. */
const WHILE_MS = 5_000;

const kubernetes = (uid: string, name: string) => ({
  'io.kubernetes.pod.uid': uid,
  'io.kubernetes.pod.name': name,
  'io.kubernetes.pod.namespace': 'default',
});

describe.each(runtimes)('sandboxes of nobody, on $name', (choice) => {
  const { skip } = requirement('containerd', choice.name === 'containerd' ? choice.unavailable : null);
  let runtime: RuntimeInUse;
  let node: ObservedNode;
  beforeAll(async () => {
    if (skip) return;
    runtime = await choice.start();
    node = new ObservedNode(runtime);
    await node.start();
    node.write('neighbour.json', shellPod('neighbour', node.image, SLEEP));
    await node.running('neighbour');
  });
  afterAll(async () => {
    if (skip) return;
    node.remove('neighbour.json');
    await node.gone('neighbour');
    await node.close();
    await runtime.close();
  });

  const make = async (name: string, labels: Readonly<Record<string, string>>): Promise<string> => {
    const metadata = { name, uid: labels['io.kubernetes.pod.uid'] ?? name, namespace: 'default', attempt: 0 };
    const options = { network: 'NODE', pid: 'CONTAINER', ipc: 'NODE' } as const;
    const linux = { cgroup_parent: node.cgroupRoot, security_context: { namespace_options: options } };
    const config = { metadata, labels, annotations: {}, log_directory: node.file('foreign'), linux };
    const { pod_sandbox_id: id } = await node.client.call('RunPodSandbox', { config }, CALL);
    return id;
  };
  const present = async () => {
    const { items } = await node.client.call('ListPodSandbox', {}, CALL);
    return new Map(items.map(({ id, state }) => [id, state]));
  };

  test.skipIf(skip)(
    '36 what another wrote into the runtime stays, what an agent left ends, and a uid is no path',
    async () => {
      const kept = join(node.directory, 'etc/kept');
      mkdirSync(join(node.directory, 'etc'));
      writeFileSync(kept, 'of somebody else');
      const foreign = [await make('bare', {}), await make('labelled', { app: 'somebody-else' })];
      const left = await make('left', kubernetes('0f1e2d3c-0000-4000-8000-000000000001', 'left'));
      const evil = await make('evil', kubernetes('../../etc', 'evil'));
      await eventually('what was left has ended', async () => !(await present()).has(left), TIMEOUT_MS);
      await new Promise((resolve) => setTimeout(resolve, WHILE_MS));
      const states = await present();
      expect(foreign.map((id) => states.get(id))).toEqual(['SANDBOX_READY', 'SANDBOX_READY']);
      expect(existsSync(kept), 'a file that a uid leads to').toBe(true);
      expect(await node.healthz()).toBe(true);
      expect(await node.instances('neighbour')).toMatchObject([{ state: 'CONTAINER_RUNNING', attempt: 0 }]);
      for (const id of [...foreign, evil]) {
        await node.client.call('StopPodSandbox', { pod_sandbox_id: id }, CALL);
        await node.client.call('RemovePodSandbox', { pod_sandbox_id: id }, CALL);
      }
    },
    TIMEOUT_MS,
  );

  test.skipIf(skip)('36 nothing of it crashed, and the journal verifies and replays', async () => {
    expect(node.log).not.toMatch(/crashed/i);
    await node.stop();
    expect(node.journalFaults()).toEqual([]);
    await node.start();
  });
});
