/** Configuration files on a real disk: which are read, in which order, and the errors of unreadable ones. */

import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeYaml, readConfiguration, readDropIns } from '../../../../src/actors/host/configuration/configuration.ts';
import { decodeJson, numberOf } from '../../../../src/machines/model/values/json-document.ts';

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
    ['a: 0o17\nb: 017\nc: 0X1f\nd: 1_0\ne: 0b101', { a: 15, b: 15, c: 31, d: 10, e: 5 }],
    ['a: 08\nb: 1e400\nc: e1\nd: 5.\ne: .5\nf: 1:30', { a: 8, b: '1e400', c: 'e1', d: 5, e: 0.5, f: '1:30' }],
    ['a: 2020-01-01', { a: '2020-01-01' }],
    ['1: a\ntrue: b\n1.5: c', { '1': 'a', '1.5': 'c', true: 'b' }],
    ['a: !!str 1\nb: !!int "5"\nc: !!float 5\nd: !foo 5', { a: '1', b: 5, c: 5, d: '5' }],
    ['a: !!binary aGVsbG8=\nb: "5"\nc: |\n  5\n', { a: 'hello', b: '5', c: '5\n' }],
    ['__proto__: {x: 1}', Object.fromEntries([['__proto__', { x: 1 }]])],
    ['b: 1\na: 2\n---\nc: 3', { a: 2, b: 1 }],
    ['a: &a {x: 1}\nb: {<<: *a, z: 2}\nc: {<<: [{x: 3}, *a]}', { a: { x: 1 }, b: { x: 1, z: 2 }, c: { x: 3 } }],
    ['', null],
    ['# nothing\n', null],
  ])('%j', (text, value) => {
    const { error, ...read } = decodeYaml(text);
    expect({ error, value: 'value' in read ? read.value : undefined }).toEqual({ error: undefined, value });
  });

  it.each([
    ['a: [1 2', "line 1: did not find expected ',' or ']'"],
    ['x: 1\na: {b\n', "line 2: did not find expected ',' or '}'"],
    ['a: b: c', 'mapping values are not allowed in this context'],
    ['x: 1\n y: 2\n', 'line 2: mapping values are not allowed in this context'],
    ['x: 1\ny 2\n', "line 3: could not find expected ':'"],
    ['x: 1\ny:2\nz: 3\n', "line 3: could not find expected ':'"],
    ['x:\n- a\nb\n# end\n', "line 5: could not find expected ':'"],
    ['x: 1\n- a\n', 'line 1: did not find expected key'],
    ['x:\n  - a\n - b\n', 'line 2: did not find expected key'],
    ['x:\n  y: 1\n z: 2\n', 'line 2: did not find expected key'],
    ['x: - a', 'block sequence entries are not allowed in this context'],
    ['x: @a', 'found character that cannot start any token'],
    ['x: 1\n\ty: 2\n', 'line 2: found a tab character that violates indentation'],
    ['x:\n\ty: 2\n', 'line 2: found character that cannot start any token'],
    ['x: "a\n', 'line 2: found unexpected end of stream'],
    ['x: 1\n"y: 2\n', 'line 3: found unexpected end of stream'],
    [String.raw`x: "\z"`, 'found unknown escape character'],
    ['x: [a,,b]', 'did not find expected node content'],
    ['x: |z\n  a', 'did not find expected comment or line break'],
    ['%YAML 1.2\n---\na: 1', 'found incompatible YAML document'],
    ['a: \u0001', 'control characters are not allowed'],
    ['...\n', 'did not find expected node content'],
    ['# x\n...\n', 'line 1: did not find expected node content'],
    ['a: *', 'did not find expected alphabetic or numeric character'],
    ['x: 1\na: *', 'line 2: did not find expected alphabetic or numeric character'],
    [String.raw`x: "\ud83d\ude00"`, 'found invalid Unicode character escape code'],
    ['x: 1\na: "\\ud800"', 'line 2: found invalid Unicode character escape code'],
    ['- a\nb: c', "line 1: did not find expected '-' indicator"],
    ['a\nb: c', 'line 2: mapping values are not allowed in this context'],
    ['x:\n  y: [1]!!int 2\n', 'line 1: did not find expected key'],
    ['x:\n  y: [1]*a\n', 'line 1: did not find expected key'],
    ['x: 1\n: 5', 'line 1: did not find expected key'],
    ['x: a\u0085b\n', "line 3: could not find expected ':'"],
    ['a: *b', "unknown anchor 'b' referenced"],
    ['a: !!int x', 'cannot decode !!str `x` as a !!int'],
    ['a: {<<: 5}', 'map merge requires map or sequence of maps as the value'],
    ['[a, 1]: 5', 'invalid map key: []interface {}{"a", 1}'],
    [`a: ${'['.repeat(20_000)}`, 'exceeded max depth of 1000'],
    ['a: &a [*a]', "anchor 'a' value contains itself"],
    ['a: &a {b: *a}', "anchor 'a' value contains itself"],
  ])('refuses %j', (text, error) => {
    expect(decodeYaml(text).error).toBe(`yaml: ${error}`);
  });

  it('keeps whole numbers beyond 2^53, and ends lines at a lone carriage return', () => {
    const text = 'a: 9223372036854775807\rb: 18446744073709551616\r99999999999999999999: 1';
    expect(decodeYaml(text)).toMatchObject({
      value: { a: numberOf('9223372036854775807'), b: 18_446_744_073_709_552_000, '1e+20': 1 },
    });
  });

  it('refuses what JSON cannot hold', () => {
    expect(decodeYaml('a: -.inf').error).toBe('json: unsupported value: -Inf');
    expect(decodeYaml('~: {b: 1}').error).toBe(
      'unsupported map key of type: %!s(<nil>), key: <nil>, value: map[interface {}]interface {}{"b":1}',
    );
  });

  it('refuses an alias bomb', () => {
    const levels = Array.from(
      { length: 12 },
      (_, i) => `a${i + 1}: &a${i + 1} [${Array(10).fill(`*a${i}`).join(',')}]`,
    );
    const text = ['a0: &a0 x', ...levels].join('\n');
    expect(decodeYaml(text).error).toBe('yaml: document contains excessive aliasing');
  });

  it('says on which line the value of a key is that is set again, and tells keys of other types apart', () => {
    const text = 'a: 1\nb: {c: 1, c: 2}\na:\n  d: 1\n1: s\n"1": t\n1: u\n<<: {b: 5}\n';
    expect(decodeYaml(text)).toEqual({
      value: { '1': 't', a: { d: 1 }, b: 5 },
      duplicates: [
        [
          'yaml: unmarshal errors:',
          '  line 2: key "c" already set in map',
          '  line 4: key "a" already set in map',
          '  line 7: key 1 already set in map',
          '  line 8: key "b" already set in map',
        ].join('\n'),
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
    ['{"a":"\\x"}', "invalid character 'x' in string escape code"],
    ['{"a":"\\u00g0"}', String.raw`invalid character 'g' in \u hexadecimal character escape`],
    ['{"a":1}}', "invalid character '}' after top-level value"],
    [`{"a":${'['.repeat(200)}`, 'exceeded max depth of 100'],
  ])('refuses %s', (text, error) => {
    expect(decodeJson(text)).toEqual({ error });
  });

  it('makes one object of two that have the same key', () => {
    expect(decodeJson('{"a":{"b":1,"c":[1]},"a":{"c":[2],"d\\n":3}}')).toEqual({
      value: { a: { b: 1, c: [2], 'd\n': 3 } },
      duplicates: ['duplicate field "a"'],
    });
  });

  it('keeps the last of two equal keys and the order of the others', () => {
    const decoded = decodeJson('{"b":{"x":1,"x":2},"a":"\\u00e9\\n","b2":[true,null,-1.5e2]}');
    expect(decoded).toEqual({
      value: { b: { x: 2 }, a: 'é\n', b2: [true, null, numberOf('-1.5e2')] },
      duplicates: ['duplicate field "b.x"'],
    });
  });
});
