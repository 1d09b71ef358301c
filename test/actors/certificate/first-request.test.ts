/** The key and the name of the first request of a node: the same at each start, and the kubelet's. */
import { generateKeyPairSync } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import {
  createRequest,
  differenceOf,
  newKey,
  signedRequest,
} from '../../../src/actors/certificate/certificate-request.ts';
import { certificatePorts } from '../../../src/actors/certificate/certificates.ts';
import { keptKey, keyIn, requestNameOf } from '../../../src/actors/certificate/first-request.ts';
import { Vault } from '../../../src/kernel/journal/secrets.ts';
import { clientPlace, nodeTemplate } from '../../../src/machines/startup/certificates/setup.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';

const template = nodeTemplate('n1', { dnsNames: [], ipAddresses: [] });
const FILE = 'kubelet-client.key.tmp';

it('a key is kept until its certificate is there, for its owner only', async () => {
  const folder = join(await temporaryFolder(), 'pki');
  const key = await keptKey(folder);
  expect(await keptKey(folder)).toBe(key);
  expect(statSync(join(folder, FILE)).mode & 0o777).toBe(0o600);
});

it.each(['', 'nothing of a key', '-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n'])(
  'a file without a key is replaced: %j',
  async (content) => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, FILE), content);
    const key = await keptKey(folder);
    expect(keyIn(key)).toBe(key);
    expect(readFileSync(join(folder, FILE), 'utf8')).toBe(key);
  },
);

it('a file that cannot be read is an error, as upstream', async () => {
  const folder = await temporaryFolder();
  mkdirSync(join(folder, FILE));
  await expect(keptKey(folder)).rejects.toThrow(`error loading key from ${join(folder, FILE)}: open`);
});

it('the name tells keys, nodes and usages apart', () => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' });
  const key = newKey();
  const named = requestNameOf(key, template);
  expect(named).toEqual({
    usages: ['digital signature', 'client auth'],
    name: expect.stringMatching(/^node-csr-[\w-]{43}$/),
  });
  expect(requestNameOf(key, template)).toEqual(named);
  expect(requestNameOf(newKey(), template).name).not.toBe(named.name);
  expect(requestNameOf(key, nodeTemplate('n2', { dnsNames: [], ipAddresses: [] })).name).not.toBe(named.name);
  expect(requestNameOf(rsa, template).usages).toContain('key encipherment');
});

it('another request of the same key is the same; one of another key, of another node, or none is not', async () => {
  const key = await import('node:crypto').then(({ createPrivateKey }) => createPrivateKey(newKey()));
  const own = await signedRequest(template, key);
  expect(await differenceOf(own, await signedRequest(template, key))).toBe('');
  const other = (await createRequest(template)).request;
  expect(await differenceOf(own, other)).toBe('error validating signature new CSR against old key');
  const ofOther = await signedRequest(nodeTemplate('n2', { dnsNames: [], ipAddresses: [] }), key);
  expect(await differenceOf(own, ofOther)).toContain('csr subjects differ');
  expect(await differenceOf(own, 'junk')).toContain('unable to parse new csr');
});

it('two starts make one request; the key of a pair on disk is used; the kept key goes with its certificate', async () => {
  const folder = await temporaryFolder();
  const vault = new Vault(Buffer.alloc(32));
  const { 'certificate.firstRequest': first } = certificatePorts({ vault });
  const ask = () => perform(first, { place: clientPlace(folder), template });
  const [one, two] = [await ask(), await ask()];
  expect({ ...two, request: '' }).toEqual({ ...one, request: '' });
  expect(JSON.stringify(one)).not.toContain('PRIVATE KEY');
  chmodSync(join(folder, FILE), 0o600);
  const fresh = newKey();
  writeFileSync(join(folder, 'kubelet-client-current.pem'), fresh);
  expect((await ask()).name).toBe(one.name);
  expect(existsSync(join(folder, FILE))).toBe(true);
});
