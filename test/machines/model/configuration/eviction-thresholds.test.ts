/** Tables for eviction settings: the resulting thresholds, omitted ones, and upstream's texts of errors. */
import { describe, expect, it } from 'vitest';
import { parseEvictionThresholds } from '../../../../src/machines/model/configuration/eviction-thresholds.ts';

const none = { evictionHard: {}, evictionSoft: {}, evictionSoftGracePeriod: {}, evictionMinimumReclaim: {} };

describe('eviction thresholds', () => {
  it('are hard or soft, in the order of their signals, with a minimum to reclaim', () => {
    const parsed = parseEvictionThresholds({
      evictionHard: { 'nodefs.available': '10%', 'memory.available': '100Mi' },
      evictionSoft: { 'memory.available': '1Gi' },
      evictionSoftGracePeriod: { 'memory.available': '1m30s' },
      evictionMinimumReclaim: { 'nodefs.available': '5%' },
    });
    const memory = { signal: 'memory.available', minReclaim: null };
    expect(parsed).toEqual({
      value: [
        { ...memory, value: { quantity: '100Mi' }, gracePeriod: '0s', isHard: true },
        {
          signal: 'nodefs.available',
          value: { share: 0.1 },
          gracePeriod: '0s',
          isHard: true,
          minReclaim: { share: 0.05 },
        },
        { ...memory, value: { quantity: '1Gi' }, gracePeriod: '1m30s', isHard: false },
      ],
    });
  });

  it('of 0% and 100% are none', () => {
    const evictionHard = { 'memory.available': '0%', 'nodefs.available': '100%' };
    expect(parseEvictionThresholds({ ...none, evictionHard })).toEqual({ value: [] });
  });

  it.each([
    [{ evictionHard: { 'disk.available': '1Gi' } }, 'unsupported eviction signal disk.available'],
    [{ evictionHard: { 'memory.available': '0' } }, 'eviction threshold memory.available must be positive: 0'],
    [
      { evictionHard: { 'memory.available': '-1%' } },
      'eviction percentage threshold memory.available must be >= 0%: -1%',
    ],
    [
      { evictionHard: { 'memory.available': '101%' } },
      'eviction percentage threshold memory.available must be <= 100%: 101%',
    ],
    [{ evictionHard: { 'memory.available': '1e40%' } }, 'strconv.ParseFloat: parsing "1e40": value out of range'],
    [
      { evictionHard: { 'memory.available': '+Inf%' } },
      'eviction percentage threshold memory.available must be <= 100%: +Inf%',
    ],
    [{ evictionHard: { 'memory.available': '1__0%' } }, 'strconv.ParseFloat: parsing "1__0": invalid syntax'],
    [{ evictionHard: { 'memory.available': '0x1%' } }, 'strconv.ParseFloat: parsing "0x1": invalid syntax'],
    [
      { evictionHard: { 'memory.available': '-1.234' } },
      'eviction threshold memory.available must be positive: -1.234',
    ],
    [{ evictionHard: { 'memory.available': 'x%' } }, 'strconv.ParseFloat: parsing "x": invalid syntax'],
    [
      { evictionSoft: { 'memory.available': '1Gi' } },
      'grace period must be specified for the soft eviction threshold memory.available',
    ],
    [
      { evictionSoftGracePeriod: { 'memory.available': '-1s' } },
      'invalid eviction grace period specified: -1s, must be a positive value',
    ],
    [
      { evictionMinimumReclaim: { 'memory.available': '-1' } },
      'negative eviction minimum reclaim specified for memory.available',
    ],
    [
      { evictionMinimumReclaim: { 'memory.available': '0%' } },
      'eviction percentage minimum reclaim memory.available must be positive: 0%',
    ],
  ])('%j is refused', (settings, error) => {
    expect(parseEvictionThresholds({ ...none, ...settings })).toEqual({ error });
  });
});
