/**
 * Decides whether the file of the clients' authorities can be one, before anything listens. Pure.
 *
 * Upstream reads it when it builds the authenticator (cmd/kubelet/app/auth.go); the server reads it again and follows
 * its changes.
 */

/** Largest bundle that is read, in bytes: a few hundred certificates. */
export const CLIENT_CA_MAX_BYTES = 1_048_576;

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/;

/** Upstream's words for a file that is missing (`null`) or holds no certificate; empty when it does. */
export function clientCARefusal(path: string, content: string | null): string {
  if (content === null) return `open ${path}: no such file or directory`;
  if (CERTIFICATE.test(content)) return '';
  return (
    `error loading CA bundle for ${JSON.stringify(`client-ca-bundle::${path}`)}: ` +
    'data does not contain any valid RSA or ECDSA certificates'
  );
}
