/** Logs of containers in the charts of pods: which actor keeps which log, and the consequences of a rotation. */
import { afterEach, describe, expect, it } from 'vitest';
import { containerLogMachine } from '../../../../../src/machines/charts/pods/container/container-log.ts';
import { image, manifest, PodsNode } from '../../../../support/pods-node.ts';

const containerLogs = { maxBytes: 100, maxFiles: 3, periodMs: 10_000, workers: 1 };

let node: PodsNode;
afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

const effects = (name: string) =>
  node.sink.records.flatMap((record) =>
    record.k === 'effect' && record.name === name
      ? [{ at: record.at, input: record.input as Record<string, unknown> }]
      : [],
  );

function running(): PodsNode {
  node = new PodsNode({ settings: { containerLogs } });
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.setManifests([manifest({ uid: 'u1' })]);
  return node.boot().until('the log is kept', () => node.world.openLogs().length === 1);
}

function crash({ world: { runtime } }: PodsNode): void {
  for (const container of runtime.containers.values()) runtime.exit(container, 1);
}

describe('the log of a container that runs', () => {
  it('has a machine of its own', () => {
    expect(containerLogMachine.id).toBe('containerLog');
    running();
  });

  it('is kept under its path and its link', () => {
    running();
    const [container] = [...node.world.runtime.containers.values()];
    expect(effects('logs.keep')).toEqual([
      {
        at: expect.stringContaining('kubelet/pods/pod-u1/log-app'),
        input: {
          ...containerLogs,
          root: '/var/log/pods',
          path: '/var/log/pods/default_web-node_u1/app/0.log',
          link: `/var/log/containers/web-node_default_app-${container!.id}.log`,
        },
      },
    ]);
  });

  it('is kept for each instance anew, and for none when nothing runs', () => {
    crash(running());
    node.until('the next instance', () => effects('logs.keep').length === 2);
    expect(effects('logs.keep')[1]?.input['path']).toBe('/var/log/pods/default_web-node_u1/app/1.log');
    node.world.setManifests([]);
    node.until('it is gone', () => node.podState('u1') === undefined);
    expect(node.world.openLogs()).toEqual([]);
    expect(effects('logs.unlink').at(-1)?.input).toEqual({
      links: '/var/log/containers',
      folder: '/var/log/pods/default_web-node_u1',
      dangling: false,
    });
  });

  it('is opened anew by the runtime when it was moved aside, or is missing', () => {
    running().world.sendLogEvent({ type: 'log.rotated', aside: '0.log.1' });
    node.run(100).world.sendLogEvent({ type: 'log.missing' });
    node.run(100);
    expect(effects('cri.reopenContainerLog')).toHaveLength(2);
    expect(effects('logs.restore')).toEqual([]);
  });

  it('gets its name back when the runtime does not open it', () => {
    running().world.fault = (name) => (name === 'cri.reopenContainerLog' ? { error: 'no', code: 'X' } : undefined);
    node.world.sendLogEvent({ type: 'log.rotated', aside: '0.log.1' });
    node.run(100);
    expect(effects('logs.restore').map(({ input }) => input['aside'])).toEqual(['0.log.1']);
    node.world.sendLogEvent({ type: 'log.missing' });
    node.run(100);
    expect(effects('logs.restore')).toHaveLength(1);
    expect(node.logs('Failed to reopen container log')).toMatchObject([{ err: 'no' }]);
  });

  it('is said to fail where it fails, and is kept on', () => {
    running().world.sendLogEvent({ type: 'log.failed', message: 'disk full' });
    node.run(100);
    expect(node.logs('Failed to rotate container log')).toMatchObject([{ err: 'disk full' }]);
    expect(node.world.openLogs()).toHaveLength(1);
  });
});

describe('logs of what is gone', () => {
  it('go with the instance that the collector removes', () => {
    node = new PodsNode({ settings: { containerLogs } });
    node.world.runtime.images.set('app:1', image('app:1'));
    node.world.setManifests([manifest({ uid: 'u1' })]);
    node.world.runtime.programs.set('app', [{ runsMs: 10, exitCode: 1 }]);
    node.boot().until('one is removed', () => effects('logs.remove').length > 0);
    expect(effects('logs.remove')[0]?.input).toMatchObject({
      root: '/var/log/pods',
      path: expect.stringMatching(/^\/var\/log\/pods\/default_web-node_u1\/app\/\d\.log$/),
      link: expect.stringMatching(/^\/var\/log\/containers\/web-node_default_app-.+\.log$/),
    });
  });

  it('of an agent that crashed are removed, and links to nothing', () => {
    node = new PodsNode();
    node.world.logFolders = [{ uid: 'gone', namespace: 'ns', name: 'old' }];
    node.boot().run(5_000);
    expect(effects('logs.unlink').map(({ input }) => input)).toEqual(
      expect.arrayContaining([
        { links: '/var/log/containers', folder: '/var/log/pods', dangling: true },
        { links: '/var/log/containers', folder: '/var/log/pods/ns_old_gone', dangling: false },
      ]),
    );
    expect(effects('host.removePod').map(({ input }) => input['paths'])).toContainEqual(['/var/log/pods/ns_old_gone']);
    expect(node.podState('gone')).toBeUndefined();
  });

  it('of an agent that crashed are looked for again where they could not be listed', () => {
    node = new PodsNode();
    node.world.logFolders = [{ uid: 'gone', namespace: 'ns', name: 'old' }];
    let isBroken = true;
    node.world.fault = (name) => (name === 'logs.podFolders' && isBroken ? { error: 'EIO' } : undefined);
    const removed = () => effects('host.removePod').map(({ input }) => input['paths']);
    node.boot().run(90_000);
    expect(removed()).toEqual([]);
    isBroken = false;
    node.run(60_000);
    expect(removed()).toContainEqual(['/var/log/pods/ns_old_gone']);
    node.run(180_000);
    expect(effects('logs.podFolders')).toHaveLength(3);
  });
});
