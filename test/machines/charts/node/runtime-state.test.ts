/** Proves T1 and T2 of the runtime state, and H1 of healthz. */
import { describe, expect, it } from 'vitest';
import { healthzMachine } from '../../../../src/machines/charts/node/healthz.ts';
import type { NodeReports } from '../../../../src/machines/charts/node/object/facts.ts';
import { runtimeStateMachine } from '../../../../src/machines/charts/node/runtime-state.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { fail, runUnder } from '../../../support/answering-world.ts';

const input = { behavior: NEWEST_BEHAVIOR };
const condition = (type: string, status: boolean) => ({ type, status, reason: 'R', message: 'm' });
const status = (runtime: boolean, network: boolean, handlers: readonly { name: string }[] = []) => ({
  type: 'runtime.statusChanged',
  conditions: [condition('RuntimeReady', runtime), condition('NetworkReady', network)],
  handlers,
  features: null,
});
const FAILED = { type: 'runtime.statusFailed', message: 'connection refused' };
const NOT_READY = 'container runtime not ready: RuntimeReady=false reason:R message:m';

/** A node whose Node object gets the state of the runtime; `last` has the last reports. */
function published() {
  const run = runUnder(runtimeStateMachine, input, {}, ['runtimeService', 'pleg', 'nodeStatus', 'allocation']);
  run.send({ type: 'runtimeState.wanted' });
  const last = () => {
    const reports = run.sent().filter(({ to, type }) => to === 'parent/nodeStatus' && type === 'node.reported');
    return (reports.at(-1) as unknown as { reports: Partial<NodeReports> }).reports;
  };
  return { run, last };
}

