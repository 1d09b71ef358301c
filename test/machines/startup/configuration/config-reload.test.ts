/** Reload: which fields can change, and a whole node whose files change, or that gets SIGHUP, in virtual time. */
import { describe, expect, it } from 'vitest';
import type { Json } from '../../../../src/kernel/json.ts';
import { flagDefaults } from '../../../../src/machines/configuration/fields/defaults.ts';
import { changeOf, RELOADABLE } from '../../../../src/machines/configuration/reloadable.ts';
import {
  type KubeletConfiguration,
  kubeletConfigurationType,
} from '../../../../src/machines/model/configuration/fields.ts';
import { configReloadMachine } from '../../../../src/machines/startup/configuration/config-reload.ts';
import { deriveSettings } from '../../../../src/machines/startup/context/derive-settings.ts';
import { kubeletMachine } from '../../../../src/machines/startup/kubelet.ts';
import { SUBSYSTEMS } from '../../../../src/machines/startup/setup.ts';
import { runUnder } from '../../../support/answering-world.ts';
import { image, manifest } from '../../../support/pods-node.ts';
import { type Answers, ARGV, BootNode, document, fail, ok } from '../boot-node.ts';

const current = flagDefaults({});
const changed = (fields: Record<string, unknown>) => ({ ...current, ...fields }) as KubeletConfiguration;

describe('what can change', () => {
  it('is nothing when nothing differs', () => {
    expect(changeOf(current, changed({}))).toEqual({ config: current, changed: [], refused: [], readers: [] });
  });

  it('is taken over field by field, and the rest is named', () => {
    const next = changed({
      imageGCHighThresholdPercent: 70,
      registryPullQPS: 1,
      maxPods: 7,
      logging: { ...current.logging, verbosity: 6, flushFrequency: '9s' },
      crashLoopBackOff: { maxContainerRestartPeriod: '10s' },
    });
    const change = changeOf(current, next);
    expect(change.changed).toEqual([
      'crashLoopBackOff.maxContainerRestartPeriod',
      'imageGCHighThresholdPercent',
      'logging.verbosity',
      'registryPullQPS',
    ]);
    expect(change.refused).toEqual(['logging.flushFrequency', 'maxPods']);
    expect([...change.readers].toSorted()).toEqual(['imageGC', 'images', 'logging', 'pods']);
    expect(change.config).toMatchObject({ imageGCHighThresholdPercent: 70, maxPods: current.maxPods });
    expect(change.config.logging).toEqual({ ...current.logging, verbosity: 6 });
    expect(changeOf(change.config, next).changed).toEqual([]);
  });

  it('can be taken away again', () => {
    const before = changed({ crashLoopBackOff: { maxContainerRestartPeriod: '10s' }, maxParallelImagePulls: 3 });
    const { maxParallelImagePulls: _gone, ...without } = { ...before, crashLoopBackOff: {} };
    const { config, refused } = changeOf(before, without);
    expect(config).toEqual(without);
    expect(refused).toEqual([]);
  });

  it('names fields that exist and subsystems that exist', () => {
    const names = kubeletConfigurationType.fields.map(({ name }) => name);
    for (const [path, ids] of Object.entries(RELOADABLE)) {
      expect(names).toContain(path.split('.')[0]);
      for (const id of ids) expect(Object.keys(SUBSYSTEMS)).toContain(id);
    }
  });

  it('is what the subsystem that begins anew is given: no field is claimed in vain', () => {
    const node = new BootNode({ argv: [...ARGV, '--eviction-hard=memory.available<100Mi'] }).boot().run(5_000);
    const { context } = node.kernel.snapshotOf('kubelet') as { context: { config: KubeletConfiguration } };
    const values: Record<string, unknown> = {
      clusterDNS: ['10.9.9.9'],
      clusterDomain: 'other.local',
      containerLogMaxSize: '5Mi',
      evictionMinimumReclaim: { 'memory.available': '7Mi' },
      healthzBindAddress: '127.0.0.9',
      'crashLoopBackOff.maxContainerRestartPeriod': '9s',
      'logging.verbosity': 9,
      'logging.format': 'json',
      'logging.options': { text: { splitStream: true }, json: {} },
    };
    for (const [path, ids] of Object.entries(RELOADABLE)) {
      const [name, key] = path.split('.') as [keyof KubeletConfiguration, string | undefined];
      const value = values[path] ?? otherThan(context.config[name]);
      const before = context.config[name] as object;
      const after = key === undefined ? value : { ...before, [key]: value };
      const next = { ...context.config, [name]: after } as KubeletConfiguration;
      for (const id of ids) expect(inputOf(id, context, next), `${path} in ${id}`).not.toEqual(inputOf(id, context));
    }
  });
});

function otherThan(value: unknown): unknown {
  if (typeof value === 'number') return value + 1;
  if (typeof value === 'boolean') return !value;
  return value === undefined ? 4 : '77m';
}

