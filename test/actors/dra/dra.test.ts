/** Calls to resource drivers, and the streams that follow them, over real sockets. */
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { draPorts } from '../../../src/actors/dra/index.ts';
import type { DraCall, DraItem, DraService } from '../../../src/machines/model/operations/dra.ts';
import { type DraDriverOptions, startDraDriver } from '../../fakes/dra-driver.ts';
import { openStream, perform, temporaryFolder } from '../../support/host-ports.ts';

const NAME = 'gpu.example.test';
const ports = draPorts();
/** The first frame of an HTTP/2 server. */
const EMPTY_SETTINGS = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);

async function driver(options: Partial<DraDriverOptions> = {}) {
  const endpoint = join(await temporaryFolder(), 'dra.sock');
  const started = await startDraDriver({ endpoint, ...options });
  onTestFinished(() => started.close());
  const service: DraService = options.service === 'v1beta1' ? 'v1beta1.DRAPlugin' : 'v1.DRAPlugin';
  const call = (...names: readonly string[]): DraCall => ({
    driver: NAME,
    endpoint,
    service,
    claims: names.map((name) => ({ namespace: 'default', uid: `uid-${name}`, name })),
  });
  const follow = () => openStream(ports['dra.follow'], { driver: NAME, endpoint, service });
  return { started, call, follow, endpoint, service };
}

describe.each(['v1', 'v1beta1'] as const)('a driver of %s', (service) => {
  it('prepares claims and takes them back', async () => {
    const { started, call } = await driver({ service });
    const device = { pool: 'node1', share: null, requests: ['gpu'] };
    expect(await perform(ports['dra.prepare'], { calls: [call('a', 'b')] })).toEqual({
      prepared: [
        {
          driver: NAME,
          claims: {
            'uid-a': [{ ...device, device: 'a-device', cdi: [`${NAME}/gpu=a`] }],
            'uid-b': [{ ...device, device: 'b-device', cdi: [`${NAME}/gpu=b`] }],
          },
        },
      ],
    });
    expect(await perform(ports['dra.unprepare'], { calls: [call('a')] })).toBeNull();
    expect(started.calls).toEqual(['prepare default/a', 'prepare default/b', 'unprepare default/a']);
  });
});

it('a share of a device has its name', async () => {
  const { started, call } = await driver();
  started.answer = () => ({ devices: [{ pool_name: 'p', device_name: 'd', share_id: 'half' }] });
  const { prepared } = await perform(ports['dra.prepare'], { calls: [call('a')] });
  expect(prepared[0]?.claims['uid-a']).toEqual([{ pool: 'p', device: 'd', share: 'half', requests: [], cdi: [] }]);
});

describe('a driver that does not do it', () => {
  const refused = async (calls: readonly DraCall[], verb: 'dra.prepare' | 'dra.unprepare' = 'dra.prepare') =>
    await perform(ports[verb], { calls }).then(
      () => '',
      (error: Error) => error.message,
    );

  it('says why', async () => {
    const { started, call } = await driver();
    started.answer = () => ({ error: 'no power' });
    expect(await refused([call('a')])).toBe('NodePrepareResources failed for ResourceClaim a: no power');
    expect(await refused([call('a')], 'dra.unprepare')).toBe(
      'NodeUnprepareResources failed for ResourceClaim a: no power',
    );
  });

  it('skips one of them', async () => {
    const { started, call } = await driver();
    started.answer = (_, { name }) => (name === 'a' ? {} : undefined);
    expect(await refused([call('a', 'b', 'c')])).toBe('NodePrepareResources skipped 2 ResourceClaims');
  });

  it('is not there', async () => {
    const { started, call, endpoint } = await driver();
    started.close();
    expect(await refused([call('a')])).toBe(
      'NodePrepareResources: rpc error: code = Unavailable desc = connection error: desc = ' +
        `"transport: Error while dialing: dial unix ${endpoint}: connect: no such file or directory"`,
    );
  });

  it('of several the first ends it: the others are not asked', async () => {
    const [first, second] = [await driver(), await driver()];
    first.started.answer = () => ({ error: 'no power' });
    await refused([first.call('a'), second.call('a')]);
    expect(second.started.calls).toEqual([]);
  });

  it('is closed when its caller does not wait any more', async () => {
    const { started, call } = await driver();
    started.hangs = true;
    const abort = new AbortController();
    const request = { id: 1, input: { calls: [call('a')] }, resume: false, signal: abort.signal, emit: () => {} };
    const asked = ports['dra.prepare'](request);
    setTimeout(() => abort.abort(), 100);
    await expect(asked).rejects.toThrow('NodePrepareResources: rpc error: code = Canceled');
  });
});

