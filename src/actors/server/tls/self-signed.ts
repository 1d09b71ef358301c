/**
 * The self-signed certificate of a node without a configured one: signed by its own authority, created once and kept.
 *
 * Files and contents are upstream's: `kubelet.crt` holds the certificate and its authority, `kubelet.key` the key,
 * readable by its owner only. The authority's key is discarded: it signs nothing else. If only one file of the pair
 * exists, another program wrote it, and it is not changed.
 */
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { OperationError } from '../../../kernel/json.ts';
import { tlsPairError } from '../../../machines/model/configuration/tls-options.ts';
import { canRead } from '../../host/files.ts';

const DIRECTORY_MODE = 0o755;
const CERTIFICATE_MODE = 0o644;
const KEY_MODE = 0o600;

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** The files below `directory`; created if neither can be read. Rejects if only one can, or they cannot be written. */
export async function selfSigned(directory: string, hostname: string): Promise<CertificateFiles> {
  const files = { certFile: join(directory, 'kubelet.crt'), keyFile: join(directory, 'kubelet.key') };
  const { certFile, keyFile } = files;
  const [hasCertificate, hasKey] = await Promise.all([certFile, keyFile].map(canRead));
  if (hasCertificate && hasKey) return files;
  if (hasKey && !hasCertificate && (await canRead(hidden(certFile)))) {
    // An agent killed between the two renames has left the other half ready.
    await rename(hidden(certFile), certFile);
    return files;
  }
  if (hasCertificate || hasKey) throw new OperationError(tlsPairError(hasKey ? certFile : keyFile));
  await mkdir(directory, { recursive: true, mode: DIRECTORY_MODE });
  const { generate } = await import('./generate-certificate.ts');
  const { certificate, key } = await generate(hostname);
  await prepare(keyFile, key, KEY_MODE);
  await prepare(certFile, certificate, CERTIFICATE_MODE);
  for (const file of [keyFile, certFile]) await rename(hidden(file), file);
  return files;
}

const hidden = (path: string): string => `${path}.new`;

async function prepare(path: string, content: string, mode: number): Promise<void> {
  await writeFile(hidden(path), content, { mode });
  await chmod(hidden(path), mode);
}
