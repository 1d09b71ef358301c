/** Requests for certificates of pods, with keys of every type that the API allows. */
// oxlint-disable-next-line import/no-unassigned-import -- what follows needs it to be there
import 'reflect-metadata';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { Pkcs10CertificateRequest } from '@peculiar/x509';
import { expect, it } from 'vitest';
import { createPodRequest } from '../../../src/actors/certificate/certificate-request.ts';

it.each([
  ['RSA3072', 'rsa', { modulusLength: 3_072 }],
  ['RSA4096', 'rsa', { modulusLength: 4_096 }],
  ['ECDSAP256', 'ec', { namedCurve: 'prime256v1' }],
  ['ECDSAP384', 'ec', { namedCurve: 'secp384r1' }],
  ['ECDSAP521', 'ec', { namedCurve: 'secp521r1' }],
  ['ED25519', 'ed25519', {}],
])('%s: the request is empty, and signed by the key that comes with it', async (keyType, type, details) => {
  const { request, key } = await createPodRequest(keyType);
  expect(key).toMatch(/^-----BEGIN PRIVATE KEY-----\n/);
  const privateKey = createPrivateKey(key);
  expect(privateKey.asymmetricKeyType).toBe(type);
  expect(privateKey.asymmetricKeyDetails).toMatchObject(details);
  const csr = new Pkcs10CertificateRequest(request);
  expect(await csr.verify()).toBe(true);
  expect([csr.subject, csr.attributes, csr.extensions]).toEqual(['', [], []]);
  const asked = createPublicKey({ key: Buffer.from(csr.publicKey.rawData), format: 'der', type: 'spki' });
  expect(asked.equals(createPublicKey(key))).toBe(true);
});

it.each(['DSA', '', 'constructor'])('%j is no type of key', async (keyType) => {
  await expect(createPodRequest(keyType)).rejects.toThrow(`unknown key type "${keyType}"`);
});
