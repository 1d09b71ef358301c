/**
 * The supervisor after its start: the consequences of a crash, an unreachable runtime, a signal and a contended lock.
 *
 * The chart and its subsystems are the real ones; only the machine below is scripted.
 */
import { describe, expect, it } from 'vitest';
import type { JsonEvent } from '../../../src/kernel/json.ts';
import { restartDelay } from '../../../src/machines/startup/setup.ts';
import { runtimeCondition } from '../../../src/simulation/world/machine-world.ts';
import { image, manifest } from '../../support/pods-node.ts';
import { nodeBefore } from '../charts/pods/support.ts';
import {
  type Answers,
  ARGV,
  BootNode,
  type BootOptions,
  document,
  fail,
  ok,
  RUNTIME_NOT_READY,
  RUNTIME_READY,
} from './boot-node.ts';

const BOOT_MS = 5_000;
const boot = (options?: BootOptions) => new BootNode(options).boot().run(BOOT_MS);

const SYNCHRONIZING = { alive: { startup: { startKubelet: { kubeletRun: { synchronizing: 'up' } } } } };
const LOCK = [...ARGV, '--lock-file=/run/kubelet.lock', '--exit-on-lock-contention'];

/** A node that runs one static pod. */
function withPod(): BootNode {
  const node = new BootNode();
  node.world.pods.registry.set('app:1', image('app:1'));
  node.world.pods.setManifests([manifest({ uid: 'u1' })]);
  node.boot().run(60_000);
  expect(runningContainers(node)).toHaveLength(1);
  return node;
}

/** The container manager creates the node's groups one after the other. */
const SET_UP_MS = 20;

const runningContainers = (node: BootNode) =>
  [...node.world.pods.runtime.containers.values()].filter(({ state }) => state === 'CONTAINER_RUNNING');

describe('the network of the node', () => {
  const network = (isReady: boolean) => ({
    ...RUNTIME_READY,
    conditions: [runtimeCondition('RuntimeReady', true), runtimeCondition('NetworkReady', isReady, 'NoCNI', 'none')],
  });

  it.each([
    ['is there', network(true)],
    ['was there again before a runtime state that crashed', { type: 'runtime.statusChanged' }],
  ])('lets pods start that waited for it, when it %s', (_, event) => {
    const node = boot();
    node.send(network(false), 'kubelet/runtimeState');
    node.world.pods.registry.set('app:1', image('app:1'));
    node.world.pods.setManifests([manifest({ uid: 'u1' })]);
    node.run(60_000);
    expect(runningContainers(node)).toEqual([]);
    node.send(event, 'kubelet/runtimeState').run(5_000);
    expect(runningContainers(node)).toHaveLength(1);
    expect(node.replay().divergence).toBeNull();
  });
});

