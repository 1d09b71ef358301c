/** CertificateSigningRequests: their author, and what kube-controller-manager does after the approval. */

import {
  type ApiObject,
  type Fields,
  knownKind,
  textOf,
  timestamp,
  type User,
  type Value,
} from '../../../src/simulation/api-server/kinds.ts';
import type { Store, StoreEvent } from '../../../src/simulation/api-server/store.ts';
import { admitCsr, signerRefusal } from './csr-rules.ts';
import type { Authority } from './pki.ts';

const YEAR_SECONDS = 365 * 86_400;
const csrKind = knownKind('certificates.k8s.io/v1', 'certificatesigningrequests');

export interface SignerOptions {
  /** Approves requests of nodes. Default: a user (or a test) approves. */
  readonly autoApprove?: boolean;
  /** Signs approved requests. Default true. */
  readonly sign?: boolean;
  /** The lifetime of certificates. Default: a year. */
  readonly certificateSeconds?: number;
}

/** A request with the fields that only the server knows: its author. */
export function createdCsr(csr: ApiObject, user: User): ApiObject {
  admitCsr(csr, user);
  const spec: Fields = {
    ...csr.spec,
    username: user.name,
    groups: [...user.groups],
    ...(user.uid === undefined ? {} : { uid: user.uid }),
    ...(user.extra === undefined ? {} : { extra: user.extra as unknown as Value }),
  };
  return { ...csr, spec, status: {} };
}

/** Approves and signs, each as a separate write. The fields may change while it runs. */
export class Signer {
  autoApprove: boolean;
  sign: boolean;
  certificateSeconds: number;
  private readonly store: Store;
  private readonly authority: Authority;

  constructor(store: Store, authority: Authority, options: SignerOptions) {
    this.store = store;
    this.authority = authority;
    this.autoApprove = options.autoApprove ?? false;
    this.sign = options.sign ?? true;
    this.certificateSeconds = options.certificateSeconds ?? YEAR_SECONDS;
    store.changes.on('event', (event) => this.onEvent(event));
  }

  /** Approves or denies, as `kubectl certificate approve` does. */
  decide(name: string, type: 'Approved' | 'Denied' = 'Approved'): void {
    const csr = this.store.find(csrKind, undefined, name);
    if (!csr) throw new Error(`there is no CertificateSigningRequest ${name}`);
    const at = timestamp(Date.now());
    const message = `This CSR was ${type.toLowerCase()} by the test.`;
    const condition = {
      type,
      status: 'True',
      reason: `Test${type}`,
      message,
      lastUpdateTime: at,
      lastTransitionTime: at,
    };
    this.store.put(csrKind, { ...csr, status: { ...csr.status, conditions: [...conditionsOf(csr), condition] } });
  }

  private onEvent({ kind, type, object }: StoreEvent): void {
    if (kind !== csrKind || type === 'DELETED') return;
    const types = conditionsOf(object).map((condition) => condition['type']);
    const { name } = object.metadata;
    if (this.autoApprove && types.length === 0) setImmediate(() => this.decide(name));
    if (
      this.sign &&
      types.includes('Approved') &&
      !types.includes('Failed') &&
      object.status?.['certificate'] === undefined
    ) {
      void this.signed(object).then((change) => this.finish(name, change));
    }
  }

  private async signed({ spec = {} }: ApiObject): Promise<Fields> {
    const asked = spec['expirationSeconds'];
    const seconds = typeof asked === 'number' ? Math.min(asked, this.certificateSeconds) : this.certificateSeconds;
    const at = timestamp(Date.now());
    const refused = (reason: string, message: string) => ({
      failed: { type: 'Failed', status: 'True', reason, message, lastUpdateTime: at, lastTransitionTime: at },
    });
    try {
      const why = signerRefusal({ spec });
      if (why === undefined) return {};
      if (why !== '') return refused('SignerValidationFailure', why);
      const request = Buffer.from(textOf(spec['request']), 'base64').toString();
      const pem = await this.authority.sign(request, spec['usages'] as string[], seconds * 1_000);
      return { certificate: Buffer.from(pem).toString('base64') };
    } catch (error) {
      return refused('SigningError', `unable to sign: ${(error as Error).message}`);
    }
  }

  private finish(name: string, { certificate, failed }: Fields): void {
    const csr = this.store.find(csrKind, undefined, name);
    if (!csr || (certificate === undefined && failed === undefined)) return;
    const conditions = failed === undefined ? conditionsOf(csr) : [...conditionsOf(csr), failed];
    const status = { ...csr.status, conditions, ...(certificate === undefined ? {} : { certificate }) };
    this.store.put(csrKind, { ...csr, status });
  }
}

const conditionsOf = ({ status }: ApiObject): Fields[] => (status?.['conditions'] as Fields[] | undefined) ?? [];
