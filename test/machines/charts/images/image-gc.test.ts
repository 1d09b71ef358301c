/** The reports of the image collection about images that cannot be removed. */
import { expect, it } from 'vitest';
import { imageGcMachine } from '../../../../src/machines/charts/images/image-gc.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { type Answers, fail, late, ok, runUnder } from '../../../support/answering-world.ts';
import { nodeBefore } from '../pods/support.ts';

const image = (id: string) => ({ id, repo_tags: [], repo_digests: [], size: '1000', pinned: false });
const input = {
  behavior: NEWEST_BEHAVIOR,
  nodeName: 'node-1',
  rootDir: '/r',
  imagePullVerification: null,
  imageGc: { highThresholdPercent: 85, lowThresholdPercent: 80, minAgeMs: 0, maxAgeMs: 0 },
};
const ROUND_MS = 300_000;

it('logs the first failed round, and records an event with all reasons of the second', () => {
  const answers: Answers = {
    'cri.imageFsInfo': ok({ mountpoint: '/i' }),
    'host.fileSystem': ok({ capacityBytes: '1000000', availableBytes: '100000' }),
    'cri.listImages': ok({ images: [image('a'), image('b')] }),
    'cri.removeImage': ({ image: id }: { image: string }) => fail(`cannot remove ${id}`),
  };
  const run = runUnder(imageGcMachine, input, answers, ['pods', 'eviction', 'eventRecorder']);
  const events = () => run.sent().filter((records) => JSON.stringify(records).includes('event.recorded')).length;
  run.time.advanceTo(run.time.now() + ROUND_MS + 1);
  expect(run.logged()).toEqual([
    'Failed to remove image',
    'Failed to remove image',
    'Image garbage collection failed once. Stats initialization may not have completed yet',
  ]);
  expect(events()).toBe(0);
  run.time.advanceTo(run.time.now() + ROUND_MS + 1);
  expect(run.logged().at(-1)).toBe('Image garbage collection failed multiple times in a row');
  expect(events()).toBe(1);
  const records = JSON.stringify(run.records());
  expect(records).toContain(
    'wanted to free 100000 bytes, but freed 0 bytes space with errors in image deletion: ' +
      '[cannot remove a, cannot remove b]',
  );
  expect(run.divergence()).toBeNull();
});

it('removes the next images in place of one that cannot be removed, and no more than it needs', () => {
  const asked: string[] = [];
  const answers: Answers = {
    'cri.imageFsInfo': ok({ mountpoint: '/i' }),
    'host.fileSystem': ok({ capacityBytes: '10000', availableBytes: '500' }),
    'cri.listImages': ok({ images: [image('a'), image('b'), image('c')] }),
    'cri.removeImage': ({ image: id }: { image: string }) => {
      asked.push(id);
      return id === 'a' ? fail('in use elsewhere') : ok(null);
    },
  };
  const policy = { ...input.imageGc, lowThresholdPercent: 85 };
  const run = runUnder(imageGcMachine, { ...input, imageGc: policy }, answers, ['pods', 'eviction', 'eventRecorder']);
  run.time.advanceTo(run.time.now() + ROUND_MS + 1);
  expect(asked).toEqual(['a', 'b']);
  expect(JSON.stringify(run.records())).toContain(
    'wanted to free 1000 bytes, but freed 1000 bytes space with errors in image deletion: in use elsewhere',
  );
  expect(run.divergence()).toBeNull();
});

it.each([
  [
    'ends the round',
    NEWEST_BEHAVIOR,
    ['a'],
    'wanted to free images older than 1h0m0s, encountered errors in image deletion: no',
  ],
  [
    'did not before',
    nodeBefore('managersAsKubelet'),
    ['a', 'b'],
    'wanted to free 1000 bytes, but freed 1000 bytes space with errors in image deletion: no',
  ],
])('an image that is too old and cannot be removed %s', (_, behavior, removed, message) => {
  const asked: string[] = [];
  const images = [image('a')];
  const answers: Answers = {
    'cri.imageFsInfo': ok({ mountpoint: '/i' }),
    'host.fileSystem': ok({ capacityBytes: '10000', availableBytes: '1000' }),
    'cri.listImages': () => ok({ images: [...images] }),
    'cri.removeImage': ({ image: id }: { image: string }) => {
      asked.push(id);
      return id === 'a' ? fail('no') : ok(null);
    },
  };
  const imageGc = { ...input.imageGc, maxAgeMs: 3_600_000, minAgeMs: 1_000_000 };
  const run = runUnder(imageGcMachine, { ...input, behavior, imageGc }, answers, ['pods', 'eviction', 'eventRecorder']);
  run.time.advanceTo(run.time.now() + 2_700_000);
  images.push(image('b'));
  run.send({ type: 'image.used', id: 'b' });
  run.time.advanceTo(run.time.now() + 4 * ROUND_MS + 1);
  expect(new Set(asked)).toEqual(new Set(removed));
  expect(JSON.stringify(run.records())).toContain(message);
  expect(run.divergence()).toBeNull();
});

it('keeps the records of pulls that began after it requested the list of images', () => {
  const prunes: { untilMs: number }[] = [];
  const answers: Answers = {
    'cri.imageFsInfo': ok({ mountpoint: '/i' }),
    'host.fileSystem': ok({ capacityBytes: '1000000', availableBytes: '199500' }),
    'cri.listImages': late(1_500, ok({ images: [image('a')] })),
    'cri.removeImage': ok(null),
    'images.pruneRecords': (asked: { untilMs: number }) => {
      prunes.push(asked);
      return ok(null);
    },
  };
  const settings = { ...input, imagePullVerification: { policy: 'NeverVerify', allowlist: [] } };
  const policy = { ...input.imageGc, highThresholdPercent: 80 };
  const run = runUnder(imageGcMachine, { ...settings, imageGc: policy }, answers, ['pods', 'eviction']);
  run.time.advanceTo(run.time.now() + 250);
  const askedMs = run.time.now() + ROUND_MS - 250;
  run.time.advanceTo(askedMs + 2_000);
  expect(prunes).toEqual([expect.objectContaining({ keep: [], untilMs: Math.floor(askedMs / 1_000) * 1_000 })]);
});

it('removes no image that may be younger than the minimum age, and none while the agent is younger', () => {
  const removed: string[] = [];
  const answers: Answers = {
    'cri.listImages': ok({ images: [image('a')] }),
    'cri.removeImage': ({ image: id }: { image: string }) => {
      removed.push(id);
      return ok(null);
    },
  };
  const policy = { ...input.imageGc, minAgeMs: 120_000 };
  const run = runUnder(imageGcMachine, { ...input, imageGc: policy }, answers, ['pods', 'eviction']);
  const purgeAt = (ms: number) => {
    run.time.advanceTo(ms);
    run.send({ type: 'garbage.purge' });
    run.time.advanceTo(run.time.now() + 10);
  };
  const beganMs = run.time.now();
  purgeAt(beganMs + 60_000);
  expect(removed).toEqual([]);
  purgeAt(beganMs + 121_000);
  expect(removed).toEqual(['a']);
});
