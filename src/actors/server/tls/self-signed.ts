/**
 * The certificate of a node that was given none: signed by an authority of its own, made once and kept.
 *
 * Files and contents are upstream's: `kubelet.crt` holds the certificate and its authority, `kubelet.key` the key, for
 * its owner alone. The authority's key is not kept: nothing else is ever signed by it.
 */
// oxlint-disable-next-line import/no-unassigned-import -- what follows needs it to be there
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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
/** Clocks of clients may be behind ours. */
const BEFORE_MS = 3_600_000;
const DIRECTORY_MODE = 0o755;
const CERTIFICATE_MODE = 0o644;
const KEY_MODE = 0o600;

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** The files below `directory`; made when one of them is missing. Rejects when they can be neither read nor written. */
export async function selfSigned(directory: string, hostname: string): Promise<CertificateFiles> {
  const files = { certFile: join(directory, 'kubelet.crt'), keyFile: join(directory, 'kubelet.key') };
  const there = await Promise.all([files.certFile, files.keyFile].map((file) => readFile(file).catch(() => null)));
  if (there.every((content) => content !== null)) return files;
  await mkdir(directory, { recursive: true, mode: DIRECTORY_MODE });
  const { certificate, key } = await generate(hostname);
  await replace(files.keyFile, key, KEY_MODE);
  await replace(files.certFile, certificate, CERTIFICATE_MODE);
  return files;
}

async function replace(path: string, content: string, mode: number): Promise<void> {
  const hidden = `${path}.new`;
  await writeFile(hidden, content, { mode });
  await chmod(hidden, mode);
  await rename(hidden, path);
}

/** PEM. */
async function generate(hostname: string): Promise<{ certificate: string; key: string }> {
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
  const key = `-----BEGIN PRIVATE KEY-----\n${exported.match(/.{1,64}/g)!.join('\n')}\n-----END PRIVATE KEY-----\n`;
  return { certificate: `${leaf.toString('pem')}\n${root.toString('pem')}\n`, key };
}

/** Positive, and never the same twice. */
const serial = (): string => `00${Buffer.from(webcrypto.getRandomValues(new Uint8Array(16))).toString('hex')}`;

const escaped = (name: string): string => name.replace(/[",+<>;\\=]/g, '\\$&');
