/** A new key and the request for its certificate. Loaded only by nodes that ask the cluster for certificates. */
// oxlint-disable-next-line import/no-unassigned-import -- what follows needs it to be there
import 'reflect-metadata';
import { generateKeyPairSync } from 'node:crypto';
import {
  type JsonGeneralNames,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
} from '@peculiar/x509';
import type { CertificateTemplate } from '../../machines/operations/certificate.ts';

const CURVE = { name: 'ECDSA', namedCurve: 'P-256' };
const SIGNING = { ...CURVE, hash: 'SHA-256' };

/** Both PEM; the key in the form that upstream writes (SEC 1). */
export async function createRequest(template: CertificateTemplate): Promise<{ request: string; key: string }> {
  const { commonName, organizations, dnsNames, ipAddresses } = template;
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: CURVE.namedCurve });
  const names: JsonGeneralNames = [
    ...dnsNames.map((value) => ({ type: 'dns' as const, value })),
    ...ipAddresses.map((value) => ({ type: 'ip' as const, value })),
  ];
  const request = await Pkcs10CertificateRequestGenerator.create({
    name: [...organizations.map((O) => ({ O: [O] })), { CN: [commonName] }],
    keys: {
      privateKey: privateKey.toCryptoKey(CURVE, true, ['sign']),
      publicKey: publicKey.toCryptoKey(CURVE, true, ['verify']),
    },
    signingAlgorithm: SIGNING,
    ...(names.length > 0 ? { extensions: [new SubjectAlternativeNameExtension(names)] } : {}),
  });
  return { request: `${request.toString('pem')}\n`, key: privateKey.export({ type: 'sec1', format: 'pem' }) };
}
