/** The certificate authority of the test cluster: for the server, for users, and for signed requests. */
// oxlint-disable-next-line import/no-unassigned-import -- what follows needs it to be there
import 'reflect-metadata';
import { randomBytes, webcrypto } from 'node:crypto';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type JsonGeneralNames,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  Pkcs10CertificateRequest,
  SubjectAlternativeNameExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';

const KEYS = { name: 'ECDSA', namedCurve: 'P-256' };
const SIGNING = { ...KEYS, hash: 'SHA-256' };
const SUBJECT_ALTERNATIVE_NAME = '2.5.29.17';
/** Certificates begin a little before now, because clocks differ; as in kube-controller-manager. */
const BACKDATE_MS = 300_000;
const CA_LIFETIME_MS = 365 * 86_400_000;

const USAGES: Readonly<Record<string, ExtendedKeyUsage>> = {
  'client auth': ExtendedKeyUsage.clientAuth,
  'server auth': ExtendedKeyUsage.serverAuth,
};

export interface Credential {
  /** PEM */
  readonly cert: string;
  /** PEM, PKCS #8 */
  readonly key: string;
}

interface CertificateOptions {
  readonly commonName: string;
  readonly organizations?: readonly string[];
  readonly names?: JsonGeneralNames;
  readonly usages: readonly string[];
  readonly notBefore?: Date;
  readonly notAfter?: Date;
}

export class Authority {
  readonly caPem: string;
  private readonly certificate: X509Certificate;
  private readonly keys: webcrypto.CryptoKeyPair;

  private constructor(certificate: X509Certificate, keys: webcrypto.CryptoKeyPair) {
    this.certificate = certificate;
    this.keys = keys;
    this.caPem = `${certificate.toString('pem')}\n`;
  }

  static async create(commonName: string): Promise<Authority> {
    const keys = await generateKeys();
    const certificate = await X509CertificateGenerator.createSelfSigned({
      name: [{ CN: [commonName] }],
      notBefore: new Date(Date.now() - BACKDATE_MS),
      notAfter: new Date(Date.now() + CA_LIFETIME_MS),
      keys,
      signingAlgorithm: SIGNING,
      serialNumber: serial(),
      extensions: [
        new BasicConstraintsExtension(true, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.digitalSignature, true),
      ],
    });
    return new Authority(certificate, keys);
  }

  /** A new key and its certificate. */
  async issue(options: CertificateOptions): Promise<Credential> {
    const keys = await generateKeys();
    const cert = await this.certify(keys.publicKey, options);
    const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey);
    return { cert, key: `${PemConverter.encode(pkcs8, 'PRIVATE KEY')}\n` };
  }

  /** The certificate for a request as it is, valid for `lifetimeMs` from now. */
  async sign(request: string, usages: readonly string[], lifetimeMs: number): Promise<string> {
    const csr = new Pkcs10CertificateRequest(request);
    if (!(await csr.verify())) throw new Error('the signature of the request is not by its key');
    const { commonName, organizations } = subjectOf(csr);
    const names = namesOf(csr);
    const notBefore = new Date(Date.now() - BACKDATE_MS);
    const notAfter = new Date(Date.now() + lifetimeMs);
    const publicKey = await csr.publicKey.export();
    return await this.certify(publicKey, { commonName, organizations, names, usages, notBefore, notAfter });
  }

  /** The chain for a request that contains only its key; rejected if its author does not have that key. */
  async signPod(request: Buffer, commonName: string, lifetimeMs: number): Promise<string> {
    const csr = new Pkcs10CertificateRequest(request);
    if (!(await csr.verify())) throw new Error('the signature of the request is not by its key');
    const notAfter = new Date(Date.now() + lifetimeMs);
    const publicKey = await csr.publicKey.export();
    return await this.certify(publicKey, { commonName, usages: ['client auth'], notAfter });
  }

  private async certify(publicKey: webcrypto.CryptoKey, options: CertificateOptions): Promise<string> {
    const { commonName, organizations = [], names = [], usages, notBefore, notAfter } = options;
    const certificate = await X509CertificateGenerator.create({
      subject: [...organizations.map((O) => ({ O: [O] })), { CN: [commonName] }],
      issuer: this.certificate.subject,
      serialNumber: serial(),
      notBefore: notBefore ?? new Date(Date.now() - BACKDATE_MS),
      notAfter: notAfter ?? new Date(Date.now() + CA_LIFETIME_MS),
      publicKey,
      signingKey: this.keys.privateKey,
      signingAlgorithm: SIGNING,
      extensions: [
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension(usages.flatMap((usage) => USAGES[usage] ?? [])),
        new BasicConstraintsExtension(false, undefined, true),
        await AuthorityKeyIdentifierExtension.create(this.certificate),
        ...(names.length > 0 ? [new SubjectAlternativeNameExtension(names)] : []),
      ],
    });
    return `${certificate.toString('pem')}\n`;
  }
}

const generateKeys = async (): Promise<webcrypto.CryptoKeyPair> =>
  await webcrypto.subtle.generateKey(KEYS, true, ['sign', 'verify']);

/** Positive and unique. */
const serial = (): string => `00${randomBytes(15).toString('hex')}`;

function namesOf(csr: Pkcs10CertificateRequest): JsonGeneralNames {
  const extension = csr.getExtension(SUBJECT_ALTERNATIVE_NAME);
  return extension ? new SubjectAlternativeNameExtension(extension.rawData).names.toJSON() : [];
}

/** The subject of a certificate or a request. */
function subjectOf({ subjectName }: Pick<Pkcs10CertificateRequest, 'subjectName'>) {
  return { commonName: subjectName.getField('CN')[0] ?? '', organizations: subjectName.getField('O') };
}
