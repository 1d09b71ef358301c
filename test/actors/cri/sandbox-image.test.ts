import { expect, it } from 'vitest';
import { SandboxImage, sandboxImageIn } from '../../../src/actors/cri/adapter.ts';
import type { RuntimeClient } from '../../../src/actors/cri/client.ts';
import type { Image } from '../../../src/machines/model/api/cri.ts';

const image = (name: string): Image => ({
  id: `sha256:${name}`,
  repo_tags: [name],
  repo_digests: [],
  size: '1',
  username: '',
  pinned: false,
});
const LIMITS = { timeoutMs: 60_000 };
const runtime = (answer: () => Promise<unknown>) => {
  let asked = 0;
  const call = async () => {
    asked += 1;
    return await answer();
  };
  return { sandbox: new SandboxImage({ call } as unknown as RuntimeClient), asked: () => asked };
};

it('the image of sandboxes is pinned, whatever the runtime says of it, and the runtime is asked once', async () => {
  const info = { config: JSON.stringify({ sandboxImage: 'pause:1' }) };
  const { sandbox, asked } = runtime(async () => ({ info }));
  const images = [image('pause:1'), image('app:1')];
  for (let time = 0; time < 2; time += 1) {
    const pinned = (await sandbox.pinnedIn(images, LIMITS)).filter((each) => each.pinned);
    expect(pinned.map(({ id }) => id)).toEqual(['sha256:pause:1']);
  }
  expect(asked()).toBe(1);
});

it('a runtime that does not tell leaves the images as they are, and one that failed is asked again', async () => {
  const silent = runtime(async () => ({ info: {} }));
  expect(await silent.sandbox.pinnedIn([image('a')], LIMITS)).toEqual([image('a')]);
  const failing = runtime(() => Promise.reject(new Error('away')));
  expect(await failing.sandbox.pinnedIn([image('a')], LIMITS)).toEqual([image('a')]);
  await failing.sandbox.pinnedIn([image('a')], LIMITS);
  expect(failing.asked()).toBe(2);
});

it.each([[{}], [{ config: 'no json' }], [{ config: '{"sandboxImage":7}' }], [{ config: 'null' }]])(
  'nothing is read out of %j',
  (info) => {
    expect(sandboxImageIn(info)).toBe('');
  },
);
