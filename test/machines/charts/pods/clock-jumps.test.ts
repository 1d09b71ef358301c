/**
 * Fault 11: the clock of the machine is set by an hour. The runtime's timestamps follow it, and the agent's own time
 * does not. Back-offs keep their length, whichever of the two clocks has their beginning.
 */
import { afterEach, describe, expect, it } from 'vitest';
import { image, manifest, PodsNode } from '../../../support/pods-node.ts';

const HOUR_MS = 3_600_000;
const CRASH = { runsMs: 1_000, exitCode: 1 };

let node: PodsNode;
afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

function boot(): void {
  node = new PodsNode();
  node.world.runtime.images.set('app:1', image('app:1'));
  node.world.setManifests([manifest({ uid: 'u1' })]);
  node.world.runtime.programs.set('app', [CRASH]);
  node.boot();
}
const started = () => node.world.runtime.started;
const isBackingOff = () => node.status('u1')?.containerStatuses?.[0]?.state?.waiting?.reason === 'CrashLoopBackOff';

/** Seconds until the next start. */
function untilNextStart(): number {
  const [before, begin] = [started().length, node.time.ms];
  node.until('the next start', () => started().length > before, 2 * HOUR_MS);
  return Math.round((node.time.ms - begin) / 1_000);
}

/** In whole seconds: one second of difference is allowed. */
function waits(...seconds: readonly number[]): void {
  for (const each of seconds) expect(Math.abs(untilNextStart() - each), `a wait of ${each} s`).toBeLessThanOrEqual(1);
}

describe.each([
  ['an hour ahead', HOUR_MS],
  ['an hour back', -HOUR_MS],
  ['a second back, as a leap does', -1_000],
])('a clock that is set %s', (_, offsetMs) => {
  it('while a container runs: it waits for its next start as it would have', () => {
    boot();
    node.until('it runs for the third time', () => started().length === 3);
    node.world.runtime.clockOffsetMs = offsetMs;
    waits(21, 41);
    expect(started().at(-1)).toBe('web-node/app#4');
  });

  it('while a container waits for its next start: it comes when it was to come', () => {
    boot();
    node.until('the third back-off', () => started().length === 3 && isBackingOff());
    node.run(5_000);
    node.world.runtime.clockOffsetMs = offsetMs;
    waits(15, 41);
  });

  it('while no agent runs: the next one waits no longer than the one before would have waited from its start', () => {
    boot();
    node.until('the third back-off', () => started().length === 3 && isBackingOff());
    node.run(5_000);
    node.world.runtime.clockOffsetMs = offsetMs;
    node = node.restart(offsetMs);
    expect(untilNextStart()).toBeLessThanOrEqual(21);
    waits(41);
    expect(started().at(-1)).toBe('web-node/app#4');
  });

  it('forgives a container nothing that did not run well', () => {
    boot();
    node.until('it runs for the third time', () => started().length === 3);
    node.run(500);
    node.world.runtime.clockOffsetMs = offsetMs;
    node.until('a back-off of 20 s', () => isBackingOff());
    expect(node.status('u1')?.containerStatuses?.[0]?.state?.waiting?.message).toContain('back-off 20s');
  });
});

it('observations are dated by a clock that is never set, so that none of them is considered old', async () => {
  const { steadyNow } = await import('../../../../src/kernel/clock.ts');
  const wall = Date.now;
  const before = steadyNow();
  Date.now = () => wall() - HOUR_MS;
  try {
    expect(steadyNow()).toBeGreaterThanOrEqual(before);
    expect(steadyNow() - before).toBeLessThan(HOUR_MS / 2);
  } finally {
    Date.now = wall;
  }
});

describe('a pod with a deadline', () => {
  it('does not end early because its sandbox is recreated after the clock was set back', () => {
    node = new PodsNode();
    node.world.runtime.images.set('app:1', image('app:1'));
    node.world.setManifests([manifest({ uid: 'u1', spec: { activeDeadlineSeconds: 600 } })]);
    node.boot().until('it runs', () => node.phase('u1') === 'Running');
    node.world.runtime.clockOffsetMs = -HOUR_MS;
    node.world.runtime.stopSandbox([...node.world.runtime.sandboxes.keys()][0]!);
    node.run(60_000);
    expect(node.phase('u1')).toBe('Running');
    node.run(600_000);
    expect(node.status('u1')).toMatchObject({ phase: 'Failed', reason: 'DeadlineExceeded' });
  });
});
