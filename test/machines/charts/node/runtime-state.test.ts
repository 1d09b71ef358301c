/** Proves T1 and T2 of the runtime state, and H1 of healthz. */
import { describe, expect, it } from 'vitest';
import { healthzMachine } from '../../../../src/machines/charts/node/healthz.ts';
import { runtimeStateMachine } from '../../../../src/machines/charts/node/runtime-state.ts';
import { fail, runUnder } from '../../../support/answering-world.ts';

const condition = (type: string, status: boolean) => ({ type, status, reason: 'R', message: 'm' });
const status = (runtime: boolean, network: boolean) => ({
  type: 'runtime.statusChanged',
  conditions: [condition('RuntimeReady', runtime), condition('NetworkReady', network)],
  handlers: [],
  features: null,
});

describe('the runtime state', () => {
  it('is down before the first status', () => {
    const run = runUnder(runtimeStateMachine, undefined, {}, ['runtimeService', 'pleg']);
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
    const run = runUnder(runtimeStateMachine, undefined, {}, ['runtimeService', 'pleg']);
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
    const run = runUnder(runtimeStateMachine, undefined, {}, ['pods']);
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
    const run = runUnder(runtimeStateMachine, undefined, {}, ['runtimeService', 'pleg', 'nodeStatus', 'allocation']);
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
    const run = runUnder(runtimeStateMachine, undefined, {});
    run.send(status(true, true));
    run.send({ type: 'pleg.unhealthy', message: 'PLEG is not healthy: pleg was last seen active 3m1s ago' });
    expect(run.state()).toBe('down');
    run.send({ type: 'pleg.healthy' });
    expect(run.state()).toBe('up');
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
