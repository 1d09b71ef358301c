/** A process that becomes idle returns memory; a busy one does not. */
import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';

const COLLECT = new URL('../../src/bin/idle-collection.js', import.meta.url).href;
const CHECK_MS = 50;

/** Runs a script that holds 64 MiB for a moment; returns the MiB of its heap after some checks. */
function heapAfter(flags: readonly string[], afterwards: string): number {
  const script = `
    const { collectWhenIdle } = await import(${JSON.stringify(COLLECT)});
    let held = Array.from({ length: 64 }, (_, i) => new Array(2 ** 17).fill(i));
    collectWhenIdle(() => {}, ${CHECK_MS});
    held = undefined;
    ${afterwards}
    setTimeout(() => { console.log(process.memoryUsage().heapTotal / 2 ** 20); process.exit(0); }, ${5 * CHECK_MS});`;
  const argv = [...flags, '--input-type=module', '--eval', script];
  return Number(execFileSync(process.execPath, argv, { encoding: 'utf8' }));
}

it('an idle process returns unused memory', () => {
  expect(heapAfter(['--expose-gc'], '')).toBeLessThan(32);
});

it('while a process allocates, nothing is collected for it', () => {
  const work = `setInterval(() => globalThis.busy = new Array(2 ** 21).fill(0), ${CHECK_MS / 5});`;
  expect(heapAfter(['--expose-gc', '--initial-old-space-size=512'], work)).toBeGreaterThan(64);
});

it('a process that cannot collect goes on', () => {
  expect(heapAfter(['--initial-old-space-size=512'], '')).toBeGreaterThan(64);
});
