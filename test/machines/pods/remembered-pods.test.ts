import { expect, test } from 'vitest';
import { rememberedPodsMachine } from '../../../src/machines/pods/remembered-pods.ts';
import { late, ok, runUnder } from '../../support/answering-world.ts';

const REMEMBERED = { pod: { metadata: { uid: 'u1', resourceVersion: '5' } }, objects: [] };

test('a pod that is forgotten and remembered again, in one version, keeps its file', () => {
  const files: boolean[] = [];
  const world = runUnder(
    rememberedPodsMachine,
    { nodeName: 'n', rememberedPodsDir: '/pods' },
    {
      'host.savePod': ({ remembered }: { remembered: unknown }) => {
        files.push(remembered !== null);
        return late(100, ok(null));
      },
    },
  );
  const pass = (ms: number) => world.time.advanceTo(world.time.now() + ms);
  world.tell({ type: 'pod.remembered', uid: 'u1', remembered: REMEMBERED });
  pass(1_000);
  world.tell({ type: 'pod.remembered', uid: 'u1', remembered: REMEMBERED });
  pass(1_000);
  expect(files, 'nothing changed').toEqual([true]);
  world.tell({ type: 'pod.forgotten', uid: 'u1' });
  world.tell({ type: 'pod.remembered', uid: 'u1', remembered: REMEMBERED });
  pass(1_000);
  expect(files.at(-1)).toBe(true);
  expect(files).toHaveLength(3);
  expect(world.divergence()).toBeNull();
});
