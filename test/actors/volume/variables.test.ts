/** Files of variables: their format, and what a container may have put in their place. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { valueInEnvFile } from '../../../src/actors/volume/variables.ts';
import { VolumeRoom } from './support.ts';

describe('the form', () => {
  it.each([
    ['a value', "A='b'", 'b'],
    ['the first of two', "A='1'\nA='2'", '1'],
    ['no such key', "B='b'", ''],
    ['an empty file', '', ''],
    ['blank lines, comments and blanks before the name', "\n \t\n# A='no'\n  #x\n \tA='b'", 'b'],
    ['what a shell would expand, as it stands', 'A=\'$HOME \\n "x" #\'', '$HOME \\n "x" #'],
    ['several lines', "A='one\n  two\n\nfour'\nB='x'", 'one\n  two\n\nfour'],
    ['a comment behind the value', "A='b'   # and more", 'b'],
    ['lines as Windows ends them', "X='y'\r\nA='b'\r\n", 'b'],
    ['a value that stands apart, which is none', "A= 'b'", ''],
    ['a name with a blank in it', "A B='c'\nA='b'", 'b'],
    ['nothing of what comes after it', "A='b'\nrubbish", 'b'],
  ])('takes %s', (_, text, value) => expect(valueInEnvFile(text, 'A')).toBe(value));

  it.each([
    ['no quotes', 'A=b', 'line 1: value must be enclosed in single quotes'],
    ['other quotes', 'A="b"', 'line 1: value must be enclosed in single quotes'],
    ['no value', '\nA=', 'line 2: value must be enclosed in single quotes'],
    ['no sign', "X='y'\nA", "line 2: missing '='"],
    ['no name', "='b'", 'line 1: empty variable name'],
    ['a blank before the sign', "A ='b'", "line 1: whitespace before '=' is not allowed"],
    ['something behind the value', "A='b'c", 'line 1: unexpected content after closing quote'],
    ['a quote that never closes', "X='y'\nA='b\nc", 'line 2: unclosed single quote'],
    ['a line without end', `A='${'x'.repeat(65_536)}'`, 'line 1: the line is too long'],
  ])('refuses %s', (_, text, why) =>
    expect(() => valueInEnvFile(text, 'A')).toThrow(`invalid environment variable format at ${why}`),
  );
});

describe('the file', () => {
  let room: VolumeRoom;
  let volume: string;
  beforeEach(() => {
    room = new VolumeRoom();
    volume = room.path('empty-dir', 'v');
    mkdirSync(volume, { recursive: true });
    writeFileSync(join(volume, 'a.env'), "A='secret'\n");
  });
  afterEach(() => room.close());

  const read = async (path: string, { key = 'A', optional = false } = {}) => {
    const variable = { container: 'c', env: 3, volumePath: volume, path, key, optional };
    return await room.ask('volume.readVariables', { variables: [variable] });
  };
  const UNREAD = "couldn't parse env file";

  it('is read, and its value leaves as a handle', async () => {
    expect(await read('./a.env')).toEqual({ values: { c: { 3: room.vault.seal('secret') } }, failed: {} });
    symlinkSync('a.env', join(volume, 'link'));
    expect((await read('link')).failed).toEqual({});
  });

  it('is that of a container named like what every object has', async () => {
    const variable = { container: 'constructor', volumePath: volume, path: 'a.env', optional: false };
    const variables = ['A', 'B'].map((key, env) => ({ ...variable, env, key }));
    const { values, failed } = await room.ask('volume.readVariables', { variables });
    expect([values['constructor'], Object.keys(failed)]).toEqual([{ 0: room.vault.seal('secret') }, ['constructor']]);
    expect(Object.hasOwn(Object, 0)).toBe(false);
  });

  it('need not have an optional key, but must have every other', async () => {
    expect(await read('a.env', { key: 'B', optional: true })).toEqual({ values: { c: { 3: null } }, failed: {} });
    const message = `environment variable key "B" not found in file "${volume}/a.env"`;
    expect((await read('a.env', { key: 'B' })).failed).toEqual({ c: { message, why: message } });
  });

  it('must be there, whatever the key', async () => {
    const { failed } = await read('none', { optional: true });
    expect(failed).toMatchObject({ c: { message: UNREAD, why: expect.stringContaining('ENOENT') } });
  });

  it.each<[string, (path: string) => void, string]>([
    ['a link out of the volume', (path) => symlinkSync('/etc/passwd', path), 'leads out of its volume'],
    ['a link upwards', (path) => symlinkSync('../../../x', path), 'leads out of its volume'],
    ['a FIFO', (path) => execFileSync('mkfifo', [path]), 'not a plain file'],
    ['a folder', (path) => mkdirSync(path), 'not a plain file'],
    [
      'a file without end',
      (path) => {
        writeFileSync(path, '');
        truncateSync(path, 2 ** 40);
      },
      'more than the 2097152 bytes that are read',
    ],
    ['another form', (path) => writeFileSync(path, 'A=b'), 'single quotes'],
  ])('is not read where it is %s', async (_, make, why) => {
    make(join(volume, 'odd'));
    const { failed } = await read('odd');
    expect(failed).toMatchObject({ c: { message: UNREAD, why: expect.stringContaining(why) } });
  });
});
