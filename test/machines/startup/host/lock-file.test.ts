/** Proves L1 and L2 of the lock file. */
import { describe, expect, it } from 'vitest';
import { lockFileMachine } from '../../../../src/machines/startup/host/lock-file.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';

const input = (exitOnContention: boolean) => ({ path: '/run/lock', exitOnContention });

describe('the lock file', () => {
  it('is acquired before anything is said', () => {
    const run = runUnder(lockFileMachine, input(false), { 'host.acquireLock': ok(null) });
    expect(run.logged()).toEqual(['Acquiring file lock']);
    expect(run.sent()).toEqual([{ to: 'parent', type: 'lockFile.acquired' }]);
    expect(run.asked()).toEqual(['host.acquireLock']);
    expect(run.divergence()).toBeNull();
  });

  it('says why it cannot be had, with its path', () => {
    const run = runUnder(lockFileMachine, input(false), { 'host.acquireLock': fail('permission denied') });
    expect(run.sent()).toMatchObject([
      { type: 'lockFile.failed', message: 'unable to acquire file lock on "/run/lock": permission denied' },
    ]);
  });

  it('is watched, and contention is told once, only when the flag asks for it', () => {
    const answers = { 'host.acquireLock': ok(null), 'host.watchLock': 'stream' } as const;
    const run = runUnder(lockFileMachine, input(true), answers);
    run.emit('host.watchLock', { type: 'lock.contended' });
    expect(run.sent().map(({ type }) => type)).toEqual(['lockFile.acquired', 'lockFile.contended']);
    expect(run.state()).toEqual({ held: 'keeping' });
    expect(run.divergence()).toBeNull();
  });
});
