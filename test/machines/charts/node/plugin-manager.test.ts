/** The plugin manager with the actors of its plugins, in a world of scripted plugins. */
import { expect, it } from 'vitest';
import type { EffectResult } from '../../../../src/kernel/effects.ts';
import { pluginManagerMachine } from '../../../../src/machines/charts/node/plugin-manager.ts';
import { highestSupported, pluginVerdict } from '../../../../src/machines/charts/node/plugin-policy.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { type Answers, fail, ok, runUnder } from '../../../support/answering-world.ts';

const SOCKET = '/registry/csi.sock';
const info = (fields: object = {}) => ({
  type: 'CSIPlugin',
  name: 'csi.example.test',
  endpoint: '/plugins/csi.sock',
  versions: ['1.0.0'],
  ...fields,
});
const taken = (drivers: Readonly<Record<string, string>> = {}) => ({
  drivers: new Map(Object.entries(drivers)),
  draPlugins: new Set<string>(),
  takesDra: true,
});
const there = (...sockets: (readonly [string, string])[]) => ({
  type: 'plugins.changed',
  sockets: sockets.map(([path, identity]) => ({ path, identity })),
  errors: [],
});

/** A node that does not retry registrations. */
const BEFORE_RETRIES = 0;

function run(plugin: EffectResult, answers: Answers = {}, inCluster = true, behavior = NEWEST_BEHAVIOR) {
  const statuses: unknown[] = [];
  const world = runUnder(
    pluginManagerMachine,
    { path: '/registry', inCluster, behavior },
    {
      'plugins.watch': 'stream',
      'plugins.getInfo': plugin,
      'plugins.csiNodeGetInfo': ok({ nodeID: 'n', maxVolumes: '7', topologyKeys: ['zone'] }),
      'plugins.notifyRegistrationStatus': (input: unknown) => {
        statuses.push(input);
        return ok(null);
      },
      ...answers,
    },
    ['csiNode', 'csiVolumes', 'deviceManager', 'draManager'],
  );
  const list = (...sockets: (readonly [string, string])[]) => {
    world.emit('plugins.watch', there(...sockets));
    world.time.advanceTo(world.time.now());
  };
  const advance = (ms: number) => world.time.advanceTo(world.time.now() + ms);
  /** The cluster answers that the driver is stored. */
  const written = () => {
    world.send({ type: 'csi.driversWritten', names: ['csi.example.test'] });
    world.time.advanceTo(world.time.now());
  };
  const toCluster = () => world.sent().filter(({ to }) => to === 'parent/csiNode');
  const asked = (name: string) => world.asked().filter((each) => each === name).length;
  const hear = (stream: string, event: { type: string; [key: string]: unknown }) => {
    world.emit(stream, event);
    advance(0);
  };
  const inputs = (name: string) =>
    world.records().flatMap((record) => (record.k === 'effect' && record.name === name ? [record.input] : []));
  return { ...world, advance, statuses, list, hear, written, toCluster, askedFor: asked, inputs };
}

const registered = {
  to: 'parent/csiNode',
  type: 'csi.driverRegistered',
  driver: { name: 'csi.example.test', nodeID: 'n', topologyKeys: ['zone'], count: 7 },
};
const gone = { to: 'parent/csiNode', type: 'csi.driverGone', name: 'csi.example.test' };

it('a driver is registered, notified, and unregistered when its socket is gone', () => {
  const world = run(ok(info()));
  world.list([SOCKET, '1']);
  expect(world.toCluster()).toEqual([registered]);
  expect(world.statuses).toEqual([]);
  world.written();
  expect(world.statuses).toEqual([{ socket: SOCKET, registered: true, error: '' }]);
  world.written();
  expect(world.statuses).toHaveLength(1);
  world.list([SOCKET, '1']);
  expect(world.askedFor('plugins.getInfo')).toBe(1);
  world.list();
  expect(world.toCluster()).toEqual([registered, gone]);
  expect(world.divergence()).toBeNull();
});

it('a driver whose socket was recreated is unregistered and registered again', () => {
  const world = run(ok(info()));
  world.list([SOCKET, '1']);
  world.list([SOCKET, '2']);
  expect(world.toCluster()).toEqual([registered, gone, registered]);
  expect(world.divergence()).toBeNull();
});

it('without an API server only the plugin is notified', () => {
  const world = run(ok(info()), {}, false);
  world.list([SOCKET, '1']);
  world.list();
  expect(world.toCluster()).toEqual([]);
  expect(world.statuses).toHaveLength(1);
  expect(world.logged()).toEqual(expect.arrayContaining(['Registered CSI driver', 'DeRegisterPlugin called']));
});

