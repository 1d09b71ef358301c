/** The service manager's watchdog: when it is enabled, how often it is notified, and when not any more. */
import { describe, expect, it } from 'vitest';
import { watchdogInterval, watchdogMachine } from '../../../../src/machines/startup/host/watchdog.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';
import { type Answers, ARGV, BootNode, RUNTIME_NOT_READY, RUNTIME_READY } from '../boot-node.ts';

const OWN = 42;
const settings = (usec: string, pid = '') => ({ usec, pid, ownPid: OWN });

describe('the settings', () => {
  it.each<[string, string, number]>([
    ['', '', 0],
    ['', 'what', 0],
    ['30000000', '', 15_000],
    ['30000000', '42', 15_000],
    ['30000000', '43', 0],
    ['1000001', '', 500.0005],
    ['1', '43', 0],
  ])('WATCHDOG_USEC=%j WATCHDOG_PID=%j: each %d ms', (usec, pid, ms) => {
    expect(watchdogInterval(settings(usec, pid))).toEqual({ ok: true, value: ms });
  });

  it.each<[string, string, string]>([
    ['soon', '', ': error converting WATCHDOG_USEC: strconv.Atoi: parsing "soon": invalid syntax'],
    ['0', '', ': error WATCHDOG_USEC must be a positive number'],
    ['-5', '', ': error WATCHDOG_USEC must be a positive number'],
    ['1000000', 'me', ': error converting WATCHDOG_PID: strconv.Atoi: parsing "me": invalid syntax'],
    ['1000000', '', ' timeout too small: 1s'],
    ['1500', '42', ' timeout too small: 1.5ms'],
  ])('WATCHDOG_USEC=%j WATCHDOG_PID=%j are refused', (usec, pid, message) => {
    expect(watchdogInterval(settings(usec, pid))).toEqual({ ok: false, message: `configure watchdog${message}` });
  });
});

const run = (answer: ReturnType<typeof ok>, syncFrequencyMs = 60_000) =>
  runUnder(watchdogMachine, { syncFrequencyMs }, { 'host.watchdogSettings': answer, 'host.feedWatchdog': 'stream' });

describe('the machine', () => {
  it('feeds at half of the time that is given, and says so', () => {
    const started = run(ok(settings('30000000')));
    expect(started.sent()).toEqual([expect.objectContaining({ type: 'watchdog.ready' })]);
    expect(started.logged()).toEqual(['Starting systemd watchdog with interval']);
    expect(started.asked()).toEqual(['host.watchdogSettings', 'host.feedWatchdog']);
    expect(started.divergence()).toBeNull();
  });

  it('does nothing where it is not wanted', () => {
    const started = run(ok(settings('')));
    expect(started.sent()).toEqual([expect.objectContaining({ type: 'watchdog.ready' })]);
    expect(started.logged()).toEqual(['Systemd watchdog is not enabled']);
    expect(started.asked()).toEqual(['host.watchdogSettings']);
  });

  it('stops feeding when pods were not synchronised for five minutes, and goes on when they are', () => {
    const started = run(ok(settings('30000000')));
    started.send({ type: 'sync.halted' });
    started.time.advanceTo(started.time.now() + 299_000);
    expect(started.state()).toEqual({ feeding: { trusted: 'halted' } });
    started.time.advanceTo(started.time.now() + 1_000);
    expect(started.state()).toEqual({ feeding: 'doubted' });
    expect(() => started.emit('host.feedWatchdog', { type: 'watchdog.heard' }), 'nobody feeds').toThrow();
    expect(started.logged()).toContain(
      'Do not notify watchdog this iteration as the kubelet is reportedly not healthy',
    );
    started.send({ type: 'sync.going' });
    expect(started.state()).toEqual({ feeding: { trusted: 'going' } });
    expect(started.asked().filter((name) => name === 'host.feedWatchdog')).toHaveLength(2);
    expect(started.divergence()).toBeNull();
  });

  it('waits longer where pods are looked after less often', () => {
    const started = run(ok(settings('30000000')), 200_000);
    started.send({ type: 'sync.halted' });
    started.time.advanceTo(started.time.now() + 399_000);
    expect(started.state()).toEqual({ feeding: { trusted: 'halted' } });
    started.time.advanceTo(started.time.now() + 1_000);
    expect(started.state()).toEqual({ feeding: 'doubted' });
  });

  it('forgives a short halt', () => {
    const started = run(ok(settings('30000000')));
    started.send({ type: 'sync.halted' });
    started.time.advanceTo(started.time.now() + 200_000);
    started.send({ type: 'sync.going' });
    started.time.advanceTo(started.time.now() + 200_000);
    expect(started.state()).toEqual({ feeding: { trusted: 'going' } });
  });

  it('reports that no service manager receives it', () => {
    const started = run(ok(settings('30000000')));
    started.emit('host.feedWatchdog', { type: 'watchdog.unheard', message: 'connection refused' });
    started.emit('host.feedWatchdog', { type: 'watchdog.heard' });
    expect(started.logged().slice(1)).toEqual([
      'Failed to notify watchdog',
      'The service manager hears the watchdog again',
    ]);
  });
});

describe('a node', () => {
  const answers = (usec: string): Answers => ({ 'host.watchdogSettings': ok(settings(usec)) });

  it('does not start with settings that it cannot understand', () => {
    const node = new BootNode({ answers: answers('soon') }).boot().run(2_000);
    expect(node.ended).toMatchObject({
      exitCode: 1,
      failure: {
        phase: 'run.watchdog',
        message:
          'failed to run Kubelet: create health checker: configure watchdog: error converting WATCHDOG_USEC: ' +
          'strconv.Atoi: parsing "soon": invalid syntax',
      },
    });
  });

  it('does not start when they cannot be read at all', () => {
    const node = new BootNode({ answers: { 'host.watchdogSettings': fail('no environment') } }).boot().run(2_000);
    expect(node.ended).toMatchObject({
      failure: { message: 'failed to run Kubelet: create health checker: no environment' },
    });
  });

  it('feeds while pods are synchronised, and not when the runtime was away for five minutes', () => {
    const node = new BootNode({ argv: ARGV, answers: answers('30000000') }).boot().run(5_000);
    expect(node.effects('host.feedWatchdog').map(({ input }) => input)).toEqual([{ intervalMs: 15_000, tries: 2 }]);
    node.world.emit('runtime.watchStatus', RUNTIME_NOT_READY);
    node.run(301_000);
    expect(node.state('kubelet/watchdog')).toEqual({ feeding: 'doubted' });
    node.world.emit('runtime.watchStatus', RUNTIME_READY);
    node.run(1_000);
    expect(node.state('kubelet/watchdog')).toEqual({ feeding: { trusted: 'going' } });
    expect(node.replay().divergence).toBeNull();
  });
});
