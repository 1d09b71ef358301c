/** The watch over a pod's storage: it reports exceeded limits, and watches again after a failed measurement. */
import { expect, it } from 'vitest';
import { storageWatchMachine } from '../../../../../src/machines/charts/node/eviction/storage-watch.ts';
import { fail, runUnder } from '../../../../support/answering-world.ts';

const input = {
  place: {
    nodeName: 'n',
    rootDir: '/root',
    podLogsDir: '/logs',
    podsCgroup: '/kubepods',
    systemCgroups: { kubelet: '', runtime: '', misc: '' },
  },
  pod: { uid: 'u', name: 'p', namespace: 'ns' },
  limits: { emptyDirs: { d: '1Mi' }, pod: null, containers: {} },
  countLayers: true,
};
const exceeded = { kind: 'emptyDir', name: 'd' };

it('tells what is exceeded, and nothing when it no longer is', () => {
  const run = runUnder(storageWatchMachine, input, { 'stats.watchStorage': 'stream' });
  run.emit('stats.watchStorage', { type: 'storage.changed', exceeded });
  run.emit('stats.watchStorage', { type: 'storage.changed', exceeded: null });
  expect(run.sent()).toEqual([{ to: 'parent', type: 'storage.exceeded', uid: 'u', exceeded }]);
  expect(run.divergence()).toBeNull();
});

it('watches again after measuring failed', () => {
  let asked = 0;
  const answer = () => (asked++ === 0 ? fail('the runtime is away') : 'stream');
  const run = runUnder(storageWatchMachine, input, { 'stats.watchStorage': answer });
  expect(run.logged()).toEqual(['Cannot measure what a pod keeps on disk']);
  run.time.advanceTo(run.time.now() + 10_000);
  expect(asked).toBe(2);
});
