/** Programs that may hang: how they are ended, and that one that does not end is abandoned. */
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { runKillable } from '../../../src/actors/host/killable.ts';
import { temporaryFolder } from '../../support/host-ports.ts';

const shell = (script: string, timeoutMs = 20_000, signal?: AbortSignal, onLate = () => {}) =>
  runKillable('/bin/sh', ['-c', script], { timeoutMs, onLate, ...(signal ? { signal } : {}) });

it.each([
  ['true', '', ''],
  ['echo a; echo b >&2; exit 3', 'exit status 3', 'a\nb\n'],
  ['kill -TERM $$', 'signal: terminated', ''],
  ['kill -USR1 $$', 'signal: SIGUSR1', ''],
])('%s ends as Go says', async (script, status, output) => {
  expect(await shell(script)).toEqual({ status, output, isKilled: false, isAbandoned: false, isMissing: false });
});

it('a program that is not there is a result', async () => {
  const status = 'exec: "no-such-program": executable file not found in $PATH';
  expect(await runKillable('no-such-program', [], { timeoutMs: 1_000 })).toMatchObject({ status, isMissing: true });
  const { status: path } = await runKillable('/no/such', [], { timeoutMs: 1_000 });
  expect(path).toBe('fork/exec /no/such: no such file or directory');
});

it('a program that cannot be started is a result', async () => {
  const program = join(await temporaryFolder(), 'busy');
  const file = openSync(program, 'w', 0o755);
  onTestFinished(() => closeSync(file));
  const status = `fork/exec ${program}: text file is busy`;
  expect(await runKillable(program, [], { timeoutMs: 1_000 })).toMatchObject({ status, isMissing: false });
});

it('keeps some of a long output', async () => {
  const { output, status } = await shell('yes | head -c 1000000');
  expect([output.length, status]).toEqual([4_096, '']);
});

it('is killed at the end of its time, with the processes that it started', async () => {
  expect(await shell('sleep 100 & wait', 100)).toMatchObject({
    status: 'signal: killed',
    isKilled: true,
    isAbandoned: false,
  });
});

it('is killed when its result is no longer wanted, before or after its start', async () => {
  const wanted = new AbortController();
  const running = shell('sleep 100', 20_000, wanted.signal);
  wanted.abort();
  expect(await running).toMatchObject({ status: 'signal: killed', isKilled: true });
  expect(await shell('sleep 100', 20_000, wanted.signal)).toMatchObject({ status: 'signal: killed', isKilled: true });
});

it('has ended although a daemon that it started goes on', async () => {
  const { status, output } = await shell('sleep 300 & echo $!; exit 3');
  expect(status).toBe('exit status 3');
  expect(process.kill(Number(output), 'SIGKILL')).toBe(true);
});

it('is abandoned if it does not end then, and its end is told', async () => {
  const kill = vi.spyOn(process, 'kill').mockReturnValue(true);
  onTestFinished(() => kill.mockRestore());
  const onLate = vi.fn();
  expect(await shell('sleep 3', 50, undefined, onLate)).toMatchObject({ isKilled: true, isAbandoned: true });
  expect(onLate).not.toHaveBeenCalled();
  await expect.poll(() => onLate.mock.calls.length, { timeout: 20_000 }).toBe(1);
});
