/**
 * Key and name of the request for a node's first client certificate, which are the same at each start until it is
 * issued. Upstream: pkg/kubelet/certificate/bootstrap (LoadClientCert, digestedName), client-go util/keyutil.
 */
import { createHash, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { OperationError } from '../../kernel/json.ts';
import { codeOf } from '../../kernel/thrown.ts';
import { type CertificateTemplate, temporaryKey } from '../../machines/model/operations/certificate.ts';
import { reasonOf } from '../kube/kubeconfig-document.ts';
import { newKey } from './certificate-request.ts';

const KEY_MODE = 0o600;
const DIRECTORY_MODE = 0o755;
const PRIVATE_KEY = /-----BEGIN (?<kind>(?:EC |RSA )?PRIVATE KEY)-----[^-]+-----END \k<kind>-----/;

/** The private key in a file of PEM blocks, or `null`. */
export function keyIn(pem: string | null): string | null {
  const block = PRIVATE_KEY.exec(pem ?? '')?.[0];
  if (block === undefined) return null;
  try {
    createPrivateKey(block);
    return `${block}\n`;
  } catch {
    return null;
  }
}

/** The key of an earlier request, or a new one, which is kept for the next start. A file without a key is replaced. */
export async function keptKey(directory: string): Promise<string> {
  const path = temporaryKey(directory);
  const kept = keyIn(await contentOf(path));
  if (kept !== null) return kept;
  const key = newKey();
  const hidden = `${path}.updating`;
  try {
    await mkdir(dirname(path), { recursive: true, mode: DIRECTORY_MODE });
    await rm(hidden, { force: true });
    await writeFile(hidden, key, { mode: KEY_MODE, flush: true });
    await rename(hidden, path);
  } catch (error) {
    await rm(hidden, { force: true }).catch(() => {});
    throw new OperationError(`error writing key to ${path}: open ${path}: ${reasonOf(error)}`);
  }
  return key;
}

async function contentOf(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw new OperationError(`error loading key from ${path}: open ${path}: ${reasonOf(error)}`);
  }
}

/** Usages of a key of this kind, and the name of its request: a digest of all that the request asks for. */
export function requestNameOf(key: string, { commonName, organizations }: CertificateTemplate) {
  const publicKey: KeyObject = createPublicKey(key);
  const usages = ['digital signature', 'client auth'];
  if (publicKey.asymmetricKeyType === 'rsa') usages.push('key encipherment');
  const parts = [publicKey.export({ type: 'spki', format: 'der' }), commonName, ...organizations, ...usages];
  const hash = createHash('sha512-256');
  for (const part of parts) hash.update(`${Buffer.from(part).toString('base64url')}|`);
  return { usages, name: `node-csr-${hash.digest('base64url')}` };
}
