/** Decides whether the cipher suites and the TLS version of the server have names that are known. */

import type { KubeletConfiguration } from '../types.ts';
import { quote } from '../values/go-text.ts';

const TLS_VERSIONS = ['VersionTLS10', 'VersionTLS11', 'VersionTLS12', 'VersionTLS13'] as const;

/** IANA names, the weak ones included: upstream accepts them here and refuses some when it serves. */
const CIPHER_SUITES = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA',
  'TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256',
  'TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256',
  'TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA',
  'TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384',
  'TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305',
  'TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256',
  'TLS_ECDHE_ECDSA_WITH_RC4_128_SHA',
  'TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA',
  'TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA',
  'TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256',
  'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256',
  'TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA',
  'TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384',
  'TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305',
  'TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256',
  'TLS_ECDHE_RSA_WITH_RC4_128_SHA',
  'TLS_RSA_WITH_3DES_EDE_CBC_SHA',
  'TLS_RSA_WITH_AES_128_CBC_SHA',
  'TLS_RSA_WITH_AES_128_CBC_SHA256',
  'TLS_RSA_WITH_AES_128_GCM_SHA256',
  'TLS_RSA_WITH_AES_256_CBC_SHA',
  'TLS_RSA_WITH_AES_256_GCM_SHA384',
  'TLS_RSA_WITH_RC4_128_SHA',
] as const;

/** One of these must be among the chosen suites: HTTP/2 asks for it. */
const HTTP2_SUITES = ['TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256', 'TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256'];

/** Go's refusal to serve HTTP/2 with these suites; empty when it can. */
export function http2Refusal(cipherSuites: readonly string[], minVersion: string): string {
  const isFree = cipherSuites.length === 0 || minVersion === 'VersionTLS13';
  if (isFree || HTTP2_SUITES.some((suite) => cipherSuites.includes(suite))) return '';
  return (
    'http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher ' +
    `(need at least one of ${HTTP2_SUITES.join(' or ')})`
  );
}

export function tlsError({ tlsCipherSuites, tlsMinVersion }: KubeletConfiguration): string | null {
  const unknown = tlsCipherSuites.find((name) => !CIPHER_SUITES.some((known) => known === name));
  if (unknown !== undefined) return `Cipher suite ${unknown} not supported or doesn't exist`;
  if (tlsMinVersion === '' || TLS_VERSIONS.some((known) => known === tlsMinVersion)) return null;
  return `unknown tls version ${quote(tlsMinVersion)}`;
}