/** The input of this subsystem with another configuration. */
function inputOf(id: string, context: { config: KubeletConfiguration }, config = context.config): unknown {
  const { config: root } = kubeletMachine;
  const regions = (root.states as unknown as { alive: { states: Record<string, unknown> } }).alive.states;
  const { states } = regions[id] as { states: { running: { invoke: { input(args: unknown): unknown } } } };
  return states.running.invoke.input({ context: { ...context, config, settings: settingsWith(context, config) } });
}

const settingsWith = (context: object, config: KubeletConfiguration) => deriveSettings({ ...context, config } as never);

/** A node with a configuration file whose content may change. */
function node(fields: Record<string, Json> = {}, answers: Answers = {}) {
  let content = document(fields);
  let error: ReturnType<typeof fail> | null = null;
  const started = new BootNode({
    argv: [...ARGV, '--config=/etc/kubelet.yaml'],
    answers: { 'host.readConfiguration': () => error ?? ok(content), ...answers },
  });
  started.world.pods.registry.set('app:1', image('app:1'));
  started.world.pods.setManifests([manifest({ uid: 'u1' })]);
  started.boot().run(10_000);
  const change = (next: Record<string, Json>) => {
    content = document(next);
    started.world.emit('host.watchConfiguration', { type: 'configuration.changed' });
    started.run(5_000);
  };
  const breakFile = (message: string) => {
    error = fail(message);
    started.world.emit('host.watchConfiguration', { type: 'configuration.changed' });
    started.run(1_000);
  };
  return { started, change, breakFile, set: (next: Record<string, Json>) => (content = document(next)) };
}

const contextOf = (started: BootNode) =>
  (started.kernel.snapshotOf('kubelet') as { context: { config: KubeletConfiguration; settings: unknown } }).context;
const texts = (started: BootNode) => started.lines().map(({ text }) => text);
const runtimeChanges = (started: BootNode) =>
  started.effects().filter(({ name }) => /^cri\.(run|stop|remove|create|start)/.test(name)).length;

describe('a node whose configuration file changes', () => {
  it('takes what can change, gives it to the part that reads it, and touches no pod', () => {
    const { started, change } = node();
    const before = runtimeChanges(started);
    change({ imageGCHighThresholdPercent: 60, imageGCLowThresholdPercent: 50, clusterDNS: ['10.0.0.99'] });
    expect(contextOf(started).config.imageGCHighThresholdPercent).toBe(60);
    expect(started.kernel.snapshotOf('kubelet/imageGC')).toMatchObject({
      context: { policy: { highThresholdPercent: 60, lowThresholdPercent: 50 } },
    });
    expect(started.kernel.snapshotOf('kubelet/pods/pod-u1')).toMatchObject({
      context: { node: { clusterDNS: ['10.0.0.99'] } },
    });
    expect(runtimeChanges(started), 'containers go on').toBe(before);
    expect(started.kernel.snapshotOf('kubelet/status')).toMatchObject({ context: { pods: { u1: { ready: true } } } });
    expect(started.crashes()).toEqual([]);
    expect(started.replay().divergence).toBeNull();
  });

  it('gives it to the logs and the back-offs that there are', () => {
    const { started, change } = node();
    change({ containerLogMaxSize: '5Mi', crashLoopBackOff: { maxContainerRestartPeriod: '9s' } });
    const kept = started.effects('logs.keep').map(({ input }) => (input as { maxBytes: number }).maxBytes);
    expect(kept).toEqual([10 * 1_024 ** 2, 5 * 1_024 ** 2]);
    expect(started.kernel.snapshotOf('kubelet/pods/pod-u1/container-app')).toMatchObject({
      context: { maxBackoffMs: 9_000 },
    });
    expect(started.replay().divergence).toBeNull();
  });

  it('says what changed as a line and as an event of the node', () => {
    const { started, change } = node();
    change({ registryPullQPS: 2 });
    const logged = started.lines('info').filter(({ text }) => text === 'The configuration was changed');
    expect(logged).toMatchObject([{ fields: { fields: 'registryPullQPS', readers: 'images' } }]);
    expect(started.lines().map(({ fields }) => fields?.['message'])).toContain(
      'Changed while the node runs: registryPullQPS',
    );
  });

  it('refuses by name what cannot change, and takes the rest', () => {
    const { started, change } = node();
    change({ maxPods: 7, registryBurst: 3 });
    const { config } = contextOf(started);
    expect(config.maxPods).toBe(110);
    expect(config.registryBurst).toBe(3);
    const logged = started.lines('error').at(-1)!;
    expect(logged.fields).toEqual({ fields: 'maxPods' });
    expect(started.lines().map(({ fields }) => fields?.['message'])).toContain(
      'New configuration refused: cannot change while the node runs: maxPods',
    );
    expect(started.replay().divergence).toBeNull();
  });

  it.each<[string, Record<string, Json>, string]>([
    [
      'that is not allowed',
      { imageGCHighThresholdPercent: 200 },
      'failed to validate kubelet configuration, error: invalid configuration: imageGCHighThresholdPercent ' +
        '(--image-gc-high-threshold) 200 must be between 0 and 100, inclusive, path: &TypeMeta{Kind:,APIVersion:,}',
    ],
    ['that cannot be decoded', { maxPods: 'many' }, 'failed to load kubelet config file'],
  ])('keeps the old one when it gets one %s, with upstream’s words', (_, fields, words) => {
    const { started, change } = node({ registryBurst: 5 });
    const before = contextOf(started).config;
    change({ registryBurst: 9, ...fields });
    expect(contextOf(started).config).toBe(before);
    const logged = started.lines('error').at(-1)!;
    expect(logged.text).toBe('The new configuration is refused; the old one stays');
    expect(logged.fields!['err']).toContain(words);
    change({ registryBurst: 9 });
    expect(contextOf(started).config.registryBurst).toBe(9);
    expect(started.ended).toBeNull();
    expect(started.replay().divergence).toBeNull();
  });

  it('keeps the old one when the file cannot be read', () => {
    const { started, breakFile } = node();
    const before = contextOf(started).config;
    breakFile('too many open files');
    expect(contextOf(started).config).toBe(before);
    expect(texts(started)).toContain('The new configuration is refused; the old one stays');
  });

  it('watches on after each of these, and opens the watch again when it breaks', () => {
    const answers: Answers = {
      'host.watchConfiguration': (_, nth) => (nth === 0 ? fail('no watches left') : 'stream'),
    };
    const { started, change } = node({}, answers);
    expect(texts(started)).toContain('Cannot watch the configuration; a change is noticed by SIGHUP only');
    started.run(10_000);
    change({ registryBurst: 3 });
    expect(contextOf(started).config.registryBurst).toBe(3);
    expect(started.state('kubelet/configReload')).toBe('watching');
  });

  it('moves healthz to another port', () => {
    const { started, change } = node();
    change({ healthzPort: 12_345 });
    const ports = started.effects('server.healthz').map(({ input }) => (input as { port: number }).port);
    expect(ports).toEqual([10_248, 12_345]);
  });

  it('prints more or less from then on', () => {
    const { started, change } = node({ logging: { verbosity: 2 } });
    change({ logging: { verbosity: 5 } });
    const asked = started.effects('host.setLogVerbosity').map(({ input }) => input);
    expect(asked).toEqual([{ verbosity: 2 }, { verbosity: 5 }]);
  });
});

