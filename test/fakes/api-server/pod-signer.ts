/** PodCertificateRequests: the server's checks, and signers that answer as a test decides. */
import {
  type ApiObject,
  type Fields,
  knownKind,
  textOf,
  timestamp,
  type Value,
} from '../../../src/simulation/api-server/kinds.ts';
import type { Store, StoreEvent } from '../../../src/simulation/api-server/store.ts';
import type { Authority } from './pki.ts';

const requestKind = knownKind('certificates.k8s.io/v1beta1', 'podcertificaterequests');
const SECOND_MS = 1_000;

/** The lifetime in seconds; or why it is not signed. */
export type PodSignerRule =
  | { readonly lifetimeSeconds: number; readonly refreshSeconds: number }
  | { readonly denies: string; readonly message: string };

/** By the name of a signer, its treatment of requests; requests for other signers stay unanswered. */
export class PodSigner {
  readonly rules = new Map<string, PodSignerRule>();
  private readonly store: Store;
  private readonly authority: Authority;

  constructor(store: Store, authority: Authority) {
    this.store = store;
    this.authority = authority;
    store.changes.on('event', ({ kind, type, object }: StoreEvent) => {
      if (kind === requestKind && type === 'ADDED') void this.answer(object);
    });
  }

  private async answer({ metadata, spec = {} }: ApiObject): Promise<void> {
    const rule = this.rules.get(textOf(spec['signerName']));
    if (!rule) return;
    const status = 'denies' in rule ? verdict('Denied', rule.denies, rule.message) : await this.issued(spec, rule);
    const request = this.store.find(requestKind, metadata.namespace, metadata.name);
    if (request) this.store.put(requestKind, { ...request, status });
  }

  private async issued(
    spec: Fields,
    rule: Extract<PodSignerRule, { readonly lifetimeSeconds: number }>,
  ): Promise<Fields> {
    const nowMs = Date.now();
    const lifetimeMs = rule.lifetimeSeconds * SECOND_MS;
    try {
      const der = Buffer.from(textOf(spec['stubPKCS10Request']), 'base64');
      const leaf = await this.authority.signPod(der, textOf(spec['podName']), lifetimeMs);
      return {
        ...verdict('Issued', 'TestIssued', 'signed by the test'),
        certificateChain: `${leaf}${this.authority.caPem}`,
        notBefore: timestamp(nowMs),
        beginRefreshAt: timestamp(nowMs + rule.refreshSeconds * SECOND_MS),
        notAfter: timestamp(nowMs + lifetimeMs),
      };
    } catch (error) {
      return verdict('Denied', 'BadRequest', (error as Error).message);
    }
  }
}

const verdict = (type: string, reason: string, message: string): Fields => {
  const condition: Value = { type, status: 'True', reason, message, lastTransitionTime: timestamp(Date.now()) };
  return { conditions: [condition] };
};
