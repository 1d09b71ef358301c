/** `sharing` alone: each volume has a period of its own, and a failed read is no change. */
import { expect, it } from 'vitest';
import { sharingMachine } from '../../../../src/machines/charts/volumes/sharing.ts';
import type { Sharing } from '../../../../src/machines/model/operations/volume.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';

const ref = { kind: 'Pod', namespace: 'default', name: 'a', uid: 'u1' } as const;

function boot() {
  const world: { sharings: readonly Sharing[] | null } = { sharings: [] };
  const answers = { 'volume.sharings': () => (world.sharings === null ? fail('EIO') : ok(world.sharings)) };
  const input = { ref, directory: '/k/pods/u1' };
  const node = runUnder(sharingMachine, input, answers, ['eventRecorder']);
  const reported = () =>
    node.records().flatMap((record) => {
      if (record.k !== 'message' || record.to !== 'parent/eventRecorder' || !('message' in record.event)) return [];
      return [String(record.event['message']).replace(/^Setting volume ownership for |consider.*/g, '')];
    });
  return { world, reported, advance: (ms: number) => node.time.advanceTo(node.time.now() + ms) };
}

it('each volume has its own minute, and its path begins with the pod', () => {
  const { world, reported, advance } = boot();
  const a = { path: '/k/pods/u1/volumes/x/a', files: 1, forMs: 31_000 };
  const b = { path: '/elsewhere/b', files: 2, forMs: 31_000 };
  world.sharings = [a];
  advance(10_000);
  expect(reported()).toEqual(['u1/volumes/x/a is taking longer than expected, ']);
  world.sharings = [a, b];
  advance(50_000);
  expect(reported().slice(1)).toEqual(['/elsewhere/b is taking longer than expected, ']);
  advance(10_000);
  expect(reported().slice(2)).toEqual(['u1/volumes/x/a, processed 1 files.']);
  advance(10_000);
  expect(reported().slice(3)).toEqual(['/elsewhere/b, processed 2 files.']);
});

it('a look that fails is no news, and the next one goes on', () => {
  const { world, reported, advance } = boot();
  world.sharings = null;
  advance(60_000);
  expect(reported()).toEqual([]);
  world.sharings = [{ path: '/k/pods/u1/v', files: 1, forMs: 99_000 }];
  advance(10_000);
  expect(reported()).toHaveLength(1);
});
