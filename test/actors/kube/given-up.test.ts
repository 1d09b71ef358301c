/**
 * Requests that are cancelled on a shared connection: in a process of their own, because a hang would block this one.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';

const CHILD = join(import.meta.dirname, '../../support/kube-child.ts');
/** Ten times the needed memory; a hang takes hundreds of megabytes per second. */
const MEMORY_MAX_KIB = 2_000_000;
const CHECK_MS = 100;
/** It takes a second, with a processor of its own. */
const LIMITS = { timeout: 180_000 };

function memoryKib(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

it('a write that is given up before it has left holds nothing up that shares its connection', LIMITS, async () => {
  const child = spawn(process.execPath, [CHILD], { stdio: ['ignore', 'ignore', 'inherit'] });
  const guard = setInterval(() => memoryKib(child.pid!) > MEMORY_MAX_KIB && child.kill('SIGKILL'), CHECK_MS);
  onTestFinished(() => {
    clearInterval(guard);
    child.kill('SIGKILL');
  });
  const end = await new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  expect(end).toBe(0);
});
