/** Creates keys and certificate requests. Loaded only by nodes that request certificates from the cluster. */
// oxlint-disable-next-line import/no-unassigned-import -- the following import requires it
import 'reflect-metadata';
import { createPrivateKey, createPublicKey, generateKeyPair, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';
import {
  type JsonGeneralNames,
  Pkcs10CertificateRequest,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
} from '@peculiar/x509';
import { OperationError } from '../../kernel/json.ts';
import type { CertificateTemplate } from '../../machines/model/operations/certificate.ts';
import { valueIn } from '../../machines/model/values/tables.ts';

const NEW_CURVE = 'P-256';

/** A new key as PEM in the form that upstream writes (SEC 1). */
export const newKey = (): string =>
  generateKeyPairSync('ec', { namedCurve: NEW_CURVE }).privateKey.export({ type: 'sec1', format: 'pem' });

/** The request and the key, both as PEM. */
export async function createRequest(template: CertificateTemplate): Promise<{ request: string; key: string }> {
  const key = newKey();
  return { request: await signedRequest(template, createPrivateKey(key)), key };
}

/** By OpenSSL's name of a curve, how its keys sign; Go's defaults. */
const CURVES: Readonly<Record<string, { readonly namedCurve: string; readonly hash: string }>> = {
  prime256v1: { namedCurve: 'P-256', hash: 'SHA-256' },
  secp384r1: { namedCurve: 'P-384', hash: 'SHA-384' },
  secp521r1: { namedCurve: 'P-521', hash: 'SHA-512' },
};

function signingOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject) {
  if (asymmetricKeyType === 'rsa') return { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
  const curve = valueIn(CURVES, asymmetricKeyDetails?.namedCurve ?? '');
  if (asymmetricKeyType === 'ec' && curve) return { name: 'ECDSA', ...curve };
  throw new OperationError(`unable to generate certificate request: no support for a key of type ${asymmetricKeyType}`);
}

/** A request for a certificate of this key, as PEM. */
export async function signedRequest(template: CertificateTemplate, privateKey: KeyObject): Promise<string> {
  const { commonName, organizations, dnsNames, ipAddresses } = template;
  const signing = signingOf(privateKey);
  const names: JsonGeneralNames = [
    ...dnsNames.map((value) => ({ type: 'dns' as const, value })),
    ...ipAddresses.map((value) => ({ type: 'ip' as const, value })),
  ];
  const request = await Pkcs10CertificateRequestGenerator.create({
    name: [...organizations.map((O) => ({ O: [O] })), { CN: [commonName] }],
    keys: {
      privateKey: privateKey.toCryptoKey(signing, true, ['sign']),
      publicKey: createPublicKey(privateKey).toCryptoKey(signing, true, ['verify']),
    },
    signingAlgorithm: signing,
    ...(names.length > 0 ? { extensions: [new SubjectAlternativeNameExtension(names)] } : {}),
  });
  return `${request.toString('pem')}\n`;
}

/** Why a found request differs from that of this node; empty if it does not. Both are PEM. */
export async function differenceOf(own: string, found: string): Promise<string> {
  const [ours, theirs] = [new Pkcs10CertificateRequest(own), parsedRequest(found)];
  if (theirs === null) return 'unable to parse new csr: PEM block type must be CERTIFICATE REQUEST';
  if (theirs.subject !== ours.subject) return `csr subjects differ: new: ${theirs.subject}, orig: ${ours.subject}`;
  const isOfKey = Buffer.from(theirs.publicKey.rawData).equals(Buffer.from(ours.publicKey.rawData));
  return isOfKey && (await theirs.verify()) ? '' : 'error validating signature new CSR against old key';
}

function parsedRequest(pem: string): Pkcs10CertificateRequest | null {
  try {
    return new Pkcs10CertificateRequest(pem);
  } catch {
    return null;
  }
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
