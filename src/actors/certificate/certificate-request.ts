/** Creates keys and certificate requests. Loaded only by nodes that request certificates from the cluster. */
// oxlint-disable-next-line import/no-unassigned-import -- the following import requires it
import 'reflect-metadata';
import { generateKeyPair, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';
import {
  type JsonGeneralNames,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
} from '@peculiar/x509';
import { OperationError } from '../../kernel/json.ts';
import type { CertificateTemplate } from '../../machines/model/operations/certificate.ts';

const CURVE = { name: 'ECDSA', namedCurve: 'P-256' };
const SIGNING = { ...CURVE, hash: 'SHA-256' };

/** The request and the key, both as PEM; the key in the form that upstream writes (SEC 1). */
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

const newKeyPair = promisify(generateKeyPair) as (
  type: string,
  options: object,
) => Promise<{ readonly privateKey: KeyObject; readonly publicKey: KeyObject }>;

/** How a pod's key is created and its request signed; the signature algorithm is Go's default for the key. */
interface PodKey {
  readonly type: 'rsa' | 'ec' | 'ed25519';
  readonly options: object;
  readonly signing: { readonly name: string; readonly namedCurve?: string; readonly hash?: string };
}

const rsa = (modulusLength: number): PodKey => ({
  type: 'rsa',
  options: { modulusLength },
  signing: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' },
});

const ecdsa = (namedCurve: string, hash: string): PodKey => ({
  type: 'ec',
  options: { namedCurve },
  signing: { name: 'ECDSA', namedCurve, hash },
});

const POD_KEYS: Readonly<Record<string, PodKey>> = {
  RSA3072: rsa(3072),
  RSA4096: rsa(4096),
  ECDSAP256: ecdsa('P-256', 'SHA-256'),
  ECDSAP384: ecdsa('P-384', 'SHA-384'),
  ECDSAP521: ecdsa('P-521', 'SHA-512'),
  ED25519: { type: 'ed25519', options: {}, signing: { name: 'Ed25519' } },
};

/** The request in DER, which contains only its key; the key as PKCS#8 in PEM. */
export async function createPodRequest(keyType: string): Promise<{ request: Buffer; key: string }> {
  const kind = Object.hasOwn(POD_KEYS, keyType) ? POD_KEYS[keyType] : undefined;
  if (!kind) throw new OperationError(`unknown key type ${JSON.stringify(keyType)}`, { code: 'INVALID_ARGUMENT' });
  const { type, options, signing } = kind;
  const { privateKey, publicKey } = await newKeyPair(type, options);
  const request = await Pkcs10CertificateRequestGenerator.create({
    keys: {
      privateKey: privateKey.toCryptoKey(signing, true, ['sign']),
      publicKey: publicKey.toCryptoKey(signing, true, ['verify']),
    },
    signingAlgorithm: signing,
  });
  return { request: Buffer.from(request.rawData), key: privateKey.export({ type: 'pkcs8', format: 'pem' }) };
}