describe('what is followed', () => {
  const healthOf = (items: readonly DraItem[]) => items.filter(({ type }) => type === 'dra.healthChanged');
  const report = (name: string, health: string, more: object = {}) => ({
    device: { pool_name: 'p', device_name: name },
    health,
    ...more,
  });

  it('a driver that listens, ends, and listens again', async () => {
    const { started, follow, endpoint } = await driver();
    const stream = follow();
    await stream.until((item) => item.type === 'dra.connected' && item.isConnected);
    started.close();
    await stream.until((item) => item.type === 'dra.connected' && !item.isConnected && stream.items.length > 1);
    const again = await startDraDriver({ endpoint });
    onTestFinished(() => again.close());
    await stream.until((item) => item.type === 'dra.connected' && item.isConnected && stream.items.length > 3);
  });

  it('devices as they are reported, when that changed', async () => {
    const { started, follow } = await driver({ hasHealth: true });
    const stream = follow();
    started.report([report('a', 'HEALTHY'), report('b', 'UNHEALTHY', { message: 'too hot' }), report('c', 'UNKNOWN')]);
    const first = await stream.until((item) => item.type === 'dra.healthChanged');
    const known = { 'p/a': { health: 'Healthy', message: '' }, 'p/b': { health: 'Unhealthy', message: 'too hot' } };
    expect(first).toEqual({ type: 'dra.healthChanged', devices: known });
    started.report([report('a', 'HEALTHY')]);
    started.report([report('a', 'UNHEALTHY')]);
    await stream.until((item) => item.type === 'dra.healthChanged' && item.devices['p/a']?.health === 'Unhealthy');
    expect(healthOf(stream.items)).toHaveLength(2);
  });

  it('what a driver says about a device, even if it does not know its health, and longer than a status has it', async () => {
    const { started, follow } = await driver({ hasHealth: true });
    const stream = follow();
    const long = 'x'.repeat(2_000);
    started.report([report('a', 'UNKNOWN', { message: 'resetting' }), report('b', 'UNHEALTHY', { message: long })]);
    const first = await stream.until((item) => item.type === 'dra.healthChanged');
    const known = {
      'p/a': { health: 'Unknown', message: 'resetting' },
      'p/b': { health: 'Unhealthy', message: 'x'.repeat(1_025) },
    };
    expect(first).toEqual({ type: 'dra.healthChanged', devices: known });
  });

  it('a device that is not reported again in its time is unknown', async () => {
    const { started, follow } = await driver({ hasHealth: true });
    const stream = follow();
    started.report([report('a', 'HEALTHY', { health_check_timeout_seconds: '1' }), report('b', 'HEALTHY')]);
    await stream.until((item) => item.type === 'dra.healthChanged');
    const later = await stream.until((item) => item.type === 'dra.healthChanged' && !('p/a' in item.devices));
    expect(later).toMatchObject({ devices: { 'p/b': { health: 'Healthy' } } });
  });

  it('a driver without reports is no failure', async () => {
    const { follow } = await driver();
    const stream = follow();
    await stream.until((item) => item.type === 'dra.connected' && item.isConnected);
    expect(healthOf(stream.items)).toEqual([]);
  });

  it('more devices than a turn can take end the stream of reports, and nothing of them is known', async () => {
    const { started, follow } = await driver({ hasHealth: true });
    const stream = follow();
    await stream.until((item) => item.type === 'dra.connected' && item.isConnected);
    started.report([report('a', 'HEALTHY')]);
    await stream.until((item) => item.type === 'dra.healthChanged');
    started.report(Array.from({ length: 8_193 }, (_, at) => report(`${at}`, 'HEALTHY')));
    await stream.until((item) => item.type === 'dra.healthChanged' && Object.keys(item.devices).length === 0);
    expect(healthOf(stream.items)).toHaveLength(2);
  });
});

it('a driver that hangs up on every call is called a few times a second', async () => {
  const endpoint = join(await temporaryFolder(), 'dra.sock');
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    socket.on('error', () => {}).once('data', () => socket.end(EMPTY_SETTINGS));
  });
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(endpoint, resolve));
  openStream(ports['dra.follow'], { driver: NAME, endpoint, service: 'v1.DRAPlugin' });
  await sleep(3_000);
  expect(connections).toBeGreaterThan(0);
  expect(connections).toBeLessThan(20);
});
