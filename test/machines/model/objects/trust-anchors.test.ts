/** The trust bundles that a query selects, and their combined text. */
import { describe, expect, it } from 'vitest';
import { type TrustSelector, type TrustSource, trustKey } from '../../../../src/machines/model/objects/keys.ts';
import {
  certificatesPem,
  pemBlocks,
  type TrustBundle,
  trustAnchors,
  trustBundleOf,
} from '../../../../src/machines/model/objects/trust-anchors.ts';

const block = (base64: string, label = 'CERTIFICATE') =>
  `-----BEGIN ${label}-----\n${base64}\n-----END ${label}-----\n`;
const bundle = (name: string, fields: Partial<TrustBundle> = {}): TrustBundle => ({
  name,
  signerName: '',
  labels: {},
  pem: block(btoa(name)),
  ...fields,
});

describe('pemBlocks', () => {
  it.each([
    ['nothing', '', []],
    ['one block', block('QUJD'), ['QUJD']],
    ['text around the blocks', `issued by us\n${block('QUJD')}# end\n${block('REVG')}`, ['QUJD', 'REVG']],
    ['headers', block('Proc-Type: 4\nX: y\n\nQUJD'), ['QUJD']],
    ['long lines, and lines that are broken elsewhere', block('QUJ\r\nDQUJD'), ['QUJDQUJD']],
    ['bits beyond the last byte', block('QUI='), ['QUI=']],
    ['the same byte written otherwise', block('QUJ='), ['QUI=']],
    ['what is no base64', `${block('???')}${block('QUJD')}`, ['QUJD']],
    ['a block that does not end', '-----BEGIN CERTIFICATE-----\nQUJD', []],
    ['an end of another block', '-----BEGIN CERTIFICATE-----\nQUJD\n-----END KEY-----\n', []],
    ['a block in a block', `-----BEGIN A-----\nQUJD\n${block('REVG')}`, ['REVG']],
  ])('of %s', (_, text, expected) => {
    expect(pemBlocks(text)).toEqual(expected);
  });

  it('reads a megabyte of beginnings in no time', () => {
    const beganMs = performance.now();
    expect(pemBlocks('-----BEGIN CERTIFICATE-----\n'.repeat(40_000))).toEqual([]);
    expect(performance.now() - beganMs).toBeLessThan(2_000);
  });

  it('is what certificatesPem wrote, in lines of 64', () => {
    const blocks = [btoa('x'.repeat(100)), 'QUJD'];
    const text = certificatesPem(blocks);
    expect(pemBlocks(text)).toEqual(blocks);
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBe(64);
  });
});

describe('trustAnchors', () => {
  const signed = (name: string, labels = {}) => bundle(name, { signerName: 'example.com/signer', labels });
  const all = [bundle('a'), signed('b', { tier: 'one' }), signed('c', { tier: 'two' }), bundle('d/100%')];
  const text = (source: TrustSource, bundles = all) => {
    const state = trustAnchors(trustKey(source)!, bundles);
    return state.state === 'found' ? state.object.data['anchors'] : state;
  };
  const pem = (...names: string[]) => ({ text: certificatesPem(names.map((name) => btoa(name))) });
  const by = (labelSelector?: TrustSelector): TrustSource => ({
    path: 'x',
    signerName: 'example.com/signer',
    ...(labelSelector === undefined ? {} : { labelSelector }),
  });

  it.each<[string, TrustSource, object]>([
    ['a name', { path: 'x', name: 'a' }, pem('a')],
    ['a name with signs of its own', { path: 'x', name: 'd/100%' }, pem('d/100%')],
    ['a name that nobody has', { path: 'x', name: 'z' }, { state: 'missing' }],
    ['a signer without a selector', by(), { state: 'missing' }],
    ['a signer with an empty selector', by({}), pem('b', 'c')],
    ['labels', by({ matchLabels: { tier: 'two' } }), pem('c')],
    ['expressions', by({ matchExpressions: [{ key: 'tier', operator: 'NotIn', values: ['two'] }] }), pem('b')],
    ['what no label says', by({ matchExpressions: [{ key: 'tier', operator: 'DoesNotExist' }] }), { state: 'missing' }],
    [
      'an operator that there is not',
      by({ matchExpressions: [{ key: 'tier', operator: 'Gt', values: ['1'] }] }),
      { state: 'unknown', message: 'while parsing label selector: "Gt" is not a valid label selector operator' },
    ],
  ])('by %s', (_, source, expected) => {
    expect(text(source)).toEqual(expected);
  });

  it('has each anchor once, whatever the order', () => {
    const twice = [signed('b'), { ...signed('c'), pem: `${block(btoa('c'))}garbage\n${block(btoa('b'))}` }];
    expect(text(by({}), twice)).toEqual(pem('b', 'c'));
    expect(trustAnchors(trustKey(by({}))!, twice)).toEqual(trustAnchors(trustKey(by({}))!, twice.toReversed()));
  });

  it('reads what an API server may send', () => {
    expect(trustBundleOf({ metadata: { name: 'x' }, spec: null })).toEqual(bundle('x', { pem: '' }));
  });
});