describe('the runtime', () => {
  it('that is up stays so for a runtime state that crashed: PLEG says its health again', () => {
    const node = withPod();
    node.send({ type: 'runtime.statusChanged' }, 'kubelet/runtimeState').run(5_000);
    expect(node.crashes().map(({ at }) => at)).toEqual(['kubelet/runtimeState']);
    expect(node.state('kubelet/runtimeState')).toBe('up');
    expect(node.kernel.snapshotOf('kubelet/runtimeState')).toMatchObject({ context: { plegError: '' } });
    const sentBy = (from: string) =>
      node.records.filter(
        (record) => record.k === 'message' && record.from === from && record.event.type.startsWith('pleg.'),
      );
    expect(sentBy('kubelet/pleg').map((record) => 'event' in record && record.event)).toEqual([
      expect.objectContaining({ type: 'pleg.unhealthy' }),
      { type: 'pleg.healthy' },
      { type: 'pleg.healthy' },
    ]);
    expect(node.replay().divergence).toBeNull();
  });

  it('that is never ready leaves the kubelet waiting for it, and the process serving', () => {
    const node = boot({ isQuiet: true });
    expect(node.state()).toMatchObject({
      alive: { startup: { startKubelet: { kubeletRun: 'waitingForRuntime', serving: 'blocked' } } },
    });
    expect(node.state('kubelet/containerManager')).toBe('created');
    expect(node.state('kubelet/syncLoop')).toBe('waiting');
    expect(node.state('kubelet/podConfig'), 'no source is open, so no pod can be wanted').toBe('waiting');
    node.world.emit('runtime.watchStatus', RUNTIME_READY);
    node.run(SET_UP_MS);
    expect(node.state('kubelet/podConfig')).toBe('open');
    expect(node.state()).toMatchObject(SYNCHRONIZING);
    expect(node.state('kubelet/syncLoop')).toBe('syncing');
    expect(node.replay().divergence).toBeNull();
  });

  it('going down stops the synchronising of pods, coming up goes on with it, and no pod is touched', () => {
    const node = withPod();
    const changes = () => node.effects().filter(({ name }) => /^cri\.(run|stop|remove|create|start)/.test(name)).length;
    const before = changes();
    node.world.emit('runtime.watchStatus', RUNTIME_NOT_READY);
    expect(node.state()).toMatchObject({
      alive: { startup: { startKubelet: { kubeletRun: { synchronizing: 'down' } } } },
    });
    expect(node.state('kubelet/syncLoop')).toBe('starting');
    const err = 'container runtime not ready: RuntimeReady=false reason:Stopped message:gone';
    expect(node.lines('error')).toMatchObject([{ text: 'Skipping pod synchronization', fields: { err } }]);
    node.run(120_000);
    node.world.emit('runtime.watchStatus', RUNTIME_READY);
    expect(node.state()).toMatchObject(SYNCHRONIZING);
    expect(node.state('kubelet/syncLoop')).toBe('syncing');
    expect(changes()).toBe(before);
    expect(node.replay().divergence).toBeNull();
  });

  it('that cannot be asked is as good as down', () => {
    const node = boot();
    node.world.emit('runtime.watchStatus', { type: 'runtime.statusFailed', message: 'connection refused' });
    expect(node.lines('error').map(({ text, fields }) => [text, fields?.['err']])).toEqual([
      ['Container runtime sanity check failed', 'connection refused'],
      ['Skipping pod synchronization', 'container runtime is down: connection refused'],
    ]);
    expect(node.state('kubelet/syncLoop')).toBe('starting');
  });

  it('without its network is up: pods on the host network need none', () => {
    const conditions = [{ type: 'RuntimeReady', status: true, reason: '', message: '' }];
    const node = boot({ isQuiet: true });
    node.world.emit('runtime.watchStatus', { type: 'runtime.statusChanged', conditions, handlers: [], features: null });
    node.run(SET_UP_MS);
    expect(node.state()).toMatchObject(SYNCHRONIZING);
  });
});

/** Events that no correct actor sends: the receiving machine throws. */
const BOMBS: readonly (readonly [id: string, event: JsonEvent])[] = [
  ['syncLoop', { type: 'runtime.down' }],
  ['podConfig', { type: 'xstate.error.actor.fileSource' }],
  ['pleg', { type: 'xstate.error.actor.watch' }],
  ['pods', { type: 'config.pods', op: 'ADD' }],
  ['images', { type: 'image.wanted' }],
  ['status', { type: 'status.changed' }],
  ['eventRecorder', { type: 'event.recorded' }],
];