const gpu = info({ type: 'DevicePlugin', name: 'example.com/gpu', endpoint: '', versions: ['v1beta1'] });

it('a device plugin is connected where it says how it wants to be asked, and taken back with its socket', () => {
  const options = { preStart: true, prefers: false };
  const world = run(ok(gpu), { 'devices.getOptions': ok(options) });
  const toDevices = () => world.sent().filter(({ to }) => to === 'parent/deviceManager');
  world.list([SOCKET, '1']);
  const plugin = { resource: 'example.com/gpu', endpoint: SOCKET };
  const connected = { to: 'parent/deviceManager', type: 'devices.registered', ...plugin, options };
  expect(toDevices()).toEqual([connected]);
  expect(world.statuses).toEqual([{ socket: SOCKET, registered: true, error: '' }]);
  world.list();
  expect(toDevices()).toEqual([connected, { to: 'parent/deviceManager', type: 'devices.withdrawn', ...plugin }]);
  expect(world.toCluster()).toEqual([]);
  expect(world.divergence()).toBeNull();
});

it.each([
  [gpu, fail('rpc error'), 'registration failed with err: failed to get device plugin options: rpc error'],
  [
    { ...gpu, versions: ['v2'] },
    ok({}),
    'validation failed with err: manager version, v1beta1, is not among plugin supported versions [v2]',
  ],
])('a device plugin that is refused gets the reason', (plugin, options, reason) => {
  const world = run(ok(plugin), { 'devices.getOptions': options });
  world.list([SOCKET, '1']);
  const error = `RegisterPlugin error -- plugin ${reason}`;
  expect(world.statuses).toEqual([{ socket: SOCKET, registered: false, error }]);
});

const dra = (fields: object = {}) =>
  info({
    type: 'DRAPlugin',
    name: 'gpu.example.test',
    endpoint: '/plugins/dra.sock',
    versions: ['v1.DRAPlugin'],
    ...fields,
  });

it('a resource driver is taken by the first of its services that this node knows, and taken back with its socket', () => {
  const world = run(ok(dra({ versions: ['v2.DRAPlugin', 'v1beta1.DRAPlugin', 'v1.DRAPlugin'] })));
  world.list([SOCKET, '1']);
  expect(world.statuses).toEqual([{ socket: SOCKET, registered: true, error: '' }]);
  const place = { driver: 'gpu.example.test', endpoint: '/plugins/dra.sock' };
  const toManager = () =>
    world.records().flatMap((each) => {
      const isSent = each.k === 'message' && each.to === 'parent/draManager' && each.event.type !== 'xstate.init';
      return isSent ? [each.event] : [];
    });
  const registration = { type: 'dra.registered', ...place, service: 'v1beta1.DRAPlugin' };
  expect(toManager()).toEqual([registration]);
  world.send({ type: 'dra.driversWanted' });
  world.list();
  expect(toManager()).toEqual([registration, registration, { type: 'dra.withdrawn', ...place }]);
  expect(world.divergence()).toBeNull();
});

it.each([
  [[], 'empty list of supported gRPC services (aka supported versions)'],
  [
    ['1.0.0'],
    'none of services supported by the plugin (["1.0.0"]) are supported by the kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])',
  ],
])('a resource driver of the versions %j is told why it is not taken', (versions, reason) => {
  const world = run(ok(dra({ versions })));
  world.list([SOCKET, '1']);
  const of = 'invalid supported gRPC versions of DRA driver plugin gpu.example.test at endpoint /plugins/dra.sock';
  const error = `RegisterPlugin error -- plugin validation failed with err: ${of}: ${reason}`;
  expect(world.statuses).toEqual([{ socket: SOCKET, registered: false, error }]);
});

it('of two registrations of a resource driver with one endpoint the first is taken', () => {
  const world = run(ok(dra()));
  world.list([SOCKET, '1'], ['/registry/other.sock', '2']);
  const error =
    'RegisterPlugin error -- plugin registration failed with err: endpoint /plugins/dra.sock already registered for ' +
    'DRA driver plugin gpu.example.test';
  expect(world.statuses).toContainEqual({ socket: '/registry/other.sock', registered: false, error });
});

it('a plugin of another kind is refused, and asked again with longer pauses', () => {
  const world = run(ok(info({ type: 'Whatever' })));
  world.list([SOCKET, '1']);
  const error = `RegisterPlugin error -- no handler registered for plugin type: Whatever at socket ${SOCKET}`;
  expect(world.statuses).toEqual([{ socket: SOCKET, registered: false, error }]);
  world.advance(500);
  expect(world.statuses).toHaveLength(2);
  world.advance(999);
  expect(world.statuses).toHaveLength(2);
  world.advance(1);
  expect(world.statuses).toHaveLength(3);
  expect(world.toCluster()).toEqual([]);
  expect(world.divergence()).toBeNull();
});

