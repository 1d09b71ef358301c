import { describe, expect, it } from 'vitest';
import { escaped, parseMounts } from '../../../../src/actors/host/kernel/mounts.ts';

describe('the table of mounts', () => {
  it.each(['/a', '/with space', '/tab\there', '/line\nhere', '/back\\slash', '/not\\040a space'])(
    'has %j as the kernel writes it',
    (path) => {
      const [mount] = parseMounts(`1 1 0:1 / ${escaped(path)} rw shared:1 - tmpfs none rw,size=1k`);

      expect(mount).toEqual({ source: 'none', point: path, type: 'tmpfs', options: ['rw', 'size=1k'], isShared: true });
    },
  );
});
