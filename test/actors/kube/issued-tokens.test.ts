/** Answers about tokens: the machine that renews them needs the expiry of each. */
import { describe, expect, it } from 'vitest';
import { sealed } from '../../../src/actors/kube/decode.ts';
import { isSecretHandle, Vault } from '../../../src/kernel/journal/secrets.ts';
import type { Json } from '../../../src/kernel/json.ts';

const TARGET = { client: 'kube', apiVersion: 'v1', resource: 'serviceaccounts', subresource: 'token' } as const;
const END = '2026-11-28T12:00:00Z';
const ask = (answer: { [key: string]: Json }) =>
  sealed(TARGET, { metadata: { name: 'default' }, ...answer }, new Vault(Buffer.alloc(32, 1)));

describe('an issued token', () => {
  it('becomes a handle', () => {
    const { status } = ask({ status: { token: 'hunter2', expirationTimestamp: END } });
    expect(isSecretHandle((status as { token: unknown }).token)).toBe(true);
  });

  it.each<[string, { [key: string]: Json }]>([
    ['without a status', {}],
    ['without a token', { status: { expirationTimestamp: END } }],
    ['with an empty token', { status: { token: '', expirationTimestamp: END } }],
    ['with a token that is no text', { status: { token: { $secret: 'x' }, expirationTimestamp: END } }],
    ['without an end', { status: { token: 'hunter2' } }],
    ['whose end is no time', { status: { token: 'hunter2', expirationTimestamp: 'soon' } }],
    [
      'whose life is no number',
      { spec: { expirationSeconds: '1h' }, status: { token: 'x', expirationTimestamp: END } },
    ],
    [
      'whose life is longer than a time can say',
      { spec: { expirationSeconds: 1e308 }, status: { token: 'x', expirationTimestamp: END } },
    ],
  ])('%s is no answer', (_, answer) => {
    expect(() => ask(answer)).toThrow("the API server's answer cannot be decoded: serviceaccounts/token");
  });
});
