/** Validates the names of the server's cipher suites, TLS version and curves. */

import { quote } from '../values/go-text.ts';
import type { KubeletConfiguration } from './fields.ts';

const TLS_VERSIONS = ['VersionTLS10', 'VersionTLS11', 'VersionTLS12', 'VersionTLS13'] as const;

/** IANA names, including the weak ones: upstream accepts them here and rejects some when it serves. */
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

/** HTTP/2 requires one of these suites. */
const HTTP2_SUITES = ['TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256', 'TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256'];

/** Go's error when these suites do not allow HTTP/2; empty if they do. */
export function http2Refusal(cipherSuites: readonly string[], minVersion: string): string {
  const isFree = cipherSuites.length === 0 || minVersion === 'VersionTLS13';
  if (isFree || HTTP2_SUITES.some((suite) => cipherSuites.includes(suite))) return '';
  return (
    'http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher ' +
    `(need at least one of ${HTTP2_SUITES.join(' or ')})`
  );
}

/** OpenSSL's names of curves and other key exchanges, by their numbers in TLS. */
const CURVES: Readonly<Record<number, string>> = {
  23: 'P-256',
  24: 'P-384',
  25: 'P-521',
  29: 'X25519',
  4587: 'SecP256r1MLKEM768',
  4588: 'X25519MLKEM768',
  4589: 'SecP384r1MLKEM1024',
};
const LARGEST_CURVE = 65_535;

export const curveNames = (ids: readonly number[]): readonly string[] => ids.flatMap((id) => CURVES[id] ?? []);

function curvesError(ids: readonly number[]): string | null {
  for (const [at, id] of ids.entries()) {
    if (id <= 0 || id > LARGEST_CURVE) return `curve preference ${id} is out of range (must be 1-${LARGEST_CURVE})`;
    if (ids.indexOf(id) < at) return `duplicate curve preference ${id}`;
    if (CURVES[id] === undefined) return `curve preference ${id} is not supported by the current Go version`;
  }
  return null;
}

export function tlsError(configuration: KubeletConfiguration): string | null {
  const { tlsCipherSuites, tlsMinVersion, tlsCurvePreferences } = configuration;
  const unknown = tlsCipherSuites.find((name) => !CIPHER_SUITES.some((known) => known === name));
  if (unknown !== undefined) return `Cipher suite ${unknown} not supported or doesn't exist`;
  const isKnown = tlsMinVersion === '' || TLS_VERSIONS.some((known) => known === tlsMinVersion);
  return isKnown ? curvesError(tlsCurvePreferences) : `unknown tls version ${quote(tlsMinVersion)}`;
}

/** Suites that Go's library names insecure: they use RC4, 3DES, CBC with SHA-256, or no forward secrecy. */
const isInsecure = (suite: string): boolean => /RC4|3DES|CBC_SHA256$|^TLS_RSA_/.test(suite);

/** What upstream logs about suites that it accepts. */
export function tlsWarnings({ tlsCipherSuites: suites, tlsMinVersion }: KubeletConfiguration) {
  const insecure = suites
    .filter(isInsecure)
    .map((cipher): [string, { cipher: string }] => ['Use of insecure cipher detected.', { cipher }]);
  const ignored = 'Warning: TLS 1.3 cipher suites are not configurable, ignoring --tls-cipher-suites';
  return [...insecure, ...(tlsMinVersion === 'VersionTLS13' && suites.length > 0 ? [ignored] : [])];
}

/** The error of a pair of files of which this one cannot be read. */
export const tlsPairError = (path: string): string =>
  `error reading ${path}, certificate and key must be supplied as a pair`;
