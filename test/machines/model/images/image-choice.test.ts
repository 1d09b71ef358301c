/** The images that the garbage collection removes. */
import { describe, expect, it } from 'vitest';
import type { Image } from '../../../../src/machines/model/api/cri.ts';
import { bytesToFree, imagesToRemove } from '../../../../src/machines/model/images/image-choice.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { image } from '../../../support/pods-node.ts';

describe('the choice of images', () => {
  const policy = { highThresholdPercent: 85, lowThresholdPercent: 80, minAgeMs: 120_000, maxAgeMs: 0 };
  const of = (id: string, more: Partial<Image> = {}): Image => ({ ...image(id), id, size: '100', ...more });
  const known = {
    behavior: NEWEST_BEHAVIOR,
    usedAtMs: {},
    firstUsedAtMs: {},
    inUse: {},
    policy,
    startedAtMs: 0,
    unusedSinceMs: 0,
    toFreeBytes: 150,
  };

  it('frees from the high threshold on, down to the low one', () => {
    expect(bytesToFree(1_000, 151, policy)).toBe(49);
    expect(bytesToFree(1_000, 160, policy)).toBe(0);
    expect(bytesToFree(1_000, 0, policy)).toBe(200);
  });

  it('takes the least recently used first, never pinned ones, ones in use, or young ones', () => {
    const images = [
      of('new'),
      of('old'),
      of('pinned', { pinned: true }),
      of('used', { repo_digests: ['d'] }),
      of('young'),
    ];
    const facts = {
      ...known,
      usedAtMs: { new: 990_000, old: 100, young: 990_000 },
      firstUsedAtMs: { young: 990_000 },
      inUse: { u: ['d'] },
      toFreeBytes: 1_000,
    };
    expect(imagesToRemove(facts, images, 1_000_000).map(({ id }) => id)).toEqual(['old', 'new']);
    expect(imagesToRemove({ ...facts, toFreeBytes: 50 }, images, 1_000_000).map(({ id }) => id)).toEqual([
      'old',
      'new',
    ]);
    const exact = { ...facts, behavior: 0, toFreeBytes: 50 };
    expect(imagesToRemove(exact, images, 1_000_000).map(({ id }) => id)).toEqual(['old']);
    expect(imagesToRemove({ ...facts, toFreeBytes: 0 }, images, 1_000_000)).toEqual([]);
    const before = { ...facts, firstUsedAtMs: null };
    expect(imagesToRemove(before, images, 1_000_000).map(({ id }) => id)).toEqual(['old']);
  });

  it('with a maximum age takes the too old ones, once the agent is old enough to know', () => {
    const facts = {
      ...known,
      policy: { ...policy, maxAgeMs: 1_000 },
      toFreeBytes: 0,
      usedAtMs: { a: 8_900, b: 9_500 },
    };
    expect(imagesToRemove(facts, [of('a'), of('b')], 10_000).map(({ id }) => id)).toEqual(['a']);
    expect(imagesToRemove({ ...facts, startedAtMs: 9_500 }, [of('a')], 10_000)).toEqual([]);
  });
});
