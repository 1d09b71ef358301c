/** logind over a real bus, with systemd's own `systemd-inhibit`. */
import { closeSync, existsSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { logindPorts } from '../../../src/actors/logind/logind.ts';
import { openStream, perform, temporaryFolder } from '../../support/host-ports.ts';
import { FakeLogind } from '../../support/logind.ts';
import { requirement } from '../../support/require.ts';
import { BUS_KINDS, startBus } from '../../support/systemd.ts';

const missing = ['/usr/bin/systemd-inhibit', '/usr/bin/dbus-daemon'].find((path) => !existsSync(path));
const { skip } = requirement('logind', missing === undefined ? null : `there is no ${missing}`);

async function machine() {
  const folder = await temporaryFolder();
  const address = await startBus('dbus-daemon', folder);
  const logind = new FakeLogind(folder);
  await logind.serve(address);
  return { logind, folder, ports: logindPorts({ address, configuration: join(folder, 'logind.conf.d') }) };
}

describe.skipIf(skip)('logind', () => {
  it('tells how long it waits, and waits longer when it is told to', async () => {
    const { logind, folder, ports } = await machine();
    expect(await perform(ports['logind.inhibitDelay'], {})).toEqual({ delayMs: 5_000 });
    await perform(ports['logind.overrideInhibitDelay'], { seconds: 30 });
    const file = join(folder, 'logind.conf.d/99-kubelet.conf');
    expect(readFileSync(file, 'utf8')).toBe('# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=30\n');
    expect(statSync(file).mode & 0o777).toBe(0o644);
    expect(logind.reloads).toEqual([['systemd-logind.service', 'all', 1]]);
    expect(await perform(ports['logind.inhibitDelay'], {})).toEqual({ delayMs: 30_000 });
  });

  it('waits for a login manager that takes its time to read its configuration again', async () => {
    const { logind, ports } = await machine();
    logind.reloadMs = 150;
    await perform(ports['logind.overrideInhibitDelay'], { seconds: 30 });
    expect(await perform(ports['logind.inhibitDelay'], {})).toEqual({ delayMs: 30_000 });
  });

  it('delays a shutdown for exactly as long as the lock is wanted', async () => {
    const { logind, ports } = await machine();
    const lock = openStream(ports['logind.inhibitShutdown'], {});
    await lock.until(({ type }) => type === 'inhibit.held');
    expect(logind.locks).toHaveLength(1);
    expect(logind.locks[0]?.asked).toEqual([
      'shutdown',
      'kubelet',
      'Kubelet needs time to handle node shutdown',
      'delay',
    ]);
    expect(logind.locks[0]?.isHeld()).toBe(true);
    await lock.close();
    await expect.poll(() => logind.locks[0]?.isHeld()).toBe(false);
    expect(lock.items).toHaveLength(1);
  });

  it('says that the machine is about to shut down, and that it no longer is', async () => {
    const { logind, ports } = await machine();
    const watch = openStream(ports['logind.watchShutdown'], {});
    await vi.waitUntil(
      () => {
        logind.prepareForShutdown(true);
        return watch.items.length > 0;
      },
      { interval: 50, timeout: 60_000 },
    );
    logind.prepareForShutdown(false);
    await watch.until(({ active }) => !active);
    expect(watch.items[0]).toEqual({ type: 'shutdown.prepared', active: true });
  });

  it('that is not on the bus is refused by the name of the question', async () => {
    const folder = await temporaryFolder();
    const ports = logindPorts({ address: await startBus('dbus-daemon', folder) });
    await expect(perform(ports['logind.inhibitDelay'], {})).rejects.toThrow(
      /^failed reading InhibitDelayMaxUSec property from logind: The name org.freedesktop.login1 was not provided/,
    );
    const lock = openStream(ports['logind.inhibitShutdown'], {});
    await expect(lock.ended).rejects.toThrow(/^failed creating systemd inhibitor: Failed to inhibit/);
  });
});

it.each(BUS_KINDS)('a watch ends with the bus (%s)', async (kind) => {
  const folder = await temporaryFolder();
  const address = await startBus(kind, folder);
  const ports = logindPorts({ address: `${address.split(',')[0]}-gone` });
  const watch = openStream(ports['logind.watchShutdown'], {});
  await expect(watch.ended).rejects.toMatchObject({ code: 'UNAVAILABLE', retriable: true });
});

it('when the last shutdown began and ended is kept in upstream`s form', async () => {
  const path = join(await temporaryFolder(), 'graceful_node_shutdown_state');
  const ports = logindPorts();
  await perform(ports['logind.storeShutdown'], { path, startMs: 1_700_000_000_000, endMs: null });
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({
    startTime: '2023-11-14T22:13:20.000Z',
    endTime: '0001-01-01T00:00:00Z',
  });
});

it('the record of a shutdown is never half written', async () => {
  const folder = await temporaryFolder();
  const path = join(folder, 'graceful_node_shutdown_state');
  const ports = logindPorts();
  await perform(ports['logind.storeShutdown'], { path, startMs: 1_700_000_000_000, endMs: null });
  const first = openSync(path, 'r');
  await perform(ports['logind.storeShutdown'], { path, startMs: 1_700_000_000_000, endMs: 1_700_000_009_000 });
  expect(readFileSync(first, 'utf8')).toContain('0001-01-01T00:00:00Z');
  closeSync(first);
  expect(readFileSync(path, 'utf8')).toContain('2023-11-14T22:13:29.000Z');
  expect(readdirSync(folder)).toEqual(['graceful_node_shutdown_state']);
});
