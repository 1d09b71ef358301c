/**
 * The files of certificates, as in upstream's store: `<name>-<time>.pem` with certificate and key, and a link
 * `<name>-current.pem` to the current one.
 *
 * Invariants: the link never names an incomplete file; keys are readable by their owner only; a certificate that does
 * not belong to its key is never written.
 */

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { OperationError } from '../../kernel/json.ts';
import { codeOf } from '../../kernel/thrown.ts';
import {
  type CertificateFacts,
  type CertificatePlace,
  currentPair,
} from '../../machines/model/operations/certificate.ts';

const DIRECTORY_MODE = 0o755;
const PAIR_MODE = 0o600;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Go's error for an invalid pair. */
const NO_CERTIFICATE = 'tls: failed to find any PEM data in certificate input';
const NO_KEY = 'tls: failed to find any PEM data in key input';

export async function loadPair(
  place: CertificatePlace,
  files: { readonly certFile: string; readonly keyFile: string },
): Promise<CertificateFacts | null> {
  const current = currentPair(place);
  const pair = await contentOf(current);
  if (pair !== null) return factsOf(current, pair, pair);
  const named = [
    files,
    { certFile: join(place.directory, `${place.name}.crt`), keyFile: join(place.directory, `${place.name}.key`) },
  ];
  for (const { certFile, keyFile } of named) {
    if (certFile === '' || keyFile === '') continue;
    const [cert, key] = [await contentOf(certFile), await contentOf(keyFile)];
    if (cert !== null && key !== null) return factsOf(certFile, cert, key);
  }
  return null;
}

/** `certificate` and `key` are PEM. */
export async function storePair(place: CertificatePlace, certificate: string, key: string): Promise<CertificateFacts> {
  const pair = `${certificate.trimEnd()}\n${key.trimEnd()}\n`;
  const path = join(place.directory, `${place.name}-${fileTime(new Date())}.pem`);
  const facts = factsOf(path, certificate, key);
  await mkdir(place.directory, { recursive: true, mode: DIRECTORY_MODE });
  await replace(path, (hidden) => writeFile(hidden, pair, { mode: PAIR_MODE }));
  await replace(currentPair(place), (hidden) => symlink(path, hidden));
  return facts;
}

/** Readers of the name find a complete file or none. */
async function replace(path: string, write: (hidden: string) => Promise<void>): Promise<void> {
  const hidden = `${path}.updating`;
  await rm(hidden, { force: true });
  await write(hidden);
  await rename(hidden, path);
}

async function contentOf(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

/** Reads the first certificate, and verifies that the key belongs to it. */
function factsOf(path: string, certificate: string, key: string): CertificateFacts {
  const [leaf] = certificatesOf(certificate);
  if (leaf === undefined) throw unusable(NO_CERTIFICATE);
  if (!key.includes('PRIVATE KEY-----')) throw unusable(NO_KEY);
  if (!leaf.checkPrivateKey(createPrivateKey(key))) {
    throw unusable('tls: private key does not match public key');
  }
  const { commonName, organizations } = subjectOf(leaf.subject);
  const names = (leaf.subjectAltName ?? '').split(', ');
  const of = (kind: string) => names.flatMap((name) => (name.startsWith(kind) ? [name.slice(kind.length)] : []));
  return {
    path,
    notBeforeMs: leaf.validFromDate.getTime(),
    notAfterMs: leaf.validToDate.getTime(),
    commonName,
    organizations,
    dnsNames: of('DNS:'),
    ipAddresses: of('IP Address:'),
  };
}

/** Every certificate of a PEM text. */
export const certificatesOf = (text: string): X509Certificate[] =>
  (text.match(CERTIFICATE) ?? []).map((block) => new X509Certificate(block));

function subjectOf(subject: string) {
  const fields = subject.split('\n');
  const of = (name: string) =>
    fields.flatMap((field) => (field.startsWith(`${name}=`) ? [field.slice(name.length + 1)] : []));
  return { commonName: of('CN')[0] ?? '', organizations: of('O') };
}

const unusable = (message: string): OperationError =>
  new OperationError(message, { name: 'CertificateError', code: 'UNUSABLE_CERTIFICATE' });

/** `2026-11-21-07-03-20`, in local time, as in upstream's file names. */
function fileTime(date: Date): string {
  const twoDigits = (value: number) => String(value).padStart(2, '0');
  const day = [date.getFullYear(), twoDigits(date.getMonth() + 1), twoDigits(date.getDate())];
  return [...day, twoDigits(date.getHours()), twoDigits(date.getMinutes()), twoDigits(date.getSeconds())].join('-');
}
