/** The terminal of a process, when the thread that opened it ends: other descriptors stay open. */
import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';

const TERMINAL = new URL('../../../src/actors/embedded-runtime/process/terminal.ts', import.meta.url).href;
/** Opens a terminal, closes it, reports the number of its descriptor, and ends at the next message. */
const THREAD = `
  const { parentPort } = require('node:worker_threads');
  import(${JSON.stringify(TERMINAL)}).then(({ openTerminal }) => {
    const { stream } = openTerminal({});
    const { fd } = stream._handle;
    stream.once('close', () => parentPort.postMessage(fd));
    stream.destroy();
  });
  parentPort.once('message', () => process.exit());
`;
/**
 * A separate process, so that no other code reuses the number. Reports the target of the descriptor before and after
 * the end of the thread.
 */
const PROGRAM = `
  const { openSync, readlinkSync } = require('node:fs');
  const { Worker } = require('node:worker_threads');
  const thread = new Worker(${JSON.stringify(THREAD)}, { eval: true });
  thread.once('message', (number) => {
    for (let fd = -1; fd < number; ) fd = openSync('/dev/null', 'r');
    console.log(readlinkSync('/proc/self/fd/' + number));
    thread.once('exit', () => console.log(readlinkSync('/proc/self/fd/' + number)));
    thread.postMessage('end');
  });
`;

it('a thread that ends closes no terminal twice: its number may belong to another file by then', () => {
  expect(execFileSync(process.execPath, ['--eval', PROGRAM], { encoding: 'utf8' })).toBe('/dev/null\n/dev/null\n');
});
