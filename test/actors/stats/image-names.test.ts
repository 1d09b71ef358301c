import { expect, it } from 'vitest';
import { ImageNames } from '../../../src/actors/stats/image-names.ts';
import type { Inventory, RunningContainer, RuntimeCall } from '../../../src/actors/stats/inventory.ts';

const container = (id: string, ...imageIds: string[]): RunningContainer => ({
  id,
  imageIds,
  name: id,
  createdAtMs: 1,
  stats: null,
});

const running = (sandboxId: string, ...containers: RunningContainer[]): Inventory => ({
  pods: [{ uid: 'u', name: 'p', namespace: 'ns', sandboxId, createdAtMs: 1, containers }],
  imageFs: null,
  containerFs: null,
});

const IMAGES = [
  { id: 'sha256:1', repo_tags: ['web:1', 'web:2'], repo_digests: ['web@sha256:9'] },
  { id: 'sha256:2', repo_tags: [], repo_digests: ['db@sha256:8'] },
];

/** A runtime that fails while `isDown`. */
function runtime(info: Record<string, string> = { info: '{"image":"pause:3","runtimeSpec":{}}' }) {
  const state = { isDown: false, asked: [] as string[] };
  const call = (async (name: string) => {
    state.asked.push(name);
    if (state.isDown) throw new Error('the runtime is down');
    return name === 'ListImages' ? { images: IMAGES } : { info };
  }) as unknown as RuntimeCall;
  return { state, call };
}

it('an image has the name of its first tag, else of its first digest; that of a sandbox is in its description', async () => {
  const names = new ImageNames(runtime().call);
  const pods = running('s', container('a', 'sha256:1'), container('b', 'db', 'sha256:2'), container('c', 'sha256:7'));
  expect([...(await names.of(pods))]).toEqual([
    ['a', 'web:1'],
    ['b', 'db@sha256:8'],
    ['s', 'pause:3'],
  ]);
});

it('the runtime is asked once for each container and sandbox, and again after a failure', async () => {
  const { state, call } = runtime();
  const names = new ImageNames(call);
  state.isDown = true;
  expect([...(await names.of(running('s', container('a', 'sha256:1'))))]).toEqual([]);
  state.isDown = false;
  await names.of(running('s', container('a', 'sha256:1')));
  state.asked.length = 0;
  expect([...(await names.of(running('s', container('a', 'sha256:1'))))]).toHaveLength(2);
  expect(state.asked).toEqual([]);
  expect([...(await names.of(running('t')))].map(([id]) => id)).toEqual(['t']);
  expect(state.asked).toEqual(['PodSandboxStatus']);
});

it.each([
  ['nothing', {}],
  ['no JSON', { info: '{' }],
  ['no text', { info: '{"image":7}' }],
  ['null', { info: 'null' }],
])('a description of a sandbox that has %s gives no name, and is not asked for again', async (_what, info) => {
  const { state, call } = runtime(info);
  const names = new ImageNames(call);
  expect((await names.of(running('s'))).get('s')).toBe('');
  await names.of(running('s'));
  expect(state.asked).toEqual(['PodSandboxStatus']);
});
