import { expect, it } from 'vitest';
import { localServerMachine } from '../../../../src/machines/charts/node/local-server.ts';
import { fail, runUnder } from '../../../support/answering-world.ts';

const input = { path: '/var/lib/kubelet/statelet.sock', service: 'api', settings: {} };

it('serves until it is stopped', () => {
  const world = runUnder(localServerMachine, input, { 'server.serveLocal': 'stream' });
  expect([world.asked(), world.state(), world.logged()]).toEqual([['server.serveLocal'], 'open', []]);
  expect(world.divergence()).toBeNull();
});

it('says why there is no socket, and tries again for ever', () => {
  const world = runUnder(localServerMachine, input, { 'server.serveLocal': fail('listen EACCES: permission denied') });
  world.time.advanceTo(world.time.now() + 61_000);
  expect(world.asked()).toHaveLength(3);
  expect(world.logged()[0]).toBe('Cannot serve a local socket, and tries again');
  expect(world.divergence()).toBeNull();
});