describe('a subsystem that crashes', () => {
  it.each(BOMBS)('%s: starts again under the same address, while the others go on', (id, bomb) => {
    const node = withPod();
    const address = `kubelet/${id}`;
    const others = node.kernel.addresses.filter((other) => /^kubelet\/\w+$/.test(other) && other !== address);
    node.send(bomb, address);
    expect(node.crashes().map(({ at }) => at)).toEqual([address]);
    expect(node.state()).toMatchObject({ alive: { [id]: 'crashed' } });
    expect(node.kernel.addresses).not.toContain(address);
    expect(node.kernel.addresses).toEqual(expect.arrayContaining(others));
    expect(node.lines('error')).toMatchObject([
      { text: 'Subsystem crashed and will be started again', fields: { subsystem: id, restartInMs: 1_000 } },
    ]);
    node.run(5_000);
    expect(node.state()).toMatchObject({ alive: { [id]: 'running' } });
    expect(node.kernel.addresses).toContain(address);
    expect(node.crashes()).toHaveLength(1);
    expect(node.state()).toMatchObject(SYNCHRONIZING);
    expect(node.state('kubelet/syncLoop'), 'the sync loop is told that the runtime is up').toBe('syncing');
    expect(runningContainers(node), 'the pod was left alone').toHaveLength(1);
    expect(node.world.pods.runtime.started).toHaveLength(1);
    expect(node.replay().divergence).toBeNull();
  });

  it('finds the pods again: what is wanted later is done', () => {
    for (const [id, bomb] of BOMBS) {
      const node = withPod();
      node.send(bomb, `kubelet/${id}`).run(5_000);
      node.world.pods.setManifests([manifest({ uid: 'u2', name: 'other' })]);
      node.run(120_000);
      expect(node.world.pods.runtime.started, id).toHaveLength(2);
      expect(runningContainers(node), id).toHaveLength(1);
      expect(node.crashes(), id).toHaveLength(1);
    }
  });

  it('waits longer each time, up to a minute', () => {
    const node = boot();
    const waits = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000];
    for (const wait of waits) {
      node.send({ type: 'runtime.down' }, 'kubelet/syncLoop').run(wait - 1);
      expect(node.state('kubelet/syncLoop'), `${wait} ms`).toBeUndefined();
      node.run(1_000);
      expect(node.state('kubelet/syncLoop'), `${wait} ms`).toBe('syncing');
    }
    expect(waits).toEqual(waits.map((_, i) => restartDelay(i + 1)));
    expect(node.replay().divergence).toBeNull();
  });

  it('during its phase of starting is started again, and the phase still gets its answer', () => {
    const broken: Answers = {
      'host.cgroups': (_, nth) => ({
        output: nth === 1 ? null : { version: 2, controllers: ['cpu', 'memory'], swapCounted: true },
      }),
    };
    const node = boot({ answers: broken });
    expect(node.crashes().map(({ at }) => at)).toEqual(['kubelet/containerManager']);
    expect(node.state()).toMatchObject(SYNCHRONIZING);
    expect(node.state('kubelet/containerManager')).toHaveProperty('running');
  });
});

describe('a signal', () => {
  it.each(['SIGTERM', 'SIGINT'])('%s ends the node with exit code 0 and no pod with it', (signal) => {
    const node = withPod();
    const before = node.effects().length;
    node.send({ type: 'signal.received', signal });
    expect(node.state()).toBe('stopping');
    node.run(10_000);
    expect(node.ended).toEqual({ exitCode: 0, failure: null });
    const after = node.effects().slice(before);
    expect(after.map(({ name, input }) => [name, input])).toEqual([['host.notify', { state: 'STOPPING=1' }]]);
    expect(runningContainers(node)).toHaveLength(1);
    expect(node.replay().divergence).toBeNull();
  });

  it('ends the node although no service manager receives the notice', () => {
    const node = boot({ answers: { 'host.notify': (_, nth) => (nth === 0 ? { output: null } : 'hangs') } });
    node.send({ type: 'signal.received', signal: 'SIGTERM' }).run(999);
    expect(node.ended).toBeNull();
    node.run(1);
    expect(node.ended).toEqual({ exitCode: 0, failure: null });
  });

  it('ends the node although the notice fails', () => {
    const node = boot({ answers: { 'host.notify': fail('no such socket') } });
    node.send({ type: 'signal.received', signal: 'SIGTERM' }).run(10);
    expect(node.ended).toEqual({ exitCode: 0, failure: null });
  });

  const WAITS: readonly (readonly [phase: string, hanging: keyof Answers])[] = [
    ['command.loadingConfiguration', 'host.cgroups'],
    ['command.checkingPermissions', 'host.permissions'],
    ['run.lockFile', 'host.acquireLock'],
    ['run.hostname', 'host.hostname'],
    ['run.runtimeService', 'runtime.connect'],
    ['run.cadvisor', 'host.machineInfo'],
    ['run.oomScore', 'host.setOomScoreAdj'],
    ['runKubelet.nodeIPs', 'host.addresses'],
    ['runKubelet.createAndInitKubelet.resolver', 'host.readFile'],
    ['runKubelet.openFilesLimit', 'host.setOpenFilesLimit'],
    ['startKubelet.kubeletRun.initializingModules', 'host.makeDirectories'],
  ];

  it.each(WAITS)('ends the node in %s, too, and what it waits for is named', (phase, hanging) => {
    const node = boot({ argv: LOCK, answers: { [hanging]: 'hangs' } });
    const path = ['alive', 'startup', ...phase.split('.')];
    expect(node.state()).toMatchObject(
      path.slice(0, -1).reduceRight<unknown>((at, key) => ({ [key]: at }), path.at(-1)) as object,
    );
    node.send({ type: 'signal.received', signal: 'SIGTERM' }).run(10);
    expect(node.ended).toEqual({ exitCode: 0, failure: null });
    expect(node.replay().divergence).toBeNull();
  });
});