it('the pause between tries grows to 122 s and no further', () => {
  const world = run(fail('RegisterPlugin error -- dial failed'));
  world.list([SOCKET, '1']);
  world.advance(127_500);
  expect(world.askedFor('plugins.getInfo')).toBe(9);
  world.advance(122_000);
  expect(world.askedFor('plugins.getInfo')).toBe(10);
  world.advance(122_000);
  expect(world.askedFor('plugins.getInfo')).toBe(11);
  expect(world.logged()).toContain('RegisterPlugin error -- dial failed');
});

it.each([
  ['an error', fail('rpc error: code = Internal desc = no'), 'rpc error: code = Internal desc = no'],
  [
    'no name for the node',
    ok({ nodeID: '', maxVolumes: '0', topologyKeys: [] }),
    'error adding CSI driver node info: driverNodeID must not be empty',
  ],
])('a driver with %s of its own gets this error, and is called again until it registers', (_what, nodeInfo, reason) => {
  let answers = 0;
  const nodeInfos = () => (++answers < 3 ? nodeInfo : ok({ nodeID: 'n', maxVolumes: '7', topologyKeys: ['zone'] }));
  const world = run(ok(info()), { 'plugins.csiNodeGetInfo': nodeInfos });
  world.list([SOCKET, '1']);
  const error = `RegisterPlugin error -- plugin registration failed with err: ${reason}`;
  const refused = { socket: SOCKET, registered: false, error };
  expect(world.statuses).toEqual([refused]);
  world.advance(500);
  expect(world.statuses).toEqual([refused, refused]);
  world.advance(1_000);
  world.written();
  expect(world.statuses).toEqual([refused, refused, { socket: SOCKET, registered: true, error: '' }]);
  expect(world.toCluster()).toEqual([gone, gone, registered]);
  world.advance(600_000);
  expect(world.askedFor('plugins.getInfo')).toBe(3);
  expect(world.divergence()).toBeNull();
});

it('on an earlier node such a driver is notified once and must recreate its socket', () => {
  const world = run(ok(info()), { 'plugins.csiNodeGetInfo': fail('no') }, true, BEFORE_RETRIES);
  world.list([SOCKET, '1']);
  world.advance(600_000);
  expect(world.statuses).toHaveLength(1);
  world.list([SOCKET, '2']);
  expect(world.askedFor('plugins.getInfo')).toBe(2);
});

it('of two drivers of one name and version the first is taken; the other when the first is gone', () => {
  const world = run(ok(info()));
  world.list(['/registry/a.sock', '1'], ['/registry/b.sock', '2']);
  world.written();
  expect(world.statuses).toMatchObject([
    {
      socket: '/registry/b.sock',
      registered: false,
      error: expect.stringContaining('Another driver with the same name is already registered'),
    },
    { socket: '/registry/a.sock', registered: true },
  ]);
  world.list(['/registry/b.sock', '2']);
  world.advance(500);
  world.written();
  expect(world.statuses.at(-1)).toMatchObject({ socket: '/registry/b.sock', registered: true });
  expect(world.toCluster()).toEqual([registered, gone, registered]);
});

it('a newer driver keeps its entry when the older one of its name is gone', () => {
  const newer = '/registry/newer.sock';
  const world = run(ok(null), {
    'plugins.getInfo': ({ socket }: { socket: string }) => ok(info(socket === newer ? { versions: ['1.1.0'] } : {})),
  });
  world.list([SOCKET, '1']);
  world.list([SOCKET, '1'], [newer, '2']);
  world.list([newer, '2']);
  expect(world.toCluster()).toEqual([registered, registered]);
  world.list();
  expect(world.toCluster()).toEqual([registered, registered, gone]);
  expect(world.divergence()).toBeNull();
});

it('a driver that cannot be notified is not registered, and is registered again later', () => {
  let notices = 0;
  const notify = () => (++notices === 1 ? fail('away') : ok(null));
  const world = run(ok(info()), { 'plugins.notifyRegistrationStatus': notify });
  world.list([SOCKET, '1']);
  world.written();
  expect(world.toCluster()).toEqual([registered, gone]);
  const failure = `failed to send registration status at socket ${SOCKET}, err: away`;
  expect(world.logged()).toContain(`RegisterPlugin error -- ${failure}`);
  world.advance(500);
  world.written();
  expect(world.toCluster()).toEqual([registered, gone, registered]);
  expect(notices).toBe(2);
  expect(world.divergence()).toBeNull();
});

