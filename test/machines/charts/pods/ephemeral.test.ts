/** Ephemeral containers: they are added to a running pod, see the processes of another container, and never restart. */
import { afterEach, describe, expect, it } from 'vitest';
import type { ContainerConfig } from '../../../../src/machines/model/api/cri.ts';
import { staticPod } from '../../../../src/machines/model/pods/static-pod.ts';
import { image, manifest, type PodOptions, PodsNode } from '../../../support/pods-node.ts';

let node: PodsNode;
afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

const OPTIONS: PodOptions = { uid: 'u1' };

function running(options = OPTIONS): PodsNode {
  node = new PodsNode();
  for (const name of ['app:1', 'debug:1']) node.world.runtime.images.set(name, image(name));
  node.world.setManifests([manifest(options)]);
  return node.boot().until('it runs', () => node.phase('u1') === 'Running');
}

/** As the API server reports a pod with new ephemeral containers. */
function addEphemeral(...containers: readonly Record<string, unknown>[]): void {
  const built = staticPod(manifest(OPTIONS), 'node');
  if (!('pod' in built)) throw new Error('the pod of this test is not valid');
  const spec = {
    ...built.pod.spec,
    ephemeralContainers: containers.map((each) => ({ image: 'debug:1', imagePullPolicy: 'IfNotPresent', ...each })),
  };
  const pods = [{ ...built.pod, spec }];
  node.kernel.dispatch('kubelet/pods', { type: 'config.pods', op: 'UPDATE', source: 'file', pods }, 'test');
}

const configs = (name: string): ContainerConfig[] =>
  node.sink.records.flatMap((record) => {
    const { config } = ((record.k === 'effect' && record.input) || {}) as { config?: ContainerConfig };
    return record.k === 'effect' && record.name === 'cri.createContainer' && config?.metadata?.name === name
      ? [config]
      : [];
  });
const statusOf = (name: string) => node.status('u1')?.ephemeralContainerStatuses?.find((each) => each.name === name);

describe('an ephemeral container', () => {
  it('starts in the sandbox of its pod, and touches nothing there', () => {
    running();
    const before = [...node.world.runtime.containers.keys()];
    addEphemeral({ name: 'debug' });
    node.until('it runs', () => statusOf('debug')?.state?.running !== undefined);
    expect([...node.world.runtime.containers.keys()].slice(0, 1)).toEqual(before);
    expect(node.world.callsOf('cri.runPodSandbox')).toHaveLength(1);
    expect(statusOf('debug')).toMatchObject({ name: 'debug', ready: false, restartCount: 0, image: 'debug:1' });
    expect(statusOf('debug')).not.toHaveProperty('started');
    expect(configs('debug')[0]?.linux?.security_context?.namespace_options?.pid).toBe('CONTAINER');
    expect(node.status('u1')?.conditions?.find(({ type }) => type === 'Ready')?.status).toBe('True');
  });

  it('sees the processes of its target', () => {
    running();
    const [target] = [...node.world.runtime.containers.keys()];
    addEphemeral({ name: 'debug', targetContainerName: 'app' });
    node.until('it runs', () => statusOf('debug')?.state?.running !== undefined);
    expect(configs('debug')[0]?.linux?.security_context?.namespace_options).toMatchObject({
      pid: 'TARGET',
      target_id: target,
    });
  });

  it('waits for a target that there is not, and says so', () => {
    running();
    addEphemeral({ name: 'debug', targetContainerName: 'nosuch' });
    node.until('it waits', () => statusOf('debug')?.state?.waiting?.reason === 'CreateContainerConfigError');
    expect(statusOf('debug')?.state?.waiting?.message).toBe('unable to find target container nosuch');
    expect(node.events()).toContain('Failed: Error: unable to find target container nosuch');
    expect(node.phase('u1')).toBe('Running');
  });

  it('is not started again when it has ended, nor when its sandbox is recreated', () => {
    running().world.runtime.programs.set('debug', [{ runsMs: 1_000, exitCode: 3 }]);
    addEphemeral({ name: 'debug' });
    node.until('it has ended', () => statusOf('debug')?.state?.terminated?.exitCode === 3).run(30_000);
    expect(configs('debug')).toHaveLength(1);
    const [sandbox] = [...node.world.runtime.sandboxes.keys()];
    node.world.runtime.stopSandbox(sandbox!);
    node.until('another sandbox', () => node.world.callsOf('cri.runPodSandbox').length === 2);
    node.until('it runs again', () => node.phase('u1') === 'Running' && configs('app').length === 2).run(30_000);
    expect(configs('debug')).toHaveLength(1);
    expect(node.phase('u1')).toBe('Running');
  });

  it('that runs while its sandbox dies is not started again', () => {
    running();
    addEphemeral({ name: 'debug' });
    node.until('it runs', () => statusOf('debug')?.state?.running !== undefined);
    node.world.runtime.stopSandbox([...node.world.runtime.sandboxes.keys()][0]!);
    node.until('app runs again', () => configs('app').length === 2).run(30_000);
    expect(configs('debug')).toHaveLength(1);
  });

  it('starts while the init containers still run', () => {
    const spec = { initContainers: [{ name: 'init', image: 'app:1' }] };
    node = new PodsNode();
    for (const name of ['app:1', 'debug:1']) node.world.runtime.images.set(name, image(name));
    node.world.runtime.programs.set('init', [{ runsMs: 60_000, exitCode: 0 }]);
    node.world.setManifests([manifest({ ...OPTIONS, spec })]);
    node.boot().until('init runs', () => configs('init').length === 1);
    addEphemeral({ name: 'debug' });
    node.until('it runs', () => statusOf('debug')?.state?.running !== undefined, 20_000);
  });

  it('does not keep its pod from ending, and ends with it', () => {
    running({ ...OPTIONS, spec: { restartPolicy: 'Never', terminationGracePeriodSeconds: 1 } });
    addEphemeral({ name: 'debug' });
    node.until('it runs', () => statusOf('debug')?.state?.running !== undefined);
    node.world.setManifests([]);
    node.until('it is gone', () => node.podState('u1') === undefined);
    expect(node.world.runtime.containers.size).toBe(0);
  });
});
