/**
 * The ports of `certificate.*`: requests, files of pairs, and the kubeconfig written by a bootstrap.
 *
 * The files of pairs are as in upstream's store: `<name>-<time>.pem` with certificate and key, and a link
 * `<name>-current.pem` to the current one. Invariants: the link never names an incomplete file; keys are readable by
 * their owner only; a certificate that does not belong to its key is never written.
 */

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { statSync } from 'node:fs';
import { mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { stringify } from 'yaml';
import type { Vault } from '../../kernel/journal/secrets.ts';
import { OperationError, toPlainError } from '../../kernel/json.ts';
import type { Ports } from '../../kernel/operation.ts';
import { codeOf } from '../../kernel/thrown.ts';
import {
  type CertificateFacts,
  type CertificatePlace,
  type certificateOperations,
  currentPair,
} from '../../machines/model/operations/certificate.ts';
import { canonicalIp } from '../../machines/model/values/ip.ts';
import { tlsProblemOf } from '../kube/client-checks.ts';
import { type Kubeconfig, loadKubeconfig, type Pem } from '../kube/kubeconfig.ts';
import { reasonOf } from '../kube/kubeconfig-document.ts';

const KUBECONFIG_MODE = 0o600;
const DIRECTORY_MODE = 0o755;

export function certificatePorts({ vault }: { readonly vault: Vault }): Ports<typeof certificateOperations> {
  return {
    'certificate.load': async ({ input }) => ({ certificate: await loadPair(input, input) }),
    'certificate.request': async ({ input }) => {
      const { createRequest } = await import('./certificate-request.ts');
      const { request, key } = await createRequest(input);
      return { request: Buffer.from(request).toString('base64'), key: vault.seal(key) };
    },
    'certificate.podKey': async ({ input }) => {
      const { createPodRequest } = await import('./certificate-request.ts');
      const { request, key } = await createPodRequest(input.keyType);
      return { request: request.toString('base64'), key: vault.seal(key) };
    },
    'certificate.firstRequest': async ({ input: { place, template } }) => {
      const { signedRequest } = await import('./certificate-request.ts');
      const { keptKey, keyIn, requestNameOf } = await import('./first-request.ts');
      const key = keyIn(await usablePair(place)) ?? (await keptKey(place.directory));
      const { usages, name } = requestNameOf(key, template);
      const request = Buffer.from(await signedRequest(template, createPrivateKey(key))).toString('base64');
      return { request, name, usages, key: vault.seal(key) };
    },
    'certificate.checkRequest': async ({ input: { request, found } }) => {
      const { differenceOf } = await import('./certificate-request.ts');
      return { problem: await differenceOf(...([request, found].map(fromBase64) as [string, string])) };
    },
    'certificate.store': async ({ input }) => {
      const facts = await storePair(input, fromBase64(input.certificate), vault.open(input.key));
      if (input.keyFile !== undefined) await rm(input.keyFile, { force: true }).catch(() => {});
      return facts;
    },
    'certificate.checkKubeconfig': ({ input }) => checkKubeconfig(input.kubeconfig),
    'certificate.writeKubeconfig': async ({ input }) => {
      await writeKubeconfig(input.kubeconfig, loadKubeconfig(input.bootstrapKubeconfig), currentPair(input.place));
      return null;
    },
  };
}

const fromBase64 = (text: string): string => Buffer.from(text, 'base64').toString();

/** Throws upstream's error if that cannot be found out. */
function exists(path: string): boolean {
  try {
    statSync(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw new OperationError(`error reading existing bootstrap kubeconfig ${path}: stat ${path}: ${reasonOf(error)}`);
  }
}

async function checkKubeconfig(path: string): Promise<{ isValid: boolean; problem: string }> {
  const refused = (problem: string) => ({ isValid: false, problem });
  if (!exists(path)) return refused('');
  try {
    const config = loadKubeconfig(path);
    const { certificate } = config.user;
    const tlsProblem = tlsProblemOf(config);
    if (tlsProblem !== '') {
      return refused(
        `unable to load TLS configuration from existing bootstrap client config read from ${path}: ${tlsProblem}`,
      );
    }
    const certificates = certificate === undefined ? [] : certificatesOf(await textOf(certificate));
    if (certificates.length === 0) {
      const why = 'data does not contain any valid RSA or ECDSA certificates';
      return refused(`unable to load TLS certificates from existing bootstrap client config read from ${path}: ${why}`);
    }
    const expired = certificates.find(({ validToDate }) => validToDate.getTime() < Date.now());
    if (!expired) return { isValid: true, problem: '' };
    const time = expired.validToDate.toISOString().replace('T', ' ').replace('.000Z', ' +0000 UTC');
    return refused(`part of the existing bootstrap client certificate in ${path} is expired: ${time}`);
  } catch (error) {
    return refused(`unable to read existing bootstrap client config from ${path}: ${toPlainError(error).message}`);
  }
}

const textOf = async (pem: Pem): Promise<string> =>
  'data' in pem ? pem.data.toString() : await readFile(pem.file, 'utf8');

async function writeKubeconfig(path: string, bootstrap: Kubeconfig, pair: string): Promise<void> {
  const { server, insecure, ca } = bootstrap;
  const cluster = {
    ...(ca === undefined ? {} : authorityOf(ca)),
    ...(insecure ? { 'insecure-skip-tls-verify': true } : {}),
    server,
  };
  const config = {
    apiVersion: 'v1',
    clusters: [{ cluster, name: 'default-cluster' }],
    contexts: [
      { context: { cluster: 'default-cluster', namespace: 'default', user: 'default-auth' }, name: 'default-context' },
    ],
    'current-context': 'default-context',
    kind: 'Config',
    users: [{ name: 'default-auth', user: { 'client-certificate': pair, 'client-key': pair } }],
  };
  await mkdir(dirname(path), { recursive: true, mode: DIRECTORY_MODE });
  const text = stringify(config, { indentSeq: false, lineWidth: 0 });
  await replace(path, (hidden) => writeFile(hidden, text, { mode: KUBECONFIG_MODE, flush: true }));
}

const authorityOf = (ca: Pem): Record<string, string> =>
  'data' in ca ? { 'certificate-authority-data': ca.data.toString('base64') } : { 'certificate-authority': ca.file };

const PAIR_MODE = 0o600;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Go's error for a pair without a certificate. */
const NO_CERTIFICATE = 'tls: failed to find any PEM data in certificate input';
const NO_KEY = 'tls: failed to find any PEM data in key input';

async function loadPair(
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

/** The current pair, if its certificate and key belong together: it may have expired. */
async function usablePair(place: CertificatePlace): Promise<string | null> {
  const current = currentPair(place);
  try {
    const pair = await contentOf(current);
    if (pair !== null) factsOf(current, pair, pair);
    return pair;
  } catch {
    return null;
  }
}

/** `certificate` and `key` are PEM. */
async function storePair(place: CertificatePlace, certificate: string, key: string): Promise<CertificateFacts> {
  const pair = `${certificate.trimEnd()}\n${key.trimEnd()}\n`;
  const path = join(place.directory, `${place.name}-${fileTime(new Date())}.pem`);
  const facts = factsOf(path, certificate, key);
  await mkdir(place.directory, { recursive: true, mode: DIRECTORY_MODE });
  await replace(path, (hidden) => writeFile(hidden, pair, { mode: PAIR_MODE, flush: true }));
  await replace(currentPair(place), (hidden) => symlink(path, hidden));
  return facts;
}

/** Replaces a file atomically: a reader finds a complete file or no file. A failure leaves nothing: it may be a key. */
async function replace(path: string, write: (hidden: string) => Promise<void>): Promise<void> {
  const hidden = `${path}.updating`;
  await rm(hidden, { force: true });
  try {
    await write(hidden);
    await rename(hidden, path);
  } catch (error) {
    await rm(hidden, { force: true });
    throw error;
  }
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
  const namesOf = (kind: string) => names.flatMap((name) => (name.startsWith(kind) ? [name.slice(kind.length)] : []));
  return {
    path,
    notBeforeMs: leaf.validFromDate.getTime(),
    notAfterMs: leaf.validToDate.getTime(),
    commonName,
    organizations,
    dnsNames: namesOf('DNS:'),
    // OpenSSL writes every zero of an IPv6 address; requests have them as Go writes them.
    ipAddresses: namesOf('IP Address:').map(canonicalIp),
  };
}

const certificatesOf = (text: string): X509Certificate[] =>
  (text.match(CERTIFICATE) ?? []).map((block) => new X509Certificate(block));

function subjectOf(subject: string) {
  const fields = subject.split('\n');
  const attribute = (name: string) =>
    fields.flatMap((field) => (field.startsWith(`${name}=`) ? [field.slice(name.length + 1)] : []));
  return { commonName: attribute('CN')[0] ?? '', organizations: attribute('O') };
}

const unusable = (message: string): OperationError =>
  new OperationError(message, { name: 'CertificateError', code: 'UNUSABLE_CERTIFICATE' });

/** `2026-11-21-07-03-20`, in local time, as in upstream's file names. */
function fileTime(date: Date): string {
  const twoDigits = (value: number) => String(value).padStart(2, '0');
  const day = [date.getFullYear(), twoDigits(date.getMonth() + 1), twoDigits(date.getDate())];
  return [...day, twoDigits(date.getHours()), twoDigits(date.getMinutes()), twoDigits(date.getSeconds())].join('-');
}
