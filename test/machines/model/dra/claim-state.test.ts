/** The file of claims, in the Go kubelet's format. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { type ClaimState, claimStateText, crc32, readClaimState } from '../../../../src/machines/model/dra/claims.ts';

const claim: ClaimState = {
  uid: 'c1',
  name: 'mine',
  namespace: 'default',
  pods: ['u1'],
  drivers: {
    'gpu.example.test': [
      { pool: 'node1', device: 'gpu-0', share: null, requests: ['gpu'], cdi: ['gpu.example.test/gpu=mine'] },
    ],
    'net.example.test': [],
  },
};

it('the checksum is the CRC-32 of the bytes', () => {
  expect([crc32(''), crc32('123456789'), crc32('größer')]).toEqual([0, 0xcbf43926, 0xf83617b0]);
});

it('what is written is read again', () => {
  const second = { ...claim, name: 'other', uid: 'c2', pods: [] };
  expect(readClaimState(claimStateText([claim, second]))).toEqual({ claims: [claim, second] });
});

it('a file of a Go kubelet is taken, and written as it was', () => {
  const text = readFileSync(new URL('go-dra-manager-state.txt', import.meta.url), 'utf8').trim();
  const state = readClaimState(text);
  expect(state).toMatchObject({ claims: [{ name: 'c6', drivers: { 'gpu.example.test': [{ device: 'c6-device' }] } }] });
  expect('claims' in state && claimStateText(state.claims)).toBe(text);
});

it('an empty file of a Go kubelet has no list', () => {
  const data = '{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":null}';
  expect(readClaimState(JSON.stringify({ Data: data, Checksum: crc32(data) }))).toEqual({ claims: [] });
});

it.each([
  ['no JSON', '{', 'unexpected end of JSON input'],
  ['another checksum', JSON.stringify({ Data: '{}', Checksum: 1 }), 'checkpoint is corrupted'],
  ['no data', JSON.stringify({ Checksum: 0 }), 'checkpoint is corrupted'],
  ['a claim without a name', withData({ ClaimInfoStateList: [{ ClaimUID: 'c1' }] }), 'checkpoint is corrupted'],
  ['a list that is none', withData({ ClaimInfoStateList: {} }), 'checkpoint is corrupted'],
])('with %s it says nothing', (_, text, error) => {
  expect(readClaimState(text)).toEqual({ error });
});

function withData(data: object): string {
  const text = JSON.stringify(data);
  return JSON.stringify({ Data: text, Checksum: crc32(text) });
}
