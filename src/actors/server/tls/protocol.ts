/** Decides what the server speaks: TLS versions, cipher suites and curves as the configuration has them. Pure. */
import type { SecureVersion } from 'node:tls';

/** Names of the configuration, and those of OpenSSL. Suites that no modern client needs are not offered at all. */
const SUITES: Readonly<Record<string, string>> = {
  TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: 'ECDHE-ECDSA-AES128-GCM-SHA256',
  TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: 'ECDHE-ECDSA-AES256-GCM-SHA384',
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305: 'ECDHE-ECDSA-CHACHA20-POLY1305',
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: 'ECDHE-ECDSA-CHACHA20-POLY1305',
  TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA: 'ECDHE-ECDSA-AES128-SHA',
  TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256: 'ECDHE-ECDSA-AES128-SHA256',
  TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA: 'ECDHE-ECDSA-AES256-SHA',
  TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: 'ECDHE-RSA-AES128-GCM-SHA256',
  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: 'ECDHE-RSA-AES256-GCM-SHA384',
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305: 'ECDHE-RSA-CHACHA20-POLY1305',
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: 'ECDHE-RSA-CHACHA20-POLY1305',
  TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA: 'ECDHE-RSA-AES128-SHA',
  TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256: 'ECDHE-RSA-AES128-SHA256',
  TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA: 'ECDHE-RSA-AES256-SHA',
  TLS_RSA_WITH_AES_128_GCM_SHA256: 'AES128-GCM-SHA256',
  TLS_RSA_WITH_AES_256_GCM_SHA384: 'AES256-GCM-SHA384',
};
/** They are not chosen by configuration, upstream either. */
const TLS_1_3 = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'];
const STRONG = [
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
];

export interface TlsOptions {
  /** `VersionTLS12`; empty for the default. */
  readonly minVersion: string;
  /** IANA names; empty for the default. */
  readonly cipherSuites: readonly string[];
  /** Ways to agree on a key, the preferred first; absent: those of OpenSSL. */
  readonly curves?: readonly string[];
}

interface Protocol {
  readonly minVersion: SecureVersion;
  readonly ciphers: string;
  readonly ecdhCurve?: string;
}

/** Versions below 1.2 are not served, even if configured: upstream serves them then. */
export function protocolOf({ minVersion, cipherSuites, curves = [] }: TlsOptions): Protocol {
  const chosen = cipherSuites.flatMap((name) => SUITES[name] ?? []);
  const older = chosen.length > 0 ? chosen : STRONG;
  return {
    minVersion: minVersion === 'VersionTLS13' ? 'TLSv1.3' : 'TLSv1.2',
    ciphers: [...TLS_1_3, ...new Set(older)].join(':'),
    ...(curves.length === 0 ? {} : { ecdhCurve: curves.join(':') }),
  };
}
