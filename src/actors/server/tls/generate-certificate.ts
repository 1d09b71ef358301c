/**
 * Creates a certificate and its authority. Separate from `self-signed.ts`, because the library takes 5 MiB and a fifth
 * of a second to load, and a node needs it only once.
 */
// oxlint-disable-next-line import/no-unassigned-import -- the following import requires it
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';

const ALGORITHM = {
  name: 'RSASSA-PKCS1-v1_5',
  hash: 'SHA-256',
  publicExponent: new Uint8Array([1, 0, 1]),
  modulusLength: 2_048,
};
const LIFETIME_MS = 365 * 24 * 3_600_000;
/** How long before now the certificate becomes valid, because clocks of clients may be slow. */
const BEFORE_MS = 3_600_000;
/** A server certificate for this name, followed by its authority's, and its key; all as PEM. Valid for a year. */
export async function generate(hostname: string): Promise<{ certificate: string; key: string }> {
  const { subtle } = webcrypto;
  const [authority, server] = await Promise.all([
    subtle.generateKey(ALGORITHM, true, ['sign', 'verify']),
    subtle.generateKey(ALGORITHM, true, ['sign', 'verify']),
  ]);
  const now = Date.now();
  const seconds = Math.floor(now / 1_000);
  const validity = { notBefore: new Date(now - BEFORE_MS), notAfter: new Date(now + LIFETIME_MS) };
  const issuer = `CN=${escaped(hostname)}-ca@${seconds}`;
  const root = await X509CertificateGenerator.createSelfSigned({
    ...validity,
    serialNumber: serial(),
    name: issuer,
    keys: authority,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      new KeyUsagesExtension(
        KeyUsageFlags.digitalSignature | KeyUsageFlags.keyEncipherment | KeyUsageFlags.keyCertSign,
        true,
      ),
    ],
  });
  const leaf = await X509CertificateGenerator.create({
    ...validity,
    serialNumber: serial(),
    issuer,
    subject: `CN=${escaped(hostname)}@${seconds}`,
    publicKey: server.publicKey,
    signingKey: authority.privateKey,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature | KeyUsageFlags.keyEncipherment, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension([{ type: 'dns', value: hostname }]),
    ],
  });
  const exported = Buffer.from(await subtle.exportKey('pkcs8', server.privateKey)).toString('base64');
  const key = `-----BEGIN PRIVATE KEY-----\n${exported.replaceAll(/.{64}(?=.)/g, '$&\n')}\n-----END PRIVATE KEY-----\n`;
  return { certificate: `${leaf.toString('pem')}\n${root.toString('pem')}\n`, key };
}

/** A serial number, positive and unique. */
const serial = (): string => `00${Buffer.from(webcrypto.getRandomValues(new Uint8Array(16))).toString('hex')}`;

const escaped = (name: string): string => name.replace(/[",+<>;\\=]/g, '\\$&');