describe('the lock file', () => {
  it('that another process wants ends the node, when the flags say so', () => {
    const node = boot({ argv: LOCK });
    expect(node.ended).toBeNull();
    node.world.emit('host.watchLock', { type: 'lock.contended' });
    node.run(10);
    expect(node.ended).toEqual({ exitCode: 0, failure: null });
    expect(node.lines('info').map(({ text }) => text)).toContain('Caught inotify event on the lock file; stopping');
  });

  it('is not watched when they do not', () => {
    const node = boot({ argv: [...ARGV, '--lock-file=/run/kubelet.lock'] });
    expect(node.effects('host.acquireLock')).toHaveLength(1);
    expect(node.effects('host.watchLock')).toEqual([]);
  });
});

describe('what the supervisor gives its subsystems', () => {
  const OWN = { directory: '/var/lib/kubelet/pki', hostname: 'node-1' };
  it.each<[string, Record<string, string | boolean>, object | null]>([
    ['nothing', {}, OWN],
    [
      'a certificate in the place of its own, and a key elsewhere',
      { tlsCertFile: '/var/lib/kubelet/pki/kubelet.crt', tlsPrivateKeyFile: '/etc/tls/node.key' },
      null,
    ],
    ['a key alone', { tlsPrivateKeyFile: '/var/lib/kubelet/pki/kubelet.key' }, null],
    ['that one is requested', { serverTLSBootstrap: true }, null],
  ])('is a certificate of its own only where none is configured: %s', (_, fields, wanted) => {
    const argv = ['--config=/etc/kubelet.yaml'];
    const node = new BootNode({ argv, answers: { 'host.readConfiguration': { output: document(fields) } } });
    const signed = node.boot().run(2_000).effects('server.selfSign');
    expect(signed.map(({ input }) => input)).toEqual(wanted === null ? [] : [wanted]);
    expect(node.effects('host.readable')).toHaveLength(signed.length);
  });

  it('is the configuration of the file and what starting found out', () => {
    const fields = { staticPodPath: '/manifests', clusterDNS: ['10.0.0.10'], healthzPort: 1_024, maxPods: 7 };
    const node = boot({
      argv: ['--config=/etc/kubelet.yaml', '--hostname-override= Other-Name '],
      answers: { 'host.readConfiguration': { output: document(fields) } },
    });
    const given = (id: string) =>
      node.records.flatMap((record) =>
        record.k === 'message' && record.to === `kubelet/${id}` && record.event.type === 'xstate.init'
          ? [record.event['input']]
          : [],
      );
    expect(given('healthz')).toEqual([{ address: '127.0.0.1', port: 1_024 }]);
    expect(given('podConfig')).toMatchObject([
      {
        nodeName: 'other-name',
        nodeIPs: ['192.0.2.10'],
        staticPodPath: '/manifests',
        clusterDNS: ['10.0.0.10'],
        maxPods: 7,
        cgroupDriver: 'systemd',
        cpuCapacityMilli: 4_000,
        resolver: { nameservers: ['192.0.2.1'] },
        softStateFile: '/journal/soft-state.json',
      },
    ]);
  });
});

