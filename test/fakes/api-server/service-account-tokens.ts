/**
 * Tokens of service accounts: signed by TokenRequest, verified by TokenReview and by the server's own authentication.
 */
import { createSign, createVerify, generateKeyPairSync, randomUUID } from 'node:crypto';
import { badRequest, conflict, invalid, notFound } from '../../../src/simulation/api-server/errors.ts';
import {
  type ApiObject,
  type Fields,
  isFields,
  knownKind,
  timestamp,
  type User,
} from '../../../src/simulation/api-server/kinds.ts';
import type { Store } from '../../../src/simulation/api-server/store.ts';

const LIFETIME_DEFAULT_SECONDS = 3_600;
const LIFETIME_MIN_SECONDS = 600;

interface Claims {
  readonly aud: readonly string[];
  readonly exp: number;
  readonly sub: string;
  readonly jti: string;
  readonly 'kubernetes.io': {
    readonly namespace: string;
    readonly serviceaccount: { readonly name: string; readonly uid: string };
    readonly pod?: { readonly name: string; readonly uid: string };
  };
}

export class ServiceAccountTokens {
  private readonly keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  private readonly store: Store;
  private readonly issuer: string;
  /** Lifetimes of less than ten minutes are for tests of rotation; the real server rejects them. */
  private readonly minSeconds: number;

  constructor(store: Store, issuer: string, minSeconds = LIFETIME_MIN_SECONDS) {
    this.store = store;
    this.issuer = issuer;
    this.minSeconds = minSeconds;
  }

  /** Answers a TokenRequest for the service account. */
  request(account: ApiObject, body: ApiObject): ApiObject {
    const kind = knownKind('v1', 'serviceaccounts');
    const spec = body.spec ?? {};
    const seconds =
      typeof spec['expirationSeconds'] === 'number' ? spec['expirationSeconds'] : LIFETIME_DEFAULT_SECONDS;
    if (seconds < this.minSeconds) {
      throw invalid(
        kind,
        account.metadata.name,
        'spec.expirationSeconds',
        'may not specify a duration less than 10 minutes',
      );
    }
    const audiences = Array.isArray(spec['audiences']) ? spec['audiences'].map(String) : [this.issuer];
    const nowSeconds = Math.floor(Date.now() / 1_000);
    const token = this.sign({
      aud: audiences,
      exp: nowSeconds + seconds,
      iat: nowSeconds,
      nbf: nowSeconds,
      iss: this.issuer,
      jti: randomUUID(),
      sub: `system:serviceaccount:${account.metadata.namespace}:${account.metadata.name}`,
      'kubernetes.io': {
        namespace: account.metadata.namespace,
        serviceaccount: { name: account.metadata.name, uid: account.metadata.uid },
        ...this.boundTo(account, spec['boundObjectRef']),
      },
    });
    const { name, namespace } = account.metadata;
    return {
      kind: 'TokenRequest',
      apiVersion: 'authentication.k8s.io/v1',
      metadata: { name, namespace, creationTimestamp: timestamp(Date.now()) } as ApiObject['metadata'],
      spec: { ...spec, audiences, expirationSeconds: seconds },
      status: { token, expirationTimestamp: timestamp((nowSeconds + seconds) * 1_000) },
    };
  }

  /** The user of a token; undefined if it is forged or has expired, or if its pod is gone. */
  userOf(token: string, audiences: readonly string[] = [this.issuer]): User | undefined {
    const claims = this.verify(token);
    if (!claims || claims.exp * 1_000 < Date.now() || !claims.aud.some((each) => audiences.includes(each)))
      return undefined;
    const { namespace, serviceaccount, pod } = claims['kubernetes.io'];
    const account = this.store.get('v1', 'serviceaccounts', serviceaccount.name, namespace);
    if (account?.metadata.uid !== serviceaccount.uid) return undefined;
    if (pod && this.store.get('v1', 'pods', pod.name, namespace)?.metadata.uid !== pod.uid) return undefined;
    return {
      name: claims.sub,
      uid: serviceaccount.uid,
      groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`],
      extra: {
        'authentication.kubernetes.io/credential-id': [`JTI=${claims.jti}`],
        ...(pod
          ? { 'authentication.kubernetes.io/pod-name': [pod.name], 'authentication.kubernetes.io/pod-uid': [pod.uid] }
          : {}),
      },
    };
  }

  private boundTo(account: ApiObject, reference: unknown): Fields {
    if (!isFields(reference)) return {};
    const { kind, name, uid } = reference as { kind?: string; name?: string; uid?: string };
    const resource = { Pod: 'pods', Secret: 'secrets', Node: 'nodes' }[kind ?? ''];
    if (resource === undefined || name === undefined) {
      throw badRequest(`cannot bind token for serviceaccount "${account.metadata.name}" to object of kind "${kind}"`);
    }
    const target = knownKind('v1', resource);
    const object = this.store.find(target, account.metadata.namespace, name);
    if (!object) throw notFound(target, name);
    if (uid !== undefined && uid !== object.metadata.uid) {
      const why =
        `the UID in the bound object reference (${uid}) does not match the UID in record. ` +
        'The object might have been deleted and then recreated';
      throw conflict(target, name, why);
    }
    if (kind === 'Pod' && object.spec?.['serviceAccountName'] !== account.metadata.name) {
      const why = 'to pod running with different serviceaccount name.';
      throw badRequest(`cannot bind token for serviceaccount "${account.metadata.name}" ${why}`);
    }
    const bound = { [kind!.toLowerCase()]: { name, uid: object.metadata.uid } };
    const nodeName = object.spec?.['nodeName'];
    return kind === 'Pod' && typeof nodeName === 'string' ? { ...bound, node: { name: nodeName } } : bound;
  }

  private sign(claims: object): string {
    const head = encode({ alg: 'ES256', typ: 'JWT' });
    const signed = `${head}.${encode(claims)}`;
    const key = { key: this.keys.privateKey, dsaEncoding: 'ieee-p1363' as const };
    return `${signed}.${createSign('sha256').update(signed).sign(key, 'base64url')}`;
  }

  private verify(token: string): Claims | undefined {
    const [head, body, signature, more] = token.split('.');
    if (!head || !body || !signature || more !== undefined) return undefined;
    const key = { key: this.keys.publicKey, dsaEncoding: 'ieee-p1363' as const };
    const genuine = createVerify('sha256').update(`${head}.${body}`).verify(key, signature, 'base64url');
    return genuine ? (JSON.parse(Buffer.from(body, 'base64url').toString()) as Claims) : undefined;
  }
}

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
