/**
 * The certificate, its key and the authorities of clients, read from files.
 *
 * Owns: the last contents. Invariants: an inconsistent set is never used: the previous one stays, and the reason is
 * reported once; without a certificate handshakes fail, and nothing else.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import { messageOf } from '../../../kernel/thrown.ts';
import { canRead } from '../../host/files.ts';
import { PathWatch } from '../../host/path-watch.ts';

/** Upstream's period of reading the files, which finds changes without a hint. */
const PERIOD_MS = 60_000;
/** The delay from a hint to reading: a certificate and its key are two files, and both must be written. */
const SETTLE_MS = 100;

export interface MaterialFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** Certificate and key that replace the others once they exist; absent: there are none. */
  readonly issuedFile?: string;
  /** Empty: no client authenticates by certificate. */
  readonly clientCAFile: string;
  /** The certificate and its key are read only once. */
  readonly isFixed?: boolean;
  /** The authorities are read only once. */
  readonly isClientCAFixed?: boolean;
}

export interface Material {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** Authorities of clients, PEM; `null` without a file. */
  readonly ca: Buffer | null;
}

export interface CertificateFacts {
  readonly subject: string;
  readonly fingerprint: string;
  /** Milliseconds since the epoch. */
  readonly notAfterMs: number;
}

/** Rejects if a file cannot be read or has invalid content, with the file's name. */
export async function loadMaterial(files: MaterialFiles): Promise<Material> {
  const { certFile, keyFile, clientCAFile } = await currentOf(files);
  const [cert, key] = await Promise.all([readFile(certFile), readFile(keyFile)]);
  const ca = clientCAFile === '' ? null : await readFile(clientCAFile);
  mustHavePem(cert, 'certificate', certFile);
  mustHavePem(key, 'key', keyFile);
  createSecureContext({ cert, key });
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) {
    throw new Error(`tls: private key ${keyFile} does not match public key ${certFile}`);
  }
  if (ca) authoritiesOf(ca, clientCAFile);
  return { cert, key, ca };
}

async function currentOf(files: MaterialFiles): Promise<MaterialFiles> {
  const { issuedFile } = files;
  if (issuedFile === undefined || !(await canRead(issuedFile))) return files;
  return { ...files, certFile: issuedFile, keyFile: issuedFile };
}

/** Throws Go's error, which names the malformed file; OpenSSL's does not. */
function mustHavePem(content: Buffer, what: 'certificate' | 'key', file: string): void {
  if (content.includes('-----BEGIN ')) return;
  throw new Error(`tls: failed to find any PEM data in ${what} input: ${file}`);
}

export function authoritiesOf(bundle: Buffer, name: string): X509Certificate[] {
  const blocks = bundle.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) {
    throw new Error(`unable to load client CA file ${name}: data does not contain any valid RSA or ECDSA certificates`);
  }
  return blocks.map((block) => new X509Certificate(block));
}

export function factsOf({ cert }: Material): CertificateFacts {
  const { subject, fingerprint256, validToDate } = new X509Certificate(cert);
  return {
    subject: subject.replaceAll('\n', ', '),
    fingerprint: fingerprint256.replaceAll(':', '').toLowerCase(),
    notAfterMs: validToDate.getTime(),
  };
}

export interface MaterialChange {
  readonly material: Material;
  readonly isCertificateNew: boolean;
  readonly isAuthorityNew: boolean;
}

function withFixed({ isFixed, isClientCAFixed }: MaterialFiles, now: Material, first: Material | null): Material {
  if (first === null) return now;
  const { cert, key, ca } = first;
  return { ...now, ...(isFixed === true ? { cert, key } : {}), ...(isClientCAFixed === true ? { ca } : {}) };
}

/** Reports each consistent set that differs from the last one; `failed` receives the reason of a bad one once. */
export async function watchMaterial(
  files: MaterialFiles,
  known: Material | null,
  signal: AbortSignal,
  changed: (change: MaterialChange) => void,
  failed: (why: string) => void,
): Promise<void> {
  let hint = () => {};
  const directories = new Set(
    [files.certFile, files.keyFile, files.issuedFile, files.clientCAFile].flatMap((file) =>
      file ? [dirname(file)] : [],
    ),
  );
  const watches = [...directories].map((directory) => new PathWatch(directory, () => hint()));
  let [before, reported] = [known, ''];
  while (!signal.aborted) {
    await Promise.all(watches.map((watch) => watch.arm()));
    const hinted = new Promise<void>((resolve) => (hint = resolve));
    await Promise.race([
      hinted.then(() => pause(SETTLE_MS)),
      pause(PERIOD_MS, undefined, { signal, ref: false }),
    ]).catch(() => {});
    if (signal.aborted) break;
    try {
      const material = withFixed(files, await loadMaterial(files), known);
      const isCertificateNew = !before || !before.cert.equals(material.cert) || !before.key.equals(material.key);
      const isAuthorityNew = (before?.ca ?? null)?.toString() !== material.ca?.toString();
      if (isCertificateNew || isAuthorityNew) changed({ material, isCertificateNew, isAuthorityNew });
      [before, reported] = [material, ''];
    } catch (error) {
      const message = messageOf(error);
      if (message !== reported) failed(message);
      reported = message;
    }
  }
  for (const watch of watches) watch.close();
}
