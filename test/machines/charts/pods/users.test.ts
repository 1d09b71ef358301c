/** Pods with user namespaces, and recursively read-only mounts: only if the runtime supports them. */
import { afterEach, describe, expect, it } from 'vitest';
import type { ContainerConfig, PodSandboxConfig } from '../../../../src/machines/model/api/cri.ts';
import { image, manifest, PodsNode } from '../../../support/pods-node.ts';

const ABLE = { runtimeHandlers: { '': { userNamespaces: true, recursiveReadOnlyMounts: true } } };
const MAPPING = [{ host_id: 131_072, container_id: 0, length: 65_536 }];

let node: PodsNode;
afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

function boot(settings: object, spec: Record<string, unknown>, container: Record<string, unknown> = {}): PodsNode {
  node = new PodsNode({ settings });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.setManifests([manifest({ uid: 'u1', spec, containers: [{ name: 'app', image: 'app:1', ...container }] })]);
  return node.boot();
}
const inputs = (name: string) =>
  node.sink.records.flatMap((record) => (record.k === 'effect' && record.name === name ? [record.input as Asked] : []));
interface Asked {
  readonly config: PodSandboxConfig;
  readonly sandboxConfig: PodSandboxConfig;
}
const runs = () => node.phase('u1') === 'Running';
const sandboxUsers = (config: PodSandboxConfig) => config.linux?.security_context?.namespace_options?.userns_options;
const containerOf = (): ContainerConfig => inputs('cri.createContainer')[0]!.config;

describe('users of its own', () => {
  it('are those that no other pod has, for the sandbox and all containers', () => {
    boot(ABLE, { hostUsers: false }).until('it runs', runs);
    expect(inputs('users.map')).toEqual([{ root: '/var/lib/kubelet', uid: 'u1', idsPerPod: 65_536, maxPods: 110 }]);
    const users = { mode: 'POD', uids: MAPPING, gids: MAPPING };
    expect(sandboxUsers(inputs('cri.runPodSandbox')[0]!.config)).toEqual(users);
    expect(containerOf().linux?.security_context?.namespace_options?.userns_options).toEqual(users);
    expect(sandboxUsers(inputs('cri.createContainer')[0]!.sandboxConfig)).toEqual(users);
  });

  it('are asked for again after a restart of the agent, before anything is made', () => {
    boot(ABLE, { hostUsers: false }).until('it runs', runs);
    for (const container of node.world.runtime.containers.values()) node.world.runtime.exit(container, 1);
    node = new PodsNode({ world: node.world, settings: ABLE }).boot();
    node.until('another instance', () => inputs('cri.createContainer').length === 1);
    expect(containerOf().linux?.security_context?.namespace_options?.userns_options).toMatchObject({ uids: MAPPING });
  });

  it('that cannot be had are said, and tried again', () => {
    node = boot(ABLE, { hostUsers: false });
    node.world.fault = (name) => (name === 'users.map' ? { error: 'no empty slot', code: 'X' } : undefined);
    node.run(3_000);
    expect(node.events()).toContain('FailedCreatePodSandBox: Failed to create pod sandbox: no empty slot');
    node.world.fault = () => undefined;
    node.until('it runs', runs);
  });

  it('are free again when the pod has ended, and before it is deleted', () => {
    boot(ABLE, { hostUsers: false, restartPolicy: 'Never' }).until('it runs', runs);
    for (const container of node.world.runtime.containers.values()) node.world.runtime.exit(container, 0);
    node.until('it has ended', () => node.phase('u1') === 'Succeeded');
    node.run(3_000);
    const removed = node.sink.records.flatMap((record) =>
      record.k === 'effect' && record.name === 'host.removePod' ? [record.input] : [],
    );
    expect(removed).toEqual([{ root: '/var/lib/kubelet', paths: ['/var/lib/kubelet/pods/u1/userns'] }]);
  });

  it('are the node’s where the pod does not ask', () => {
    boot(ABLE, {}).until('it runs', runs);
    expect(inputs('users.map')).toEqual([]);
    expect(sandboxUsers(inputs('cri.runPodSandbox')[0]!.config)).toEqual({ mode: 'NODE' });
  });
});

describe('recursively read-only mounts', () => {
  const volumes = [{ name: 'v', emptyDir: {} }];
  const mounted = (recursiveReadOnly: string) => ({
    volumeMounts: [{ name: 'v', mountPath: '/v', readOnly: true, recursiveReadOnly }],
  });
  const status = () => node.status('u1')?.containerStatuses?.[0];

  it.each([
    ['Enabled', ABLE, true, 'Enabled'],
    ['IfPossible', ABLE, true, 'Enabled'],
    ['IfPossible', {}, undefined, 'Disabled'],
    ['Disabled', ABLE, undefined, 'Disabled'],
  ])('%s with %j', (wanted, settings, recursive, shown) => {
    boot(settings, { volumes }, mounted(wanted)).until('it runs', runs);
    expect(containerOf().mounts?.find(({ container_path }) => container_path === '/v')?.recursive_read_only).toBe(
      recursive,
    );
    expect(status()?.volumeMounts?.[0]).toMatchObject({ readOnly: true, recursiveReadOnly: shown });
  });

  it('are refused where the runtime cannot make them and the pod insists', () => {
    boot({}, { volumes }, mounted('Enabled'));
    node.until('it waits', () => status()?.state?.waiting?.reason === 'CreateContainerConfigError');
    expect(status()?.state?.waiting?.message).toBe(
      'failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but it is not supported by the runtime',
    );
  });
});