describe('the machine', () => {
  const input = { argv: ['--max-pods=7'], version: '', nodeName: 'node-1', paths: [], config: current };
  const answers = { 'host.cgroups': ok({ version: 2, controllers: [], swapCounted: true }) };

  it('has nothing to watch without files, and still answers', () => {
    const run = runUnder(configReloadMachine, input, answers, ['eventRecorder']);
    expect(run.state()).toBe('idle');
    run.send({ type: 'reload.requested' });
    run.time.advanceTo(run.time.now() + 1_000);
    expect(run.state()).toBe('idle');
    expect(run.asked()).toEqual(['host.cgroups']);
    expect(run.sent().map(({ to }) => to)).not.toContain('parent/pods');
    expect(run.divergence()).toBeNull();
  });
});

describe('SIGHUP', () => {
  const hangup = { type: 'signal.received', signal: 'SIGHUP' };

  it('reads everything again and ends nothing', () => {
    const { started, set } = node();
    set({ registryBurst: 3 });
    started.send(hangup).run(1_000);
    expect(contextOf(started).config.registryBurst).toBe(3);
    expect(started.ended).toBeNull();
  });

  it('without a change says so', () => {
    const { started } = node();
    started.send(hangup).run(1_000);
    expect(texts(started)).toContain('The configuration is unchanged');
    const flagsOnly = new BootNode().boot().run(5_000);
    flagsOnly.send(hangup).run(1_000);
    expect(texts(flagsOnly)).toContain('The configuration is unchanged');
    expect(flagsOnly.state('kubelet/configReload')).toBe('idle');
  });

  it('keeps flags over the files', () => {
    const started = new BootNode({
      argv: [...ARGV, '--config=/etc/kubelet.yaml', '--registry-burst=4'],
      answers: { 'host.readConfiguration': (_, nth) => ok(document({ registryBurst: nth === 0 ? 5 : 6 })) },
    });
    started.boot().run(5_000).send(hangup).run(1_000);
    expect(contextOf(started).config.registryBurst).toBe(4);
    expect(texts(started)).toContain('The configuration is unchanged');
  });

  it('is harmless while the node starts, and while one reload is under way', () => {
    const started = new BootNode().boot();
    started.send(hangup).run(5_000);
    started.send(hangup).send(hangup).run(1_000);
    expect(started.ended).toBeNull();
    expect(texts(started).filter((text) => text === 'The configuration is unchanged')).toHaveLength(1);
    expect(started.replay().divergence).toBeNull();
  });
});

it('a configuration that cannot be loaded at all costs nothing', () => {
  const { started } = node({}, { 'host.cgroups': (_, nth) => (nth < 2 ? cgroups : fail('no cgroups')) });
  started.send({ type: 'signal.received', signal: 'SIGHUP' }).run(1_000);
  expect(texts(started)).toContain('The new configuration is refused; the old one stays');
  expect(started.ended).toBeNull();
});

const cgroups = ok({ version: 2, controllers: ['cpu', 'cpuset', 'memory', 'pids'], swapCounted: true });
