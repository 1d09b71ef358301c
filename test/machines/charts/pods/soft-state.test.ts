import { describe, expect, it } from 'vitest';
import { softStateMachine } from '../../../../src/machines/charts/pods/soft-state.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import { late, ok, runUnder } from '../../../support/answering-world.ts';

const GRANT = { demand: {}, allocation: {} };

function softState() {
  const written: unknown[] = [];
  const world = runUnder(
    softStateMachine,
    { softStateFile: '/soft-state.json' },
    {
      'host.loadSoftState': ok({ containers: {}, probes: {} }),
      'host.saveSoftState': ({ state }: { state: { grants?: object } }) => {
        written.push(state.grants);
        return ok(null);
      },
    },
    ['pods', 'allocation'],
  );
  const allocated = (uid: string, held: object = {}) =>
    world.send({ type: 'softState.allocated', uid, grant: { ...GRANT, ...held } });
  const pass = (ms: number) => world.time.advanceTo(world.time.now() + ms);
  return { world, written, allocated, pass };
}

it('what is noted while the soft state is read is kept, beside what is read', () => {
  const noted = (restartCount: number) => ({ restartCount, backoffMs: 0, backoffUntilMs: 0 });
  const written: unknown[] = [];
  const world = runUnder(
    softStateMachine,
    { softStateFile: '/soft-state.json' },
    {
      'host.loadSoftState': late(100, ok({ containers: { 'u/a': noted(3), 'u/b': noted(1) }, probes: {} })),
      'host.saveSoftState': ({ state }: { state: { containers: object } }) => {
        written.push(state.containers);
        return ok(null);
      },
    },
    ['pods', 'allocation'],
  );
  world.send({ type: 'softState.noted', key: 'u/b', container: noted(2) });
  world.time.advanceTo(world.time.now() + 5_000);
  expect(written).toEqual([{ 'u/a': noted(3), 'u/b': noted(2) }]);
  expect(world.divergence()).toBeNull();
});

it('M1: starts of containers are written together, and go with their pod', () => {
  const written: unknown[] = [];
  const world = runUnder(
    softStateMachine,
    { softStateFile: '/soft-state.json' },
    {
      'host.loadSoftState': ok({ containers: {}, probes: {} }),
      'host.saveSoftState': ({ state }: { state: { begun: object } }) => {
        written.push(state.begun);
        return ok(null);
      },
    },
    ['pods', 'allocation'],
  );
  const pass = () => world.time.advanceTo(world.time.now() + 1_100);
  world.send({ type: 'softState.begun', key: 'u/a', restartCount: 0 });
  world.send({ type: 'softState.begun', key: 'v/b', restartCount: 4 });
  pass();
  world.send({ type: 'softState.forgotten', uid: 'u' });
  pass();
  expect(written).toEqual([{ 'u/a': 0, 'v/b': 4 }, { 'v/b': 4 }]);
});

describe('what pods were given', () => {
  it('is written after a moment, together', () => {
    const { written, allocated, pass } = softState();
    allocated('a');
    allocated('b');
    pass(900);
    expect(written).toEqual([]);
    pass(200);
    expect(written).toEqual([{ a: GRANT, b: GRANT }]);
  });

  it.each(['cpus', 'memory', 'devices'])('M5: is written at once when nobody else may have it: %s', (kind) => {
    const { world, written, allocated, pass } = softState();
    allocated('a');
    pass(100);
    allocated('b', { [kind]: {} });
    allocated('c', { [kind]: {} });
    pass(0);
    expect(written).toEqual([
      { a: GRANT, b: { ...GRANT, [kind]: {} } },
      { a: GRANT, b: { ...GRANT, [kind]: {} }, c: { ...GRANT, [kind]: {} } },
    ]);
    pass(5_000);
    expect(written).toHaveLength(2);
    expect(world.divergence()).toBeNull();
  });
});

it('says that a file of another kubelet cannot be read, and goes on without it', () => {
  const world = runUnder(
    softStateMachine,
    { softStateFile: '/soft-state.json', rootDir: '/root', makesPodCgroups: true, behavior: NEWEST_BEHAVIOR },
    { 'host.loadSoftState': ok({ containers: {}, probes: {}, unread: 'checkpoint is corrupted' }) },
    ['pods', 'allocation'],
  );
  expect(world.logged()).toEqual([
    'Cannot read what another kubelet allocated; its pods are admitted with what they request',
  ]);
  expect(world.records().find(({ k }) => k === 'effect')).toMatchObject({
    input: { path: '/soft-state.json', rootDir: '/root' },
  });
  expect(world.divergence()).toBeNull();
});

it('what was noted of a pod after it was forgotten goes when the pods of the node are known', () => {
  const { world, written, allocated, pass } = softState();
  for (const uid of ['here', 'gone']) allocated(uid);
  world.send({ type: 'softState.forgotten', uid: 'gone' });
  allocated('gone');
  pass(2_000);
  world.send({ type: 'pods.known', uids: ['here'] });
  pass(2_000);
  expect(written.at(-1)).toEqual({ here: GRANT });
  world.send({ type: 'pods.known', uids: ['here'] });
  pass(2_000);
  expect(written).toHaveLength(2);
  expect(world.divergence()).toBeNull();
});

it('back-offs that were noted after their pod was forgotten do not pile up', () => {
  const written: unknown[] = [];
  const world = runUnder(
    softStateMachine,
    { softStateFile: '/soft-state.json' },
    {
      'host.loadSoftState': ok({ containers: {}, probes: {} }),
      'host.saveSoftState': ({ state }: { state: { pulls?: object } }) => {
        written.push(Object.keys(state.pulls ?? {}));
        return ok(null);
      },
    },
    ['pods', 'allocation'],
  );
  for (const uid of ['a', 'b', 'c', 'd']) {
    world.send({ type: 'softState.forgotten', uid });
    const pull = { backoffMs: 10_000, untilMs: world.time.now() + 10_000, message: 'ErrImagePull: no' };
    world.send({ type: 'softState.pulled', key: `${uid}/a.io/x:1`, pull });
    world.time.advanceTo(world.time.now() + 6 * 60_000);
  }
  expect(written.at(-1)).toEqual(['c', 'd'].map((uid) => `${uid}/a.io/x:1`));
  expect(world.divergence()).toBeNull();
});
