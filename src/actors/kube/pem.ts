/**
 * Checks certificates, keys and authorities in PEM, with the errors of Go's libraries.
 *
 * Upstream: crypto/tls (X509KeyPair), k8s.io/client-go/transport (rootCertPool).
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';

const BEGIN = /-----BEGIN ([A-Z0-9 ]{1,64})-----/g;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

const textOf = (pem: Buffer): string => pem.toString('latin1');
const typesIn = (text: string): string[] => [...text.matchAll(BEGIN)].map(([, type = '']) => type);

/** Throws if they are no pair. */
export function checkPair(certificate: Buffer, key: Buffer): void {
  const [certificateText, keyText] = [textOf(certificate), textOf(key)];
  const [leaf] = certificateText.match(CERTIFICATE) ?? [];
  if (leaf === undefined) throw new Error(missing('CERTIFICATE', 'certificate', typesIn(certificateText)));
  if (!typesIn(keyText).some((type) => type.endsWith('PRIVATE KEY'))) {
    throw new Error(missing('PRIVATE KEY', 'key', typesIn(keyText)));
  }
  if (new X509Certificate(leaf).checkPrivateKey(createPrivateKey(key))) return;
  throw new Error('tls: private key does not match public key');
}

function missing(wanted: string, what: string, types: readonly string[]): string {
  if (types.length === 0) return `tls: failed to find any PEM data in ${what} input`;
  const found = `after skipping PEM blocks of the following types: [${types.join(' ')}]`;
  return wanted === 'CERTIFICATE'
    ? `tls: failed to find "CERTIFICATE" PEM block in certificate input ${found}`
    : `tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input ${found}`;
}

/** Why these are no authorities; empty if they are. An empty file names none, so that those of the system count. */
export function authoritiesProblem(pem: Buffer): string {
  if (pem.length === 0) return '';
  const text = textOf(pem);
  const blocks = text.match(CERTIFICATE) ?? [];
  try {
    if (blocks.some((block) => new X509Certificate(block).raw.length > 0)) return '';
    const why =
      typesIn(text).length === 0 ? 'unable to parse bytes as PEM block' : 'no valid certificate authority data seen';
    return `unable to load root certificates: ${why}`;
  } catch (error) {
    return `unable to load root certificates: failed to parse certificate: ${(error as Error).message}`;
  }
}
