/** Configuration files on a real disk: what is read, in which order, and how what cannot be read is told. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeYaml, readConfiguration, readDropIns } from '../../../../src/actors/host/configuration/configuration.ts';
import { decodeJson } from '../../../../src/actors/host/configuration/json-document.ts';

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'statelet-read-'));
});

afterEach(() => {
  rmSync(directory, { recursive: true });
});

function write(path: string, content: string | Uint8Array): string {
  const file = join(directory, path);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, content);
  return file;
}

describe('files', () => {
  it.each([
    ['nothing', '', { kind: 'empty' }],
    ['no text', new Uint8Array([0xff, 0xfe]), { kind: 'malformed', message: 'yaml: invalid leading UTF-8 octet' }],
    ['protobuf', 'k8s\0x', { kind: 'malformed', message: 'unexpected EOF' }],
    [
      'JSON',
      ' {"kind":"K","apiVersion":"v1"}',
      { kind: 'document', value: { kind: 'K', apiVersion: 'v1' }, text: null },
    ],
    ['an unnamed document', 'a: 1\n', { kind: 'document', value: { a: 1 }, text: 'a: 1\n' }],
  ])('%s', async (_name, content, expected) => {
    expect(await readConfiguration(write('k.yaml', content))).toMatchObject(expected);
  });

  it('names the operation and the reason of what cannot be read', async () => {
    const missing = join(directory, 'nope');
    expect(await readConfiguration(missing)).toMatchObject({ message: `open ${missing}: no such file or directory` });
    expect(await readConfiguration(directory)).toMatchObject({ message: `read ${directory}: is a directory` });
    const below = join(write('file', 'x'), 'k.yaml');
    expect(await readConfiguration(below)).toMatchObject({ message: `open ${below}: not a directory` });
  });

  it.skipIf(process.getuid?.() === 0)('says that a file may not be read', async () => {
    const file = write('k.yaml', 'a: 1');
    chmodSync(file, 0);
    expect(await readConfiguration(file)).toMatchObject({ message: `open ${file}: permission denied` });
  });

  it('refuses a file that is far too large', async () => {
    const file = write('k.yaml', 'a'.repeat(1_048_577));
    expect(await readConfiguration(file)).toEqual({
      kind: 'unreadable',
      path: file,
      message: `read ${file}: more than 1048576 bytes`,
    });
  });
});

describe('drop-ins', () => {
  it('come in the order of a directory walk, hidden ones and links included, other names left out', async () => {
    for (const name of ['b.conf', 'a/z.conf', 'a.conf', 'B.conf', '.h.conf', 'a/readme.md', 'c.yaml'])
      write(name, 'a: 1');
    symlinkSync(join(directory, 'c.yaml'), join(directory, 'link.conf'));
    const listing = await readDropIns(directory);
    const names =
      listing.kind === 'files' ? listing.files.map(({ path }) => path.slice(directory.length + 1)) : listing;
    expect(names).toEqual(['.h.conf', 'B.conf', 'a/z.conf', 'a.conf', 'b.conf', 'link.conf']);
  });

  it('need their directory', async () => {
    const missing = join(directory, 'nope');
    expect(await readDropIns(missing)).toEqual({
      kind: 'unreadable',
      message: `lstat ${missing}: no such file or directory`,
    });
  });
});

describe('YAML', () => {
  it.each([
    ['a: yes', { a: true }],
    ['a: 0o17\nb: 017\nc: 0x1f\nd: 1_0', { a: 15, b: 15, c: 31, d: 10 }],
    ['a: 2020-01-01', { a: '2020-01-01' }],
    ['1: a\ntrue: b', { '1': 'a', true: 'b' }],
    ['a: .inf', { a: 'Infinity' }],
    ['a: !!str 1', { a: '1' }],
    ['__proto__: {x: 1}', Object.fromEntries([['__proto__', { x: 1 }]])],
    ['b: 1\na: 2\n---\nc: 3', { a: 2, b: 1 }],
  ])('%j', (text, value) => {
    expect(decodeYaml(text)).toEqual({ value, duplicates: [] });
  });

  it.each([
    ['a: [1 2', "did not find expected ',' or ']'"],
    ['x: 1\na: {b\n', "line 2: did not find expected ',' or '}'"],
    ['a: b: c', 'line 1: mapping values are not allowed in this context'],
    ['a: *b', "unknown anchor 'b' referenced"],
    [`a: ${'['.repeat(20_000)}`, 'the document is nested deeper than 100 levels'],
    ['a: &a [*a]', 'the document is nested deeper than 100 levels'],
  ])('refuses case %#', (text, error) => {
    expect(decodeYaml(text).error).toBe(`yaml: ${error}`);
  });

  it('refuses an alias bomb', () => {
    const levels = Array.from(
      { length: 12 },
      (_, i) => `a${i + 1}: &a${i + 1} [${Array(10).fill(`*a${i}`).join(',')}]`,
    );
    expect(decodeYaml(['a0: &a0 x', ...levels].join('\n')).error).toMatch(/^yaml: Excessive alias count/);
  });

  it('says on which line a key is set again', () => {
    expect(decodeYaml('a: 1\nb: {c: 1, c: 2}\na: 3\n')).toEqual({
      value: { a: 3, b: { c: 2 } },
      duplicates: [
        'yaml: unmarshal errors:\n  line 2: key "c" already set in map\n  line 3: key "a" already set in map',
      ],
    });
  });
});

describe('JSON', () => {
  it.each([
    ['{', 'unexpected end of JSON input'],
    ['{a:1}', "invalid character 'a' looking for beginning of object key string"],
    ['{"a" 1}', "invalid character '1' after object key"],
    ['{"a":1 "b"}', `invalid character '"' after object key:value pair`],
    ['{"a":[1 2]}', "invalid character '2' after array element"],
    ['{"a":}', "invalid character '}' looking for beginning of value"],
    ['{"a":tru}', "invalid character '}' in literal true (expecting 'e')"],
    ['{"a":"\\x"}', "invalid character '\\\\' in string escape code"],
    ['{"a":1}}', "invalid character '}' after top-level value"],
    [`{"a":${'['.repeat(200)}`, 'exceeded max depth of 100'],
  ])('refuses %s', (text, error) => {
    expect(decodeJson(text)).toEqual({ error });
  });

  it('keeps the last of two equal keys and the order of the others', () => {
    const decoded = decodeJson('{"b":{"x":1,"x":2},"a":"\\u00e9\\n","b2":[true,null,-1.5e2]}');
    expect(decoded).toEqual({
      value: { b: { x: 2 }, a: 'é\n', b2: [true, null, -150] },
      duplicates: ['duplicate field "b.x"'],
    });
  });
});
