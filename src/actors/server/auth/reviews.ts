/**
 * Authorizes users: the verb of a method, the rights of an endpoint, upstream's text of a denial; and asks the API
 * server by TokenReviews and SubjectAccessReviews, with caching of their answers.
 *
 * Owns: the caches, with upstream's lifetimes and sizes. Invariants: the keys of a cache are hashes, so that no
 * credential stays in memory; a request never waits for an answer longer than {@link REVIEW_TIMEOUT_MS}.
 */

import { createHmac, randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { isObject, type Json, toPlainError } from '../../../kernel/json.ts';
import { keepNewest } from '../../../kernel/keep-newest.ts';
import type { KubeObject, KubeTarget } from '../../../machines/model/operations/kube.ts';
import { type Answer, text } from '../http/answer.ts';
import type { Subresource, User } from '../http/endpoint.ts';
import type { ReviewToken } from './authentication.ts';

/** The attributes of a SubjectAccessReview. */
interface Attributes {
  readonly user: User;
  readonly verb: string;
  readonly subresource: Subresource;
}

/** Whether the request is allowed. A rejection means that the review failed. */
type Authorize = (attributes: Attributes) => Promise<boolean>;

export const alwaysAllow: Authorize = async () => true;

const VERBS: Readonly<Record<string, string>> = {
  POST: 'create',
  GET: 'get',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};

/** Methods without a Kubernetes verb have an empty verb, which rights to a named verb never include. */
const verbOf = (method: string): string => VERBS[method] ?? '';

/** `null` allows the request. One of the listed rights is sufficient; the more specific is checked first. */
export async function authorize(
  user: User,
  method: string,
  subresources: readonly Subresource[],
  isAllowed: Authorize,
): Promise<Answer | null> {
  const verb = verbOf(method);
  const attributes = `user=${user.name}, verb=${verb}, resource=nodes`;
  for (const subresource of subresources) {
    try {
      if (await isAllowed({ user, verb, subresource })) return null;
    } catch {
      return text(500, `Authorization error (${attributes}, subresource=${subresource})`);
    }
  }
  return text(403, `Forbidden (${attributes}, subresource(s)=[${subresources.join(' ')}])\n`);
}

export const unauthorized = (): Answer => text(401, 'Unauthorized');

/** Creates an object in the API server and resolves with the server's answer; ends with the signal. */
export type Create = (request: KubeTarget & { readonly body: Json }, signal: AbortSignal) => Promise<KubeObject>;

/** Upstream's timeout: no client waits longer. */
const REVIEW_TIMEOUT_MS = 10_000;
/** The sizes of upstream's caches: a node has few clients. */
const TOKENS_MAX = 4_096;
const RIGHTS_MAX = 8_192;
/** Upstream's attempts to reach a webhook, and the first wait between them. */
const TRIES = 5;
const FIRST_RETRY_MS = 500;
const RETRY_FACTOR = 1.5;

export interface Ttls {
  readonly tokenMs: number;
  readonly authorizedMs: number;
  readonly unauthorizedMs: number;
}

interface TokenReviewStatus {
  readonly authenticated?: boolean;
  readonly error?: string;
  readonly user?: {
    readonly username?: string;
    readonly uid?: string;
    readonly groups?: readonly string[];
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
}

/** Requests a TokenReview. A rejected token is cached as long as a user; a failed request is not cached. */
export function tokenReviewer(create: Create, ttls: Pick<Ttls, 'tokenMs'>, seen?: CacheObserver): ReviewToken {
  const cache = new AnswerCache<User | null>({
    ttlMs: () => ttls.tokenMs,
    maxEntries: TOKENS_MAX,
    ...(seen ? { seen } : {}),
  });
  const apiVersion = 'authentication.k8s.io/v1';
  return (token) =>
    cache.get(token, async () => {
      const body = { apiVersion, kind: 'TokenReview', metadata: {}, spec: { token } };
      const review = await asked(create, { client: 'kube', apiVersion, resource: 'tokenreviews', body });
      const status = review['status'] as TokenReviewStatus | undefined;
      if (status?.authenticated === true) return userOf(status);
      if (status?.error) throw new Error(status.error);
      return null;
    });
}

function userOf({ user }: TokenReviewStatus): User {
  const { username = '', uid, groups = [], extra } = user ?? {};
  return { name: username, groups, ...(uid ? { uid } : {}), ...(extra ? { extra } : {}) };
}

/** Requests a SubjectAccessReview for this node. */
export function accessReviewer(create: Create, nodeName: string, ttls: Omit<Ttls, 'tokenMs'>): Authorize {
  const cache = new AnswerCache<boolean>({
    ttlMs: (allowed) => (allowed ? ttls.authorizedMs : ttls.unauthorizedMs),
    maxEntries: RIGHTS_MAX,
  });
  const apiVersion = 'authorization.k8s.io/v1';
  return ({ user, verb, subresource }) => {
    const { name, uid, groups, extra } = user;
    const spec = {
      resourceAttributes: { ...(verb && { verb }), version: 'v1', resource: 'nodes', subresource, name: nodeName },
      ...(name && { user: name }),
      ...(groups.length > 0 && { groups: [...groups] }),
      ...(uid === undefined ? {} : { uid }),
      ...(extra === undefined ? {} : { extra }),
    } as { readonly [key: string]: Json };
    return cache.get(JSON.stringify(spec), async () => {
      const body = { apiVersion, kind: 'SubjectAccessReview', metadata: {}, spec };
      const review = await asked(create, { client: 'kube', apiVersion, resource: 'subjectaccessreviews', body });
      const { allowed, denied } = isObject(review['status']) ? review['status'] : {};
      if (allowed === true && denied === true) throw new Error('the right was both allowed and denied');
      return allowed === true;
    });
  };
}

async function asked(create: Create, request: Parameters<Create>[0]): Promise<KubeObject> {
  const signal = AbortSignal.timeout(REVIEW_TIMEOUT_MS);
  for (let tried = 1, waitMs = FIRST_RETRY_MS; ; tried++, waitMs *= RETRY_FACTOR) {
    try {
      return await create(request, signal);
    } catch (error) {
      const isRetriable = toPlainError(error).retriable;
      if (!isRetriable || tried === TRIES || signal.aborted) throw error;
      await pause(waitMs, undefined, { signal });
    }
  }
}

/*
 * A bounded cache of answers that expire, for the reviews of tokens and rights.
 *
 * Invariants: an expired answer is never returned; failures are not cached.
 */

interface CacheOptions<Value> {
  readonly ttlMs: (value: Value) => number;
  readonly maxEntries: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
  readonly seen?: CacheObserver;
}

/** Receives the activity of a cache; `by` is 1 when a wait or request starts, and -1 when it ends. */
export interface CacheObserver {
  /** A lookup got its answer, or the error of the request. */
  answered(status: 'hit' | 'miss', durationMs: number): void;
  /** A lookup waits for a request in progress. */
  waits(by: 1 | -1): void;
  /** A request is sent, for all lookups of the same key. */
  fetches(by: 1 | -1): void;
  fetched(status: 'ok' | 'error'): void;
}

/** A bounded cache of answers with expiry; concurrent lookups share one request. */
export class AnswerCache<Value> {
  private readonly options: CacheOptions<Value>;
  private readonly secret = randomBytes(32);
  private readonly entries = new Map<string, { readonly value: Value; readonly until: number }>();
  private readonly pending = new Map<string, Promise<Value>>();

  constructor(options: CacheOptions<Value>) {
    this.options = options;
  }

  private now(): number {
    return this.options.now?.() ?? performance.now();
  }

  async get(question: string, ask: () => Promise<Value>): Promise<Value> {
    const key = createHmac('sha256', this.secret).update(question).digest('base64');
    const known = this.entries.get(key);
    if (known && known.until > this.now()) {
      this.options.seen?.answered('hit', 0);
      return known.value;
    }
    this.entries.delete(key);
    return await this.waited(this.pending.get(key) ?? this.ask(key, ask));
  }

  private async waited(answer: Promise<Value>): Promise<Value> {
    const { seen } = this.options;
    const beganMs = performance.now();
    seen?.waits(1);
    try {
      return await answer;
    } finally {
      seen?.waits(-1);
      seen?.answered('miss', performance.now() - beganMs);
    }
  }

  private ask(key: string, ask: () => Promise<Value>): Promise<Value> {
    this.options.seen?.fetches(1);
    const answer = ask()
      .then((value) => this.keep(key, value))
      .finally(() => {
        this.pending.delete(key);
        this.options.seen?.fetches(-1);
      });
    answer.then(
      () => this.options.seen?.fetched('ok'),
      () => this.options.seen?.fetched('error'),
    );
    this.pending.set(key, answer);
    return answer;
  }

  private keep(key: string, value: Value): Value {
    const ttlMs = this.options.ttlMs(value);
    if (ttlMs > 0) this.entries.set(key, { value, until: this.now() + ttlMs });
    keepNewest(this.entries, this.options.maxEntries);
    return value;
  }
}