describe('the runtime state', () => {
  it('is down before the first status', () => {
    const run = runUnder(runtimeStateMachine, input, {}, ['runtimeService', 'pleg']);
    expect(run.sent()).toEqual([
      { to: 'parent/runtimeService', type: 'runtime.statusWanted' },
      { to: 'parent/pleg', type: 'pleg.healthWanted' },
      {
        to: 'parent',
        type: 'runtimeState.down',
        errors: ['container runtime status check may not have completed yet'],
      },
    ]);
  });

  it('is up without a network, down without a runtime, and says why', () => {
    const run = runUnder(runtimeStateMachine, input, {}, ['runtimeService', 'pleg']);
    run.send(status(true, false));
    run.send(status(false, true));
    expect(
      run
        .sent()
        .filter(({ type }) => type.startsWith('runtimeState.'))
        .slice(1),
    ).toMatchObject([
      { type: 'runtimeState.up' },
      {
        type: 'runtimeState.down',
        errors: ['container runtime not ready: RuntimeReady=false reason:R message:m'],
      },
    ]);
    expect(run.divergence()).toBeNull();
  });

  it('tells pods each change of the network, and what it is when they ask', () => {
    const run = runUnder(runtimeStateMachine, input, {}, ['pods']);
    for (const network of [false, false, true, true]) run.send(status(true, network));
    run.send({ type: 'network.wanted' });
    const error = 'container runtime network not ready: NetworkReady=false reason:R message:m';
    expect(run.sent().filter(({ to }) => to === 'parent/pods')).toEqual([
      { to: 'parent/pods', type: 'network.changed', error },
      { to: 'parent/pods', type: 'network.changed', error: '' },
      { to: 'parent/pods', type: 'network.changed', error: '' },
    ]);
  });

  it('has the version of the runtime for the Node, as long as it knows it', () => {
    const run = runUnder(runtimeStateMachine, input, {}, ['runtimeService', 'pleg', 'nodeStatus', 'allocation']);
    run.send({ type: 'runtimeState.wanted' });
    run.send({ ...status(true, true), version: '2.1.0' });
    run.send(status(true, false));
    const reports = run
      .sent()
      .flatMap(({ to, ...event }) =>
        to === 'parent/nodeStatus'
          ? [(event as { reports?: { runtimeVersion?: string } }).reports?.runtimeVersion]
          : [],
      );
    expect(reports).toEqual([undefined, '2.1.0', '2.1.0']);
    expect(run.divergence()).toBeNull();
  });

  it('is down while PLEG is not healthy', () => {
    const run = runUnder(runtimeStateMachine, input, {});
    run.send(status(true, true));
    run.send({ type: 'pleg.unhealthy', message: 'PLEG is not healthy: pleg was last seen active 3m1s ago' });
    expect(run.state()).toBe('down');
    run.send({ type: 'pleg.healthy' });
    expect(run.state()).toBe('up');
  });

  it('is down for pods when it fails once, but for the Node only after thirty seconds', () => {
    const { run, last } = published();
    run.send(status(true, true));
    run.send(FAILED);
    expect([run.state(), last().runtimeErrors]).toEqual(['down', []]);
    run.time.advanceTo(run.time.now() + 20_000);
    run.send({ ...FAILED, message: 'deadline exceeded' });
    run.time.advanceTo(run.time.now() + 9_999);
    expect(last().runtimeErrors).toEqual([]);
    run.time.advanceTo(run.time.now() + 1);
    expect(last().runtimeErrors).toEqual(['container runtime is down']);
    run.send(status(true, true));
    expect([run.state(), last().runtimeErrors]).toEqual(['up', []]);
    expect(run.divergence()).toBeNull();
  });

  it('that hung is down for the Node thirty seconds after its last answer, not after the failure', () => {
    const { run, last } = published();
    run.send(status(true, true));
    run.send({ ...FAILED, silentMs: 30_000 });
    run.time.advanceTo(run.time.now() + 1);
    expect(last().runtimeErrors).toEqual(['container runtime is down']);
    run.send(status(true, true));
    run.send({ ...FAILED, silentMs: 5_000 });
    run.time.advanceTo(run.time.now() + 24_999);
    expect(last().runtimeErrors).toEqual([]);
    run.time.advanceTo(run.time.now() + 1);
    expect(last().runtimeErrors).toEqual(['container runtime is down']);
    expect(run.divergence()).toBeNull();
  });

  it('is not down for the Node when it only restarts', () => {
    const { run, last } = published();
    run.send(status(true, true));
    run.send(FAILED);
    run.time.advanceTo(run.time.now() + 10_000);
    run.send(status(true, true));
    run.time.advanceTo(run.time.now() + 60_000);
    expect(last().runtimeErrors).toEqual([]);
  });

  it('that says it is not ready is so for the Node at once, after PLEG, and keeps its handlers', () => {
    const { run, last } = published();
    run.send(status(true, true, [{ name: 'runc' }]));
    run.send(status(false, true));
    expect(last()).toMatchObject({ runtimeErrors: [NOT_READY], runtimeHandlers: [{ name: 'runc' }] });
    run.send({ type: 'pleg.unhealthy', message: 'PLEG is not healthy: pleg was last seen active 3m1s ago' });
    run.time.advanceTo(run.time.now() + 30_000);
    const pleg = 'PLEG is not healthy: pleg was last seen active 3m1s ago';
    expect(last().runtimeErrors).toEqual(['container runtime is down', pleg, NOT_READY]);
  });

  it('that was never ready has not completed its check', () => {
    const { run, last } = published();
    run.send(status(false, true));
    run.time.advanceTo(run.time.now() + 60_000);
    const unknown = 'container runtime status check may not have completed yet';
    expect(last().runtimeErrors).toEqual([unknown, NOT_READY]);
  });
});

describe('healthz', () => {
  it('tries a port that is taken again every five seconds and never ends the node', () => {
    const run = runUnder(
      healthzMachine,
      { address: '127.0.0.1', port: 10248 },
      { 'server.healthz': fail('EADDRINUSE') },
    );
    run.time.advanceTo(run.time.now() + 10_000);
    expect(run.asked()).toHaveLength(3);
  });

  it('says where it serves', () => {
    const run = runUnder(healthzMachine, { address: '127.0.0.1', port: 0 }, { 'server.healthz': 'stream' });
    run.emit('server.healthz', { type: 'healthz.listening', address: '127.0.0.1', port: 4711 });
    expect(run.sent()).toEqual([{ to: 'parent', type: 'healthz.serving', address: '127.0.0.1', port: 4711 }]);
  });
});
