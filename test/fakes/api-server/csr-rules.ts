/**
 * kube-apiserver's rules for a new CertificateSigningRequest, and kube-controller-manager's rules before it signs one:
 * subject, alternative names and usages, by the name of the signer.
 */
// oxlint-disable-next-line import/no-unassigned-import -- what follows needs it to be there
import 'reflect-metadata';
import {
  type JsonGeneralName,
  PemConverter,
  Pkcs10CertificateRequest,
  SubjectAlternativeNameExtension,
} from '@peculiar/x509';
import { forbidden, invalid } from '../../../src/simulation/api-server/errors.ts';
import { type ApiObject, knownKind, textOf, type User } from '../../../src/simulation/api-server/kinds.ts';

const CLIENT = 'kubernetes.io/kube-apiserver-client-kubelet';
const SERVING = 'kubernetes.io/kubelet-serving';
const LIFETIME_MIN_SECONDS = 600;
const SUBJECT_ALTERNATIVE_NAME = '2.5.29.17';
const NODE_PREFIX = 'system:node:';
const PEM_TYPE = 'CERTIFICATE REQUEST';

const csrKind = knownKind('certificates.k8s.io/v1', 'certificatesigningrequests');

interface Parsed {
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly names: readonly JsonGeneralName[];
}

/** Rejects an invalid request, and a request of a node that is for another node. */
export function admitCsr(object: ApiObject, user: User): void {
  const { spec = {} } = object;
  const refuse = (field: string, why: string) => invalid(csrKind, object.metadata.name, `spec.${field}`, why);
  const signer = textOf(spec['signerName']);
  if (!/^[a-z0-9.-]+\/[\w.-]+$/.test(signer)) throw refuse('signerName', 'must be a fully qualified domain and path');
  if (!Array.isArray(spec['usages']) || spec['usages'].length === 0) throw refuse('usages', 'Required value');
  const seconds = spec['expirationSeconds'];
  if (typeof seconds === 'number' && seconds < LIFETIME_MIN_SECONDS) {
    throw refuse('expirationSeconds', 'may not specify a duration less than 600 seconds (10 minutes)');
  }
  const request = attempt(() => read(textOf(spec['request'])));
  if (request instanceof Error) throw refuse('request', `Invalid value: ${request.message}`);
  const isNode = user.groups.includes('system:nodes') && user.name.startsWith(NODE_PREFIX);
  if (isNode && (signer === CLIENT || signer === SERVING) && request.commonName !== user.name) {
    throw forbidden(
      `certificatesigningrequests.certificates.k8s.io "${object.metadata.name}" is forbidden: ` +
        `can only create a node CSR with CN=${user.name}`,
    );
  }
}

/** Why the signer does not sign it; empty if it does, `undefined` if the request is for another signer. */
export function signerRefusal({ spec = {} }: Pick<ApiObject, 'spec'>): string | undefined {
  const signer = textOf(spec['signerName']);
  if (signer !== CLIENT && signer !== SERVING) return undefined;
  const request = read(textOf(spec['request']));
  const usages = (Array.isArray(spec['usages']) ? spec['usages'] : []).map(String);
  return subjectRefusal(request) || (signer === CLIENT ? clientRefusal : servingRefusal)(request, usages);
}

const subjectRefusal = ({ organizations }: Parsed): string =>
  organizations.length === 1 && organizations[0] === 'system:nodes' ? '' : 'subject organization is not system:nodes';

const NAMES: readonly (readonly [JsonGeneralName['type'], string])[] = [
  ['dns', 'DNS'],
  ['email', 'Email'],
  ['ip', 'IP'],
  ['url', 'URI'],
];

function clientRefusal({ names, commonName }: Parsed, usages: readonly string[]): string {
  const present = NAMES.find(([type]) => names.some((name) => name.type === type));
  if (present) return `${present[1]} subjectAltNames are not allowed`;
  return nameRefusal(commonName) || usageRefusal(usages, 'client auth');
}

function servingRefusal({ names, commonName }: Parsed, usages: readonly string[]): string {
  const has = (...types: readonly JsonGeneralName['type'][]) => names.some(({ type }) => types.includes(type));
  if (!has('dns', 'ip')) return 'DNS or IP subjectAltName is required';
  if (has('email')) return 'Email subjectAltNames are not allowed';
  if (has('url')) return 'URI subjectAltNames are not allowed';
  return usageRefusal(usages, 'server auth') || nameRefusal(commonName);
}

const nameRefusal = (commonName: string): string =>
  commonName.startsWith(NODE_PREFIX) ? '' : 'subject common name does not begin with system:node:';

/** Key encipherment is for RSA keys, and optional. */
function usageRefusal(usages: readonly string[], purpose: string): string {
  const required = ['digital signature', purpose];
  const given = [...new Set(usages)].filter((usage) => usage !== 'key encipherment').toSorted();
  const isSame = JSON.stringify(given) === JSON.stringify(required.toSorted());
  return isSame ? '' : `usages did not match [${['key encipherment', ...required].toSorted().join(' ')}]`;
}

/** One PEM block, as base64. */
function parsed(request: string): Pkcs10CertificateRequest {
  const [block, ...more] = PemConverter.decodeWithHeaders(Buffer.from(request, 'base64').toString());
  if (block?.type !== PEM_TYPE || more.length > 0) {
    throw new Error(`PEM block type must be ${PEM_TYPE}`);
  }
  return new Pkcs10CertificateRequest(block.rawData);
}

function read(request: string): Parsed {
  const csr = parsed(request);
  const extension = csr.getExtension(SUBJECT_ALTERNATIVE_NAME);
  return {
    commonName: csr.subjectName.getField('CN')[0] ?? '',
    organizations: csr.subjectName.getField('O'),
    names: extension ? new SubjectAlternativeNameExtension(extension.rawData).names.toJSON() : [],
  };
}

function attempt<T>(work: () => T): T | Error {
  try {
    return work();
  } catch (error) {
    return error as Error;
  }
}
