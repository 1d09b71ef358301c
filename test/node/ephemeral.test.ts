/** A container that is added to a running pod, as by `kubectl debug`, through an API server. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ContainerStatus, PodStatus } from '../../src/machines/model/api/pod.ts';
import { type ApiServer, startApiServer } from '../fakes/api-server/index.ts';
import { eventually, readText, SLEEP } from '../support/daemon.ts';
import { ObservedNode, type RuntimeInUse, runtimes } from '../support/observed-node.ts';
import { requirement } from '../support/require.ts';

const EXIT_CODE = 7;

describe.each(runtimes)('ephemeral containers on $name', (choice) => {
  describe.skipIf(choice.name === 'containerd' && requirement('containerd', choice.unavailable).skip)(
    'of a pod',
    () => {
      let runtime: RuntimeInUse;
      let server: ApiServer;
      let node: ObservedNode;

      beforeAll(async () => {
        [runtime, server] = await Promise.all([choice.start(), startApiServer()]);
        const kubeconfig = await server.kubeconfig('system:node:node1');
        node = new ObservedNode(runtime, { flags: [`--kubeconfig=${kubeconfig}`] });
        await node.start();
        const container = { name: 'app', image: node.image, imagePullPolicy: 'IfNotPresent' };
        server.create({
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { name: 'web' },
          spec: {
            nodeName: 'node1',
            automountServiceAccountToken: false,
            terminationGracePeriodSeconds: 1,
            containers: [{ ...container, command: ['sh', '-c', `: the-target; ${SLEEP}`] }],
          },
        });
        await eventually('the pod runs', () => status().phase === 'Running');
      });
      afterAll(async () => {
        server.delete('v1', 'pods', 'web', 'default', 1);
        await eventually('the pod is gone', () => server.store.get('v1', 'pods', 'web', 'default') === undefined);
        await node.close();
        await server.close();
        await runtime.close();
      });

      const web = () => server.store.get('v1', 'pods', 'web', 'default')!;
      const status = () => (web()['status'] ?? {}) as PodStatus;
      const ephemeral = (name: string) => status().ephemeralContainerStatuses?.find((each) => each.name === name);
      const log = (name: string) => {
        const folder = join(node.logs, `default_web_${web().metadata.uid}`, name);
        return readdirSync(folder).map((file) => readText(join(folder, file)));
      };

      function add(name: string, script: string, more = {}): void {
        const spec = web()['spec'] as { ephemeralContainers?: object[] };
        const container = {
          name,
          image: node.image,
          imagePullPolicy: 'IfNotPresent',
          command: ['sh', '-c', script],
          terminationMessagePath: '/dev/termination-log',
          terminationMessagePolicy: 'File',
          ...more,
        };
        server.patch(
          { apiVersion: 'v1', resource: 'pods', name: 'web', subresource: 'ephemeralcontainers' },
          { spec: { ephemeralContainers: [...(spec.ephemeralContainers ?? []), container] } },
        );
      }
      const ended = (name: string) =>
        eventually(`${name} has ended`, (): ContainerStatus | undefined =>
          ephemeral(name)?.state?.terminated ? ephemeral(name) : undefined,
        );

      it('run beside the others, are not started again, and leave the pod ready', async () => {
        const { containerStatuses } = status();
        add('debug', `echo here; exit ${EXIT_CODE}`);
        expect(await ended('debug')).toMatchObject({ restartCount: 0, state: { terminated: { exitCode: EXIT_CODE } } });
        expect(log('debug')).toEqual([expect.stringContaining('stdout F here')]);
        await new Promise((resolve) => setTimeout(resolve, 2_000));
        expect(status().containerStatuses).toEqual(containerStatuses);
        expect(status().conditions?.find(({ type }) => type === 'Ready')?.status).toBe('True');
        expect(log('debug')).toHaveLength(1);
      });

      it.skipIf(choice.name !== 'containerd')('see the processes of their target', async () => {
        add('alone', 'tr "\\0" " " < /proc/1/cmdline');
        add('within', 'tr "\\0" " " < /proc/1/cmdline', { targetContainerName: 'app' });
        await Promise.all(['alone', 'within'].map(ended));
        expect(log('alone').join('')).not.toContain('the-target');
        expect(log('within').join('')).toContain('the-target');
      });

      it('wait for a target that there is not', async () => {
        add('lost', 'true', { targetContainerName: 'nosuch' });
        const waiting = await eventually('it waits', () => ephemeral('lost')?.state?.waiting);
        await eventually('why', () => ephemeral('lost')?.state?.waiting?.reason === 'CreateContainerConfigError');
        expect(waiting).toBeDefined();
        expect(ephemeral('lost')?.state?.waiting?.message).toBe('unable to find target container nosuch');
      });

      it('are as they were when the agent comes back', async () => {
        const before = status().ephemeralContainerStatuses;
        await node.stop('SIGKILL');
        await node.start();
        await new Promise((resolve) => setTimeout(resolve, 3_000));
        const isEmbedded = choice.name !== 'containerd';
        const ids = (list: readonly ContainerStatus[] | undefined) =>
          list?.map(({ name, containerID, restartCount }) => [name, containerID, restartCount]);
        expect(ids(isEmbedded ? before : status().ephemeralContainerStatuses)).toEqual(ids(before));
        expect(status().phase).toBe('Running');
      });
    },
  );
});