it.each([
  ['device plugin', gpu, 'deviceManager', ['devices.registered', 'devices.withdrawn', 'devices.registered']],
  ['resource driver', dra(), 'draManager', ['dra.registered', 'dra.withdrawn', 'dra.registered']],
])('a %s that cannot be notified is unregistered, and registered again', (_what, plugin, part, messages) => {
  let notices = 0;
  const notify = () => (++notices === 1 ? fail('away') : ok(null));
  const options = ok({ preStart: false, prefers: false });
  const world = run(ok(plugin), { 'plugins.notifyRegistrationStatus': notify, 'devices.getOptions': options });
  world.list([SOCKET, '1']);
  world.advance(500);
  const sent = world.sent().filter(({ to }) => to === `parent/${part}`);
  expect(sent.map(({ type }) => type)).toEqual(messages);
});

it('on an earlier node a plugin that cannot be notified is registered nevertheless', () => {
  const world = run(ok(info()), { 'plugins.notifyRegistrationStatus': fail('away') }, true, BEFORE_RETRIES);
  world.list([SOCKET, '1']);
  world.written();
  expect(world.toCluster()).toEqual([registered]);
  expect(world.logged()).toContain('Failed to tell a plugin whether it is registered');
});

const UPDATING = 'error updating CSINode object with CSI driver node info';

it('a driver that cannot be published to the cluster is not registered, and gets the reason', () => {
  const world = run(ok(info()));
  world.list([SOCKET, '1']);
  world.send({ type: 'csi.driversUnwritten', names: ['csi.example.test'], error: `${UPDATING}: no` });
  world.advance(0);
  const error = `RegisterPlugin error -- plugin registration failed with err: ${UPDATING}: no`;
  expect(world.statuses).toEqual([{ socket: SOCKET, registered: false, error }]);
  expect(world.toCluster()).toEqual([registered, gone]);
  expect(world.divergence()).toBeNull();
});

it('a driver waits a minute for the cluster, not for ever', () => {
  const world = run(ok(info()));
  world.list([SOCKET, '1']);
  world.advance(59_999);
  expect(world.statuses).toEqual([]);
  world.advance(1);
  const error = `RegisterPlugin error -- plugin registration failed with err: ${UPDATING}: timed out waiting for the condition`;
  expect(world.statuses).toEqual([{ socket: SOCKET, registered: false, error }]);
});

it('a watch that breaks begins again and registers nothing twice', () => {
  let watches = 0;
  const world = run(ok(info()), { 'plugins.watch': () => (++watches === 1 ? fail('EIO') : 'stream') });
  world.advance(5_000);
  world.list([SOCKET, '1']);
  expect(watches).toBe(2);
  expect(world.toCluster()).toEqual([registered]);
});

it.each([
  [['1.0.0'], '1.0.0'],
  [['0.3.0', 'v1.2', '1.10.0', '2.0.0'], '1.10.0'],
  [['0.3.0'], 'highest supported version reported by driver is 0.3.0, must be v1.x'],
  [
    ['x', '2.0.0'],
    'could not find a highest supported version from versions ([x 2.0.0]) reported by this driver: could not parse "x" as version',
  ],
  [
    ['1'],
    'could not find a highest supported version from versions ([1]) reported by this driver: illegal version string "1"',
  ],
])('of the versions %j: %s', (versions, expected) => {
  const found = highestSupported(versions);
  expect(typeof found === 'string' ? found : found.join('.')).toBe(expected);
});

const prefix = (name: string, endpoint = '/plugins/csi.sock') =>
  `RegisterPlugin error -- plugin validation failed with err: validation failed for CSI Driver ${name} at endpoint ` +
  `${endpoint}: kubernetes.io/csi: ValidatePlugin for CSI driver "${name}" failed.`;

it.each([
  [info({ versions: [] }), `${prefix('csi.example.test')} Plugin returned an empty list for supported versions`],
  [
    info({ versions: ['0.1.0', '0.2.0'] }),
    `${prefix('csi.example.test')} None of the versions specified ["0.1.0" "0.2.0"] are supported. ` +
      'err=highest supported version reported by driver is 0.2.0, must be v1.x',
  ],
  [
    info({ endpoint: 'csi.sock' }),
    `${prefix('csi.example.test', 'csi.sock')} Its endpoint must be the absolute path of a unix socket`,
  ],
])('%j is refused: %s', (plugin, error) => {
  expect(pluginVerdict(plugin, SOCKET, taken())).toEqual({ error });
});

