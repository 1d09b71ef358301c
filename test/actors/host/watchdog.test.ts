/** The watchdog's ports, with a real datagram socket like that of the service manager. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemCalls } from '../../../src/actors/host/kernel/syscall.ts';
import { notifyPort, watchdogPorts } from '../../../src/actors/host/notify.ts';
import { datagramReceiver } from '../../support/host-datagram.ts';
import { OpenStream, perform, temporaryFolder } from '../../support/host-ports.ts';

const INTERVAL_MS = 100;
/** Longer than every wait of a test here. */
const NEVER_MS = 600_000;

const portsFor = (environment: Record<string, string>) =>
  watchdogPorts(environment, notifyPort(environment, systemCalls()));

type Item = { type: 'watchdog.heard' } | { type: 'watchdog.unheard'; message: string };

function feed(address: string, intervalMs = INTERVAL_MS) {
  const ports = portsFor({ NOTIFY_SOCKET: address });
  return new OpenStream<Item>((signal, emit) =>
    ports['host.feedWatchdog']({
      id: 1,
      input: { intervalMs, tries: 2 },
      resume: false,
      signal,
      emit,
    }),
  );
}

describe('the settings', () => {
  it('are those of the environment', async () => {
    const environment = { WATCHDOG_USEC: '3000000', WATCHDOG_PID: '17' };
    const settings = await perform(portsFor(environment)['host.watchdogSettings'], {});
    expect(settings).toEqual({ usec: '3000000', pid: '17', ownPid: process.pid });
    expect(await perform(portsFor({})['host.watchdogSettings'], {})).toMatchObject({ usec: '', pid: '' });
  });
});

describe('the feeding', () => {
  it('says WATCHDOG=1 at once and each interval', async () => {
    const address = join(await temporaryFolder(), 'notify');
    const receiver = datagramReceiver(address);
    const rare = feed(address, NEVER_MS);
    expect(await receiver.next(), 'at once').toBe('WATCHDOG=1');
    await rare.close();
    const before = performance.now();
    const stream = feed(address);
    for (let i = 0; i < 4; i++) expect(await receiver.next()).toBe('WATCHDOG=1');
    expect(performance.now() - before).toBeGreaterThan(2.5 * INTERVAL_MS);
    expect(stream.items, 'what repeats is no news').toEqual([]);
  });

  it('ends with the interest of the machine', async () => {
    const address = join(await temporaryFolder(), 'notify');
    const receiver = datagramReceiver(address);
    const stream = feed(address);
    await receiver.next();
    await stream.close();
    await expect(receiver.next(3 * INTERVAL_MS)).rejects.toThrow('nothing was sent');
  });

  it('reports once that no service manager receives it, retries, and reports once that one does again', async () => {
    const address = join(await temporaryFolder(), 'notify');
    const stream = feed(address);
    const unheard = await stream.until(({ type }) => type === 'watchdog.unheard');
    expect(unheard).toMatchObject({ message: expect.stringContaining('no such file') });
    const receiver = datagramReceiver(address);
    await stream.until(({ type }) => type === 'watchdog.heard');
    expect(await receiver.next()).toBe('WATCHDOG=1');
    expect(stream.items.map(({ type }) => type)).toEqual(['watchdog.unheard', 'watchdog.heard']);
    rmSync(address);
  });
});
