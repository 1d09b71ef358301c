/**
 * The data of a pod's service account for credential provider plugins: its annotations, and a token for the plugin's
 * audience that is bound to the pod.
 *
 * Invariants: a valid token is cached; it is renewed after most of its lifetime, and used while valid if renewal fails;
 * only plugins receive it.
 */
import type { Json } from '../../kernel/json.ts';
import { isObject, type JsonObject } from '../../kernel/json.ts';
import { keepNewest } from '../../kernel/keep-newest.ts';
import type { PullingPod } from '../../machines/model/operations/image.ts';
import type { KubeTarget } from '../../machines/model/operations/kube.ts';

type Place = Omit<KubeTarget, 'client'>;

/** Requests to the API server that are not recorded in the journal. */
export interface KubeRequests {
  readonly read: (target: Place, signal: AbortSignal) => Promise<Json>;
  readonly review: (target: Place, body: Json, signal: AbortSignal) => Promise<Json>;
}

export interface Account {
  readonly uid: string;
  readonly annotations: Readonly<Record<string, string>>;
}

interface Token {
  readonly text: string;
  readonly issuedAtMs: number;
  readonly expiresAtMs: number;
}

/** As for the tokens of volumes: 80 % of the lifetime, at most a day. */
const REFRESH_SHARE = 0.8;
const REFRESH_MAX_MS = 24 * 3_600_000;
/** The limit of cached tokens, one per pod and plugin; a node has a few hundred pods. */
const MAX_TOKENS = 2_000;

export class ServiceAccounts {
  readonly #kube: KubeRequests;
  readonly #now: () => number;
  readonly #tokens = new Map<string, Token>();

  /** `now` is wall clock time, as are lifetimes of tokens. */
  constructor(kube: KubeRequests, now: () => number = Date.now) {
    this.#kube = kube;
    this.#now = now;
  }

  async get({ namespace, serviceAccount }: PullingPod, signal: AbortSignal): Promise<Account> {
    const object = await this.#kube.read(placeOf(namespace, serviceAccount), signal);
    const metadata = fieldsOf(fieldsOf(object)['metadata']);
    const annotations = Object.entries(fieldsOf(metadata['annotations'])).flatMap(([key, value]) =>
      typeof value === 'string' ? [[key, value] as const] : [],
    );
    const { uid } = metadata;
    return { uid: typeof uid === 'string' ? uid : '', annotations: Object.fromEntries(annotations) };
  }

  async token(pod: PullingPod, accountUid: string, audience: string, signal: AbortSignal): Promise<string> {
    const { namespace, name, uid, serviceAccount } = pod;
    const key = JSON.stringify([namespace, serviceAccount, accountUid, name, uid, audience]);
    const known = this.#tokens.get(key);
    if (known && this.#now() < refreshAtMs(known)) return known.text;
    try {
      const body = tokenRequest(pod, accountUid, audience);
      const target = { ...placeOf(namespace, serviceAccount), subresource: 'token' };
      const token = tokenIn(await this.#kube.review(target, body, signal), this.#now());
      this.#keep(key, token);
      return token.text;
    } catch (error) {
      if (known && this.#now() < known.expiresAtMs) return known.text;
      throw error;
    }
  }

  #keep(key: string, token: Token): void {
    for (const [other, { expiresAtMs }] of this.#tokens) if (expiresAtMs < this.#now()) this.#tokens.delete(other);
    this.#tokens.delete(key);
    this.#tokens.set(key, token);
    keepNewest(this.#tokens, MAX_TOKENS);
  }
}

const refreshAtMs = ({ issuedAtMs, expiresAtMs }: Token): number =>
  issuedAtMs + Math.min((expiresAtMs - issuedAtMs) * REFRESH_SHARE, REFRESH_MAX_MS);

const placeOf = (namespace: string, name: string) =>
  ({ apiVersion: 'v1', resource: 'serviceaccounts', namespace, name }) as const;

/** With the API server's default lifetime: an hour. */
const tokenRequest = ({ name, uid }: PullingPod, accountUid: string, audience: string): Json => ({
  kind: 'TokenRequest',
  apiVersion: 'authentication.k8s.io/v1',
  metadata: { uid: accountUid },
  spec: { audiences: [audience], boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name, uid } },
});

function tokenIn(answer: Json, nowMs: number): Token {
  const { token, expirationTimestamp } = fieldsOf(fieldsOf(answer)['status']);
  const expiresAtMs = typeof expirationTimestamp === 'string' ? Date.parse(expirationTimestamp) : Number.NaN;
  if (typeof token !== 'string' || token === '' || Number.isNaN(expiresAtMs)) {
    throw new Error('the API server answered a TokenRequest without a token');
  }
  return { text: token, issuedAtMs: nowMs, expiresAtMs };
}

const fieldsOf = (value: Json | undefined): JsonObject => (value !== undefined && isObject(value) ? value : {});