it('pods have the addresses of the Node, which a cloud provider sets', () => {
  const argv = [...ARGV, '--kubeconfig=/kc', '--cloud-provider=external'];
  const away = ['create', 'get', 'list', 'watch', 'patch', 'deleteCollection'].map((verb) => [
    `kube.${verb}`,
    fail('connection refused'),
  ]);
  const answers: Answers = { ...Object.fromEntries(away), 'kube.connect': ok({ server: 'https://x', rotates: false }) };
  const node = new BootNode({ argv, answers });
  node.boot().run(BOOT_MS);
  const settingsOf = () =>
    (node.kernel.snapshotOf('kubelet/pods') as { context: { settings: object } }).context.settings;
  expect(settingsOf()).toMatchObject({ hostAddresses: [{ type: 'Hostname', address: 'node-1' }] });
  const hostAddresses = [{ type: 'InternalIP', address: '192.0.2.77' }];
  node.send({ type: 'hostAddresses.changed', hostAddresses });
  expect(settingsOf()).toMatchObject({ hostAddresses });
  expect(node.crashes()).toEqual([]);
});

describe('the first lines of the log', () => {
  const started = (fields: Parameters<typeof document>[0], behavior?: number) => {
    const answers = { 'host.readConfiguration': { output: document(fields) } };
    return boot({ argv: ['--config=/etc/kubelet.yaml'], answers, ...(behavior === undefined ? {} : { behavior }) });
  };
  const before = nodeBefore('configurationAsKubelet');
  const isFormFirst = ({ records }: BootNode) => {
    const version = records.findIndex((record) => record.k === 'log' && record.text === 'Kubelet version');
    return records.findIndex((record) => record.k === 'effect' && record.name === 'host.setLogVerbosity') < version;
  };

  it('have the configured form', () => {
    const json = { logging: { format: 'json' } };
    expect(isFormFirst(started(json))).toBe(true);
    const earlier = started(json, before);
    expect(isFormFirst(earlier)).toBe(false);
    expect(earlier.effects('host.setLogVerbosity')).toMatchObject([{ input: { format: 'json' } }]);
  });

  it('report insecure cipher suites, and those that have no effect', () => {
    const fields = {
      tlsMinVersion: 'VersionTLS13',
      tlsCipherSuites: ['TLS_AES_128_GCM_SHA256', 'TLS_RSA_WITH_RC4_128_SHA'],
    };
    const reported = (behavior?: number) =>
      started(fields, behavior)
        .lines()
        .filter(({ text }) => /cipher/.test(text))
        .map(({ text, fields: given = {} }) => [text, given['cipher']]);
    expect(reported()).toEqual([
      ['Use of insecure cipher detected.', 'TLS_RSA_WITH_RC4_128_SHA'],
      ['Warning: TLS 1.3 cipher suites are not configurable, ignoring --tls-cipher-suites', undefined],
    ]);
    expect(reported(before)).toEqual([]);
  });

  it('name what is no address in --node-ip', () => {
    const reported = (behavior?: number) =>
      boot({ argv: [...ARGV, '--node-ip=192.0.2.1, 192.0.2'], ...(behavior === undefined ? {} : { behavior }) })
        .lines()
        .filter(({ text }) => text.startsWith('Could not parse some node IP(s)'))
        .map(({ fields }) => fields);
    expect(reported()).toEqual([{ IPs: ['192.0.2'] }]);
    expect(reported(before)).toEqual([]);
  });
});
