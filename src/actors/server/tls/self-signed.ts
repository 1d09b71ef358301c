/**
 * The certificate of a node that was given none: signed by an authority of its own, made once and kept.
 *
 * Files and contents are upstream's: `kubelet.crt` holds the certificate and its authority, `kubelet.key` the key, for
 * its owner alone. The authority's key is not kept: nothing else is ever signed by it.
 */
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

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
  const { generate } = await import('./generate-certificate.ts');
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
