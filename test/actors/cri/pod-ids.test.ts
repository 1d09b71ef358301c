/** The ids of a pod are requested once, and again only when they may have changed. */
import { expect, it, onTestFinished } from 'vitest';
import { connectRuntime } from '../../../src/actors/cri/client.ts';
import { type Ids, inspectPod, PodIds } from '../../../src/actors/cri/inspect.ts';
import { FakeRuntime, fakePod } from './fake-runtime.ts';

const ONE: Ids = { sandboxIds: ['s'], containerIds: ['c'] };
const listed = async (ids: Ids = ONE): Promise<PodIds> => {
  const podIds = new PodIds();
  await podIds.listing('a', () => Promise.resolve(ids));
  return podIds;
};

it('the second inspection of a pod makes no lists, and what is gone meanwhile is not asked for again', async () => {
  const fake = await FakeRuntime.start();
  const client = connectRuntime({ endpoint: fake.endpoint });
  onTestFinished(async () => {
    client.close();
    await fake.close();
  });
  fake.pods.set('a', fakePod('a'));
  const podIds = new PodIds();
  const inspect = () => inspectPod(client, 'a', { timeoutMs: 60_000, podIds, observedAtMs: 1 });
  const first = await inspect();
  expect(first.containers.map(({ id }) => id)).toEqual(['container-a']);
  expect(await inspect()).toEqual(first);
  expect([fake.count('ListPodSandbox'), fake.count('ListContainers'), fake.count('ContainerStatus')]).toEqual([
    1, 1, 2,
  ]);
  fake.pods.delete('a');
  expect((await inspect()).containers).toEqual([]);
  expect((await inspect()).sandboxes).toEqual([]);
  expect([fake.count('ListPodSandbox'), fake.count('ContainerStatus')]).toEqual([1, 3]);
});

it('what a call of our own makes is known with what was listed, once', async () => {
  const podIds = await listed({ sandboxIds: [], containerIds: [] });
  podIds.made('a', 'sandboxIds', 's');
  podIds.made('a', 'containerIds', 'c');
  podIds.made('a', 'containerIds', 'c');
  expect(podIds.of('a')).toEqual(ONE);
});

it('nothing is certain of a pod that was never listed, whatever was made', () => {
  const podIds = new PodIds();
  podIds.made('a', 'sandboxIds', 's');
  expect(podIds.of('a')).toBeUndefined();
});

it('a pod that a list of all did not have has nothing but what calls of our own make', () => {
  const podIds = new PodIds();
  podIds.made('early', 'sandboxIds', 'sandbox');
  podIds.retain(new Set(['early']));
  expect([podIds.of('a'), podIds.of('early')]).toEqual([{ sandboxIds: [], containerIds: [] }, undefined]);
  podIds.made('a', 'sandboxIds', 's');
  podIds.made('a', 'containerIds', 'c');
  expect(podIds.of('a')).toEqual(ONE);
  podIds.shown('b', ONE);
  expect(podIds.of('b')).toBeUndefined();
});

it('a doubt lasts until the pod is listed, or two lists of all do not have it', async () => {
  const podIds = new PodIds();
  podIds.retain(new Set());
  podIds.invalidate('a');
  podIds.invalidate('b');
  podIds.retain(new Set());
  expect([podIds.of('a'), podIds.of('b')]).toEqual([undefined, undefined]);
  await podIds.listing('a', () => Promise.resolve(ONE));
  expect(podIds.of('a')).toEqual(ONE);
  podIds.retain(new Set(['a']));
  expect(podIds.of('b')).toEqual({ sandboxIds: [], containerIds: [] });
});

it('a list during which something was made, or may have been, is not the whole truth', async () => {
  for (const happens of [
    (podIds: PodIds) => podIds.made('a', 'containerIds', 'new'),
    (podIds: PodIds) => podIds.invalidate('a'),
  ]) {
    const podIds = new PodIds();
    const list = Promise.withResolvers<Ids>();
    const listing = podIds.listing('a', () => list.promise);
    happens(podIds);
    list.resolve(ONE);
    expect(await listing).toEqual(ONE);
    expect(podIds.of('a')).toBeUndefined();
  }
});

it('a relist that shows an unknown id causes an inspection, one that shows known ids does not', async () => {
  const podIds = await listed();
  podIds.shown('a', { sandboxIds: ['s'], containerIds: [] });
  expect(podIds.of('a')).toEqual(ONE);
  podIds.shown('a', { sandboxIds: ['s'], containerIds: ['c', 'foreign'] });
  expect(podIds.of('a')).toBeUndefined();
});

it('of pods without anything nothing is kept after the next list of all, of others what was made', async () => {
  const podIds = await listed();
  await podIds.listing('b', () => Promise.resolve({ sandboxIds: [], containerIds: [] }));
  podIds.retain(new Set(['b']));
  expect(podIds.of('b')).toEqual({ sandboxIds: [], containerIds: [] });
  podIds.retain(new Set());
  expect([podIds.of('a'), podIds.of('b')]).toEqual([ONE, { sandboxIds: [], containerIds: [] }]);
});

it('a list that fails leaves everything in doubt', async () => {
  const podIds = new PodIds();
  await expect(podIds.listing('a', () => Promise.reject(new Error('no runtime')))).rejects.toThrow('no runtime');
  expect(podIds.of('a')).toBeUndefined();
});
