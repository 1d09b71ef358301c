/** Devices of a plugin on a standalone node: registered, given to static pods, and kept across a restart. */
import { readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DevicePluginBehaviour, FakeDevicePlugin } from '../fakes/device-plugin.ts';
import { removeCgroupRoot } from '../support/cgroups.ts';
import { eventually, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { askPodResources } from '../support/pod-resources.ts';
import { requirement } from '../support/require.ts';

const GPU = 'example.com/gpu';
const BEHAVIOUR: DevicePluginBehaviour = {
  devices: [{ ID: 'gpu-a' }, { ID: 'gpu-b' }, { ID: 'gpu-c', health: 'Unhealthy' }],
  options: { pre_start_required: true, get_preferred_allocation_available: true },
  prefer: (available, size) => available.toReversed().slice(0, size),
  allocate: (ids) => ({
    envs: { GPUS: ids.join() },
    mounts: [{ container_path: '/gpu-driver', host_path: '/etc', read_only: true }],
    devices: [{ container_path: '/dev/gpu0', host_path: '/dev/null', permissions: 'rw' }],
  }),
};

const isListening = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = createConnection(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });

describe.each(runtimes)('on $name', (choice) => {
  const { skip } = requirement('containerd', choice.unavailable);
  const isEmbedded = choice.name !== 'containerd';

  describe.skipIf(skip)('a node', () => {
    let runtime: RuntimeInUse;
    let node: ObservedNode;
    let plugin: FakeDevicePlugin;

    beforeAll(async () => {
      runtime = await choice.start();
      node = new ObservedNode(runtime);
      await node.start();
    });
    afterAll(async () => {
      plugin?.close();
      await node.close();
      await runtime.close();
      if (!isEmbedded) removeCgroupRoot(node.cgroupRoot);
    });

    const inFolder = (name: string) => join(node.rootDir, 'device-plugins', name);
    const checkpoint = () => JSON.parse(readFileSync(inFolder('kubelet_internal_checkpoint'), 'utf8')).Data;

    async function connect(name: string): Promise<void> {
      // The socket of a killed node still exists, and the next node empties the folder before it listens.
      await eventually('somebody takes registrations', () => isListening(inFolder('kubelet.sock')));
      plugin = await FakeDevicePlugin.start(inFolder(name), BEHAVIOUR);
      await eventually('the plugin is registered', async () => {
        await plugin.register(inFolder('kubelet.sock'), GPU);
        return true;
      });
      await eventually('its devices are known', () => checkpoint().RegisteredDevices[GPU]?.length === 2);
    }

    /** A pod that runs only if its devices are those in the plugin's response. */
    function write(name: string, count: number, gpus: string): void {
      const places = isEmbedded ? 'true' : '[ -c /dev/gpu0 ] && [ -e /gpu-driver/passwd ]';
      const script = `[ "$GPUS" = ${gpus} ] && ${places} || exit 9; trap 'exit 0' TERM; sleep 3600 & wait`;
      const { spec, ...pod } = shellPod(name, node.image, script);
      const resources = { limits: { [GPU]: String(count) } };
      node.write(`${name}.json`, {
        ...pod,
        spec: { ...spec, containers: spec.containers.map((each) => ({ ...each, resources })) },
      });
    }

    it('gives a static pod the device that its plugin prefers', async () => {
      await connect('gpu.sock');
      write('one', 1, 'gpu-b');
      await node.untilPhase('one', 'Running');
      expect(plugin.asked).toEqual(['GetPreferredAllocation gpu-a,gpu-b', 'Allocate gpu-b', 'PreStartContainer gpu-b']);
      const entries = await eventually('the entry', () => checkpoint().PodDeviceEntries ?? undefined);
      expect(entries).toMatchObject([{ ContainerName: 'c', ResourceName: GPU, DeviceIDs: { '-1': ['gpu-b'] } }]);
    });

    it('refuses a pod for which too few are left', async () => {
      write('more', 2, 'gpu-a');
      expect(await node.untilPhase('more', 'Failed')).toMatchObject({
        reason: 'UnexpectedAdmissionError',
        message:
          'Pod was rejected: Allocate failed due to requested number of devices unavailable for example.com/gpu. ' +
          'Requested: 2, Available: 1, which is unexpected',
      });
    });

    it('tells agents who has what', async () => {
      expect(await askPodResources(node.podResources, 'List')).toMatchObject({
        podResources: [{ name: 'one-node1', containers: [{ devices: [{ resourceName: GPU, deviceIds: ['gpu-b'] }] }] }],
      });
      expect(await askPodResources(node.podResources, 'GetAllocatableResources')).toMatchObject({
        devices: ['gpu-a', 'gpu-b'].map((id) => ({ resourceName: GPU, deviceIds: [id] })),
      });
    });

    it('leaves the pod what it has over a restart, and takes the plugin back', async () => {
      const before = await node.running('one');
      await node.stop('SIGKILL');
      plugin.close();
      await node.start();
      expect(await node.running('one')).toEqual(before);
      await connect('gpu-again.sock');
      write('two', 1, 'gpu-a');
      await node.untilPhase('two', 'Running');
      expect(plugin.asked).toEqual(['GetPreferredAllocation gpu-a', 'Allocate gpu-a', 'PreStartContainer gpu-a']);
      await eventually('both entries', () => checkpoint().PodDeviceEntries?.length === 2);
    });

    it('says in the status of a pod how its devices are', async () => {
      const health = async () => {
        const [container] = (await node.status('one'))?.containerStatuses ?? [];
        return container?.allocatedResourcesStatus?.[0]?.resources?.[0]?.health;
      };
      expect(await health()).toBe('Healthy');
      plugin.send([{ ID: 'gpu-a' }, { ID: 'gpu-b', health: 'Unhealthy' }]);
      await eventually('it is told', async () => (await health()) === 'Unhealthy');
      plugin.send([{ ID: 'gpu-a' }, { ID: 'gpu-b' }]);
      await eventually('it is told', async () => (await health()) === 'Healthy');
    });

    it('gives a device again when its pod has ended, and its journal replays', async () => {
      node.remove('one.json');
      await node.gone('one');
      write('three', 1, 'gpu-b');
      await node.untilPhase('three', 'Running');
      await node.stop();
      for (const incarnation of node.incarnations()) {
        const { code, stderr } = node.statelet('replay', node.journal, `--incarnation=${incarnation}`);
        expect({ code, stderr }).toMatchObject({ code: 0 });
      }
    });
  });
});
