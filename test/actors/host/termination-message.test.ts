import { execFileSync } from 'node:child_process';
import { symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { terminationMessage } from '../../../src/actors/host/pod-files.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';

const MAX_BYTES = 4_096;
const TIME = '2026-11-21T04:00:00.000000000Z';

async function container(message: string | Buffer, log?: string) {
  const folder = await temporaryFolder();
  const [file, logFile] = [join(folder, 'message'), join(folder, '0.log')];
  writeFileSync(file, message);
  if (log !== undefined) writeFileSync(logFile, log);
  return { file, logFile: log === undefined ? null : logFile };
}

const read = async (input: { file: string; logFile: string | null }) =>
  (await perform(terminationMessage, { ...input, maxBytes: MAX_BYTES })).message;

const logOf = (lines: readonly string[], tag = 'F') => lines.map((line) => `${TIME} stdout ${tag} ${line}\n`).join('');

it('the file`s content is the message, and the log is not asked', async () => {
  expect(await read(await container('disk is full\n', logOf(['x'])))).toBe('disk is full\n');
});

it('a long message keeps its end', async () => {
  const message = await read(await container(`${'a'.repeat(5_000)}END`));
  expect(message).toHaveLength(MAX_BYTES);
  expect(message.endsWith('END')).toBe(true);
});

it('an empty file without a log is an empty message', async () => {
  expect(await read(await container(''))).toBe('');
});

it('the log`s last 80 lines stand in, without their time stamps', async () => {
  const lines = Array.from({ length: 200 }, (_, at) => `line ${at}`);
  expect(await read(await container('', logOf(lines)))).toBe(
    lines
      .slice(-80)
      .map((line) => `${line}\n`)
      .join(''),
  );
});

it('at most 2048 bytes of the log are taken', async () => {
  const message = await read(await container('', logOf(Array.from({ length: 50 }, () => 'x'.repeat(100)))));
  expect(Buffer.byteLength(message)).toBe(2_048);
});

it('partial lines are joined, both streams count, and foreign lines stay as they are', async () => {
  const log = `${TIME} stdout P one \n${TIME} stdout F two\n${TIME} stderr F three\nno format\n${TIME} stdout F cut`;
  expect(await read(await container('', log))).toBe('one two\nthree\nno format\ncut\n');
});

it('characters that were cut, and bytes that are none, give valid text', async () => {
  const message = await read(await container(Buffer.concat([Buffer.from('é'.repeat(3_000)), Buffer.from([0xff])])));
  expect(message).toBe(`\ufffd${'é'.repeat(2_047)}\ufffd`);
  const binary = [0x61, 0xe2, 0x82, 0x00, 0xf0, 0x9f, 0x98, 0x80, 0xed, 0xa0, 0x80, 0xe2, 0x82, 0xac];
  expect(await read(await container(Buffer.from(binary)))).toBe('a\ufffd\ufffd\u0000😀\ufffd\ufffd\ufffd€');
});

it('a file of 1 GB costs no memory', async () => {
  const input = await container('');
  truncateSync(input.file, 1_073_741_824);
  const before = process.memoryUsage().arrayBuffers;
  expect(await read(input)).toHaveLength(MAX_BYTES);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000);
});

it('a log of one endless line gives its end', async () => {
  expect(await read(await container('', `${TIME} stdout F ${'y'.repeat(1_000_000)}END`))).toMatch(/^y+END\n$/);
});

it('a FIFO, a device, a folder and a link are refused and do not block', async () => {
  const folder = await temporaryFolder();
  execFileSync('mkfifo', [join(folder, 'fifo')]);
  symlinkSync('/etc/hostname', join(folder, 'link'));
  for (const file of [join(folder, 'fifo'), '/dev/zero', folder]) {
    expect(await read({ file, logFile: null })).toBe(
      `Error on reading termination log ${file}: it is not a regular file`,
    );
  }
  expect(await read({ file: join(folder, 'link'), logFile: null })).toContain('ELOOP');
});

it('a file that is gone is an empty one; a log that is gone says so', async () => {
  const input = await container('', logOf(['last words']));
  expect(await read({ file: '/nowhere', logFile: null })).toBe('');
  expect(await read({ file: '', logFile: input.logFile })).toBe('last words\n');
  expect(await read({ ...input, logFile: '/nowhere/c/0.log' })).toBe(
    'Error on reading termination message from logs: failed to try resolving symlinks in path "/nowhere/c/0.log": ' +
      'lstat /nowhere: no such file or directory',
  );
});
