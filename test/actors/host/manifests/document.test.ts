import { expect, it } from 'vitest';
import { decodeDocument } from '../../../../src/actors/host/manifests/document.ts';

const decode = (text: string) => decodeDocument(new TextEncoder().encode(text));

it.each([
  ['yes and no are booleans', 'a: yes\nb: NO\nc: on', { a: true, b: false, c: true }],
  ['a leading zero is octal', 'a: 0644\nb: 0o17\nc: -0o17', { a: 420, b: 15, c: -15 }],
  ['base 60 does not exist', 'a: 10:20', { a: '10:20' }],
  ['dates stay text', 'a: 2001-01-01', { a: '2001-01-01' }],
  ['quoted scalars stay text', `a: "yes"\nb: '12'`, { a: 'yes', b: '12' }],
  ['keys are text', '1: a\ntrue: b', { '1': 'a', true: 'b' }],
  ['aliases and merge keys work', 'a: &x {b: 1, c: 3}\nd: {<<: *x, c: 2}', { a: { b: 1, c: 3 }, d: { b: 1, c: 2 } }],
  ['JSON with tabs is a document', '{\n\t"a": [\n\t\t1\n\t]\n}', { a: [1] }],
  ['a byte order mark and CRLF are nothing', '\uFEFFa: 1\r\nb: x\r\n', { a: 1, b: 'x' }],
  ['an empty document beside the one is nothing', '---\na: 1\n---\n', { a: 1 }],
  ['the largest exact integer is a number', 'a: 9007199254740991', { a: 9007199254740991 }],
  [
    'an integer that would be rounded is text',
    'a: 9007199254740993\nb: -9223372036854775808',
    {
      a: '9007199254740993',
      b: '-9223372036854775808',
    },
  ],
  [
    'JSON of a program is a document',
    '{"a":[1,-0.5,true,null,"yes"],"b":{}}\n',
    { a: [1, -0.5, true, null, 'yes'], b: {} },
  ],
  ['its integer that would be rounded is text', '{"a":9007199254740992}', { a: '9007199254740992' }],
  ['its key that names a part of every object is a key', '{"toString":"x"}', { toString: 'x' }],
  ['a number that overflows is text', 'a: 1e400\nb: .inf', { a: '1e400', b: '.inf' }],
  ['nothing at all is null', '', null],
  ['a comment is nothing', '# x\n', null],
  ['an unknown tag is nothing', 'a: !foo 1\nb: !foo {c: !bar [d]}', { a: '1', b: { c: ['d'] } }],
  ['binary is text', 'a: !!binary aGVsbG8=', { a: 'hello' }],
])('%s', (_title, text, value) => {
  expect(decode(text)).toEqual(value);
});

it('keys that name parts of every object are own properties', () => {
  const value = decode('__proto__: {polluted: 1}\nconstructor: 2\ntoString: x');
  expect(Object.keys(value ?? {})).toEqual(['__proto__', 'constructor', 'toString']);
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  expect(JSON.stringify(value)).toBe('{"__proto__":{"polluted":1},"constructor":2,"toString":"x"}');
});

const ALIAS_BOMB = [
  'a: &a [x,x,x,x,x,x,x,x,x]',
  ...'bcdefgh'.split('').map((name, at) => {
    const before = 'abcdefg'[at];
    return `${name}: &${name} [${Array(9).fill(`*${before}`).join(',')}]`;
  }),
].join('\n');

it.each([
  ['a duplicate key', 'a: 1\na: 2', 'Map keys must be unique at line 2, column 1'],
  ['a duplicate key in JSON', '{"a": 1, "a": 2}', 'Map keys must be unique at line 1, column 10'],
  ['two documents', 'a: 1\n---\nb: 2', 'the file holds 2 documents'],
  ['two JSON documents', '{"a":1}{"b":2}', 'Unexpected flow-map-start token at line 1, column 8'],
  ['a half of a document', 'a: [1', 'must be sufficiently indented and end with a ]'],
  ['a half of a string', 'a: "x', 'Missing closing "quote'],
  ['a tab as indentation', 'a:\n\t- b', 'Tabs are not allowed as indentation at line 2, column 1'],
  ['an alias bomb', ALIAS_BOMB, 'Excessive alias count'],
  ['an alias that contains itself', 'a: &x [*x]', 'nested deeper than 100 levels'],
  ['an alias to nothing', 'a: *x', 'Unresolved alias'],
  ['deep nesting', `${'['.repeat(102)}${']'.repeat(102)}`, 'nested deeper than 100 levels'],
  ['nesting that ends the stack of the parser', '['.repeat(200_000), 'nested deeper than 100 levels'],
  ['a control character', 'a: b\nc: d\0e', 'control characters are not allowed: U+0000 at line 2'],
  ['a list as a key', '? [a]\n: 1', 'a key must be text'],
  ['null as a key', '~: 1', 'a key must not be null'],
])('refuses %s', (_title, text, message) => {
  expect(() => decode(text)).toThrow(message);
});

it('reports a duplicate key, the last of which counts, to those who take the report', () => {
  const problems: string[] = [];
  const text = new TextEncoder().encode('a: 1\nb: {c: 1, c: 2}\na: 3');
  expect(decodeDocument(text, (problem) => problems.push(problem))).toEqual({ a: 3, b: { c: 2 } });
  expect(problems).toEqual(['Map keys must be unique at line 3, column 1; the last one counts']);
});

it('refuses bytes that are not UTF-8', () => {
  expect(() => decodeDocument(new Uint8Array([0x61, 0x3a, 0x20, 0xff]))).toThrow('the file is not UTF-8 text');
});

it('refuses a document over the limit before it looks at it', () => {
  expect(() => decodeDocument(new Uint8Array(1_572_865))).toThrow('more than 1572864 bytes');
});

it('never quotes the document in a message', () => {
  const secret = 'hunter2';
  for (const text of [`p: ${secret}\np: ${secret}`, `p: "${secret}`, `p: ${secret}: x`, `p: [${secret}`]) {
    expect(() => decode(text)).toThrow(expect.not.stringContaining(secret));
  }
});
