/** ConfigMaps and Secrets as files: what is accepted, what is refused, and that no value is ever quoted. */
import { describe, expect, it } from 'vitest';
import { configObject, configObjectKind } from '../../../../src/actors/host/manifests/config-object.ts';
import { Vault } from '../../../../src/kernel/journal/secrets.ts';
import type { Json } from '../../../../src/kernel/json.ts';

const vault = new Vault(Buffer.alloc(32, 1));
const CANARY = 'canary-8e1f';
const base64 = (text: string) => Buffer.from(text).toString('base64');
const configMap = (fields: Record<string, Json>) =>
  configObject({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c' }, ...fields }, 'ConfigMap', vault);
const secret = (fields: Record<string, Json>) =>
  configObject({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 's' }, ...fields }, 'Secret', vault);

it('knows the two kinds and no other', () => {
  expect(
    [{ kind: 'ConfigMap' }, { kind: 'Secret' }, { kind: 'Pod' }, {}, null, 'Secret'].map(configObjectKind),
  ).toEqual(['ConfigMap', 'Secret', null, null, null, null]);
});

describe('a ConfigMap', () => {
  it('is open: text is text, bytes that are text too, other bytes base64', () => {
    const { kind, namespace, name, data } = configMap({
      data: { a: '1' },
      binaryData: { b: base64('x'), c: 'gAH/' },
      immutable: true,
    });
    expect({ kind, namespace, name }).toEqual({ kind: 'ConfigMap', namespace: 'default', name: 'c' });
    expect(data).toEqual({ a: { text: '1' }, b: { text: 'x' }, c: { base64: 'gAH/' } });
  });

  it('has another version when its content is another', () => {
    const versions = [{ a: '1' }, { a: '1' }, { a: '2' }, { b: '1' }, {}].map((data) => configMap({ data }).version);
    expect(versions[0]).toBe(versions[1]);
    expect(new Set(versions).size).toBe(4);
  });
});

describe('a Secret', () => {
  it('is sealed, whichever way it was written', () => {
    const first = secret({ data: { a: base64(CANARY), b: base64('\u0080') } });
    const second = secret({ stringData: { a: CANARY }, data: { a: base64('older'), b: base64('\u0080') } });
    expect(JSON.stringify([first, second])).not.toContain(CANARY);
    expect(JSON.stringify([first, second])).not.toContain(base64(CANARY));
    expect(vault.openAll(first.data)).toEqual({ a: { text: CANARY }, b: { text: '\u0080' } });
    expect(second).toEqual(first);
  });

  it('keeps bytes that are no text, with a handle for variables', () => {
    const { data } = secret({ data: { k: 'gAH/' } });
    expect(vault.openAll(data)).toEqual({ k: { base64: 'gAH/', variable: expect.stringMatching(/^\0.*gAH\/$/) } });
  });
});

describe('what is refused', () => {
  it.each([
    ['no name', () => configMap({ metadata: {} }), 'metadata.name: Required value'],
    ['a bad name', () => configMap({ metadata: { name: 'A_b' } }), 'metadata.name: Invalid value'],
    ['a bad namespace', () => configMap({ metadata: { name: 'a', namespace: '../x' } }), 'metadata.namespace'],
    ['another version', () => configMap({ apiVersion: 'v2' }), 'apiVersion: must be v1'],
    ['a list', () => configMap({ data: ['x'] }), 'data: must be a map'],
    ['a number', () => secret({ stringData: { pin: 4711 } }), 'stringData[pin]: must be text'],
    ['a path as key', () => secret({ stringData: { '../x': 'y' } }), 'stringData[../x]: Invalid value'],
    ['dots as key', () => secret({ stringData: { '..data': 'y' } }), "must not start with '..'"],
    ['no base64', () => secret({ data: { k: `${CANARY}!` } }), 'data[k]: must be base64'],
    ['too much', () => secret({ stringData: { k: CANARY.repeat(100_000) } }), 'Too long'],
  ])('%s, without its value', (_, make, message) => {
    expect(make).toThrow(message);
    expect(make).toThrow(expect.not.stringContaining(CANARY));
    expect(make).toThrow(expect.not.stringContaining('4711'));
  });

  it('is named completely, in one sentence', () => {
    expect(() => configMap({ metadata: { name: '' }, data: { a: true, b: 1 } })).toThrow(
      /metadata\.name: Required value, data\[a\]: .*, data\[b\]: /,
    );
  });

  it('is never a key that every object has', () => {
    const { data } = configMap({ data: { constructor: '1', __proto: '2' } });
    expect(Object.keys(data)).toEqual(['constructor', '__proto']);
  });
});