it('a name that a CSINode would not take is refused before it keeps other drivers out', () => {
  expect(pluginVerdict(info({ name: 'Not_A_Name' }), SOCKET, taken())).toMatchObject({
    error: expect.stringContaining('a lowercase RFC 1123 subdomain'),
  });
  expect(pluginVerdict(info({ name: 'a'.repeat(64) }), SOCKET, taken())).toMatchObject({
    error: expect.stringContaining('must be no more than 63 bytes'),
  });
  expect(pluginVerdict(info({ name: 'constructor' }), SOCKET, taken())).toEqual({ version: '1.0.0' });
});

it('a newer version takes the name of an older one', () => {
  expect(pluginVerdict(info({ versions: ['1.1.0'] }), SOCKET, taken({ 'csi.example.test': '1.0.0' }))).toEqual({
    version: '1.1.0',
  });
});

it('a registered driver is asked again how many volumes fit, as often as the cluster wants it', () => {
  const world = run(ok(info()), { 'plugins.followNodeInfo': 'stream' });
  const order = (periodMs: number) => {
    world.send({ type: 'csi.limitsFollowed', name: 'csi.example.test', periodMs });
    world.advance(0);
  };
  const answer = (maxVolumes: string) => {
    const reported = { nodeID: 'n', maxVolumes, topologyKeys: ['zone'] };
    world.hear('plugins.followNodeInfo', { type: 'plugin.nodeInfo', info: reported, error: '' });
  };
  world.list([SOCKET, '1']);
  order(10_000);
  expect(world.askedFor('plugins.followNodeInfo')).toBe(0);
  world.written();
  expect(world.inputs('plugins.followNodeInfo')).toEqual([{ endpoint: '/plugins/csi.sock', periodMs: 10_000 }]);
  answer('8');
  expect(world.toCluster().slice(1)).toEqual([{ ...registered, driver: { ...registered.driver, count: 8 } }]);
  order(60_000);
  expect(world.inputs('plugins.followNodeInfo')).toHaveLength(2);
  order(0);
  world.send({ type: 'csi.limitReached', name: 'csi.example.test' });
  world.advance(600_000);
  expect(world.askedFor('plugins.followNodeInfo')).toBe(2);
  expect(world.askedFor('plugins.csiNodeGetInfo')).toBe(1);
  expect(world.divergence()).toBeNull();
});

it('a driver with less room than it reported is called at once; an invalid answer changes nothing', () => {
  const answers = [
    ok({ nodeID: 'n', maxVolumes: '7', topologyKeys: [] }),
    ok({ nodeID: 'n', maxVolumes: '3', topologyKeys: [] }),
  ];
  const world = run(ok(info()), {
    'plugins.followNodeInfo': 'stream',
    'plugins.csiNodeGetInfo': () => answers.shift() ?? fail('rpc error: code = Internal desc = no metadata'),
  });
  world.list([SOCKET, '1']);
  world.written();
  world.send({ type: 'csi.limitsFollowed', name: 'csi.example.test', periodMs: 10_000 });
  const full = () => {
    world.send({ type: 'csi.limitReached', name: 'csi.example.test' });
    world.advance(0);
  };
  full();
  expect(world.toCluster().at(-1)).toMatchObject({ type: 'csi.driverRegistered', driver: { count: 3 } });
  const sent = world.toCluster().length;
  full();
  world.hear('plugins.followNodeInfo', { type: 'plugin.nodeInfo', info: null, error: 'gone' });
  expect(world.toCluster()).toHaveLength(sent);
  expect(world.logged().filter((line) => line === 'Failed to update CSIDriver')).toHaveLength(2);
  expect(world.divergence()).toBeNull();
});

it('a driver that registers again, and one that csiVolumes has forgotten, are called as before', () => {
  const world = run(ok(info()), { 'plugins.followNodeInfo': 'stream' });
  world.list([SOCKET, '1']);
  world.written();
  world.send({ type: 'csi.limitsFollowed', name: 'csi.example.test', periodMs: 10_000 });
  world.advance(0);
  world.list([SOCKET, '2']);
  world.written();
  expect(world.inputs('plugins.followNodeInfo')).toHaveLength(2);
  world.send({ type: 'csi.driversWanted' });
  world.advance(0);
  expect(world.inputs('plugins.followNodeInfo')).toHaveLength(2);
  expect(world.records().filter(({ k }) => k === 'cancel')).toHaveLength(2);
  expect(world.divergence()).toBeNull();
});
