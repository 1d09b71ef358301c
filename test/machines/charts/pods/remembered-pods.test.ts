import { expect, it } from 'vitest';
import { rememberedPodsMachine } from '../../../../src/machines/charts/pods/remembered-pods.ts';
import { fail, late, ok, runUnder } from '../../../support/answering-world.ts';

const REMEMBERED = { pod: { metadata: { uid: 'u1', resourceVersion: '5' } }, objects: [] };

it('a pod that is forgotten and remembered again, in one version, keeps its file', () => {
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
  world.send({ type: 'pod.remembered', uid: 'u1', remembered: REMEMBERED });
  pass(1_000);
  world.send({ type: 'pod.remembered', uid: 'u1', remembered: REMEMBERED });
  pass(1_000);
  expect(files, 'nothing changed').toEqual([true]);
  world.send({ type: 'pod.forgotten', uid: 'u1' });
  world.send({ type: 'pod.remembered', uid: 'u1', remembered: REMEMBERED });
  pass(1_000);
  expect(files.at(-1)).toBe(true);
  expect(files).toHaveLength(3);
  expect(world.divergence()).toBeNull();
});

it('a write is never left: what comes meanwhile waits for its end', () => {
  const calls: string[] = [];
  let under = 0;
  const world = runUnder(
    rememberedPodsMachine,
    { nodeName: 'n', rememberedPodsDir: '/pods' },
    {
      'host.savePod': ({ uid, remembered }: { uid: string; remembered: unknown }) => {
        calls.push(`${uid} ${remembered === null ? 'goes' : 'stays'}, ${under} under way`);
        under += 1;
        world.time.arm(world.time.now() + 100, () => (under -= 1));
        return late(100, ok(null));
      },
    },
  );
  const pass = (ms: number) => world.time.advanceTo(world.time.now() + ms);
  world.send({ type: 'pod.remembered', uid: 'u1', remembered: REMEMBERED });
  pass(1);
  world.send({ type: 'pod.remembered', uid: 'u2', remembered: REMEMBERED });
  world.send({ type: 'pod.forgotten', uid: 'u1' });
  pass(1_000);
  expect(calls).toEqual(['u1 stays, 0 under way', 'u2 stays, 0 under way', 'u1 goes, 0 under way']);
  expect(world.divergence()).toBeNull();
});

it('one that cannot be written is said, and is not written again', () => {
  const world = runUnder(
    rememberedPodsMachine,
    { nodeName: 'n', rememberedPodsDir: '/pods' },
    { 'host.savePod': fail('the disk is full', 'ENOSPC') },
  );
  world.send({ type: 'pod.remembered', uid: 'u1', remembered: REMEMBERED });
  world.time.advanceTo(world.time.now() + 1_000);
  world.send({ type: 'pod.remembered', uid: 'u1', remembered: REMEMBERED });
  expect(world.logged()).toEqual(['Cannot remember a pod for a start without the API server']);
  expect(world.asked()).toHaveLength(1);
});

it('one that cannot be removed is tried again, until it is gone or wanted again', () => {
  const world = runUnder(
    rememberedPodsMachine,
    { nodeName: 'n', rememberedPodsDir: '/pods' },
    { 'host.savePod': ({ remembered }: { remembered: unknown }) => (remembered ? ok(null) : fail('no', 'EROFS')) },
  );
  world.send({ type: 'pod.forgotten', uid: 'u1' });
  world.time.advanceTo(world.time.now() + 25_000);
  expect(world.asked()).toHaveLength(3);
  world.send({ type: 'pod.remembered', uid: 'u1', remembered: REMEMBERED });
  world.time.advanceTo(world.time.now() + 60_000);
  expect(world.asked()).toHaveLength(4);
  expect(new Set(world.logged())).toEqual(
    new Set(['Cannot forget a pod that was remembered for a start without the API server']),
  );
  expect(world.divergence()).toBeNull();
});
