/** Proves R1 to R3 of the runtime service. */
import { describe, expect, it } from 'vitest';
import { runtimeServiceMachine } from '../../../src/machines/startup/runtime-service.ts';
import { type Answers, fail, ok, runUnder } from '../../support/answering-world.ts';

const input = (endpointNamed: boolean) => ({
  endpoint: 'unix:///run/containerd/containerd.sock',
  imageEndpoint: '',
  endpointNamed,
  requestTimeoutMs: 120_000,
  rootDir: '/var/lib/kubelet',
});
const version = ok({ runtimeName: 'containerd', runtimeVersion: '1.6.20', runtimeApiVersion: 'v1' });
const world: Answers = {
  'runtime.exists': ok({ exists: true }),
  'runtime.startEmbedded': ok({ endpoint: 'unix:///e.sock' }),
  'runtime.connect': version,
  'runtime.watchStatus': 'stream',
  'cri.runtimeConfig': ok({ cgroupDriver: 'systemd' }),
  'cri.status': ok({
    conditions: [],
    handlers: [{ name: '', features: { user_namespaces: true, recursive_read_only_mounts: false } }],
    features: null,
  }),
};
const start = (named: boolean, answers: Answers = {}) =>
  runUnder(runtimeServiceMachine, input(named), { ...world, ...answers }, ['runtimeState']);

describe('the runtime service', () => {
  it('uses a named endpoint without looking for it, and takes the cgroup driver from the runtime', () => {
    const run = start(true);
    expect(run.asked()).toEqual(['runtime.connect', 'cri.runtimeConfig', 'cri.status', 'runtime.watchStatus']);
    expect(run.sent()).toMatchObject([
      { type: 'runtimeService.ready', runtime: { name: 'containerd', cgroupDriver: 'systemd', embedded: false } },
    ]);
    expect(run.divergence()).toBeNull();
  });

  it('embeds a runtime only when none was named and no socket exists', () => {
    const run = start(false, { 'runtime.exists': ok({ exists: false }) });
    expect(run.sent()).toMatchObject([{ runtime: { embedded: true, endpoint: 'unix:///e.sock' } }]);
    expect(run.logged()[0]).toContain('without isolation');
    expect(start(false).asked()).not.toContain('runtime.startEmbedded');
  });

  it('fails with the text of the connection if the runtime does not answer', () => {
    const run = start(true, { 'runtime.connect': fail('validate service connection: refused') });
    expect(run.sent()).toEqual([
      { to: 'parent', type: 'runtimeService.failed', message: 'validate service connection: refused' },
    ]);
  });

  it('asks three times for the cgroup driver, two seconds apart, and fails with what the runtime said last', () => {
    const message = 'rpc error: code = Unavailable desc = starting';
    const run = start(true, { 'cri.runtimeConfig': fail(message, 'UNAVAILABLE') });
    run.time.advanceTo(run.time.now() + 3_900);
    expect(run.sent()).toEqual([]);
    run.time.advanceTo(run.time.now() + 100);
    expect(run.asked().filter((name) => name === 'cri.runtimeConfig')).toHaveLength(3);
    expect(run.sent()).toEqual([{ to: 'parent', type: 'runtimeService.failed', message }]);
    expect(run.divergence()).toBeNull();
  });

  it('goes on with the configured driver when the runtime does not name one', () => {
    const run = start(true, { 'cri.runtimeConfig': ok({ cgroupDriver: null }) });
    expect(run.sent()).toMatchObject([{ type: 'runtimeService.ready', runtime: { cgroupDriver: null } }]);
  });

  it('tells the runtime state of each change and stays when the runtime goes away', () => {
    const run = start(true);
    run.emit('runtime.watchStatus', { type: 'runtime.statusFailed', message: 'connection refused' });
    expect(run.sent().at(-1)).toEqual({
      to: 'parent/runtimeState',
      type: 'runtime.statusFailed',
      message: 'connection refused',
    });
    expect(run.state()).toEqual({ connected: 'watching' });
  });

  it('watches again after its watch broke, and tells a runtime state that starts again', () => {
    let watches = 0;
    const broken: Answers = { 'runtime.watchStatus': () => (watches++ === 0 ? fail('socket closed') : 'stream') };
    const run = start(true, broken);
    expect(run.state()).toEqual({ connected: 'pausing' });
    run.time.advanceTo(run.time.now() + 5_000);
    run.send({ type: 'runtime.statusWanted' });
    expect(watches).toBe(3);
    expect(run.divergence()).toBeNull();
  });
});
