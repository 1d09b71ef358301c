/**
 * Reviews at the API server: how long an answer is cached, how often it is requested, and the consequences of a
 * failure.
 */
import type { IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import {
  AnswerCache,
  accessReviewer,
  authenticate,
  authorize,
  type Create,
  tokenReviewer,
} from '../../../src/actors/server/authentication.ts';
import { OperationError } from '../../../src/kernel/json.ts';
import type { KubeObject } from '../../../src/machines/model/operations/kube.ts';

const TTLS = { authorizedMs: 300_000, unauthorizedMs: 30_000 };
const user = { name: 'u', uid: '1', groups: ['g'], extra: { x: ['y'] } };
const asked = { user, verb: 'get', subresource: 'metrics' } as const;

function server(statuses: readonly (object | Error)[]) {
  const bodies: unknown[] = [];
  const create: Create = async ({ body }) => {
    const status = statuses[Math.min(bodies.length, statuses.length - 1)]!;
    bodies.push(body);
    if (status instanceof Error) throw status;
    return { metadata: { name: '' }, status } as unknown as KubeObject;
  };
  return { create, bodies };
}

describe('rights', () => {
  it('are asked for as upstream asks, and kept as long as upstream keeps them', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const { create, bodies } = server([{ allowed: true }, { allowed: false }, { allowed: true }]);
    const mayHave = accessReviewer(create, 'node1', TTLS);
    expect(await mayHave(asked)).toBe(true);
    expect(bodies[0]).toMatchObject({
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: {
        user: 'u',
        uid: '1',
        groups: ['g'],
        extra: { x: ['y'] },
        resourceAttributes: { verb: 'get', version: 'v1', resource: 'nodes', subresource: 'metrics', name: 'node1' },
      },
    });
    vi.advanceTimersByTime(299_999);
    expect(await mayHave(asked)).toBe(true);
    expect(bodies).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(await mayHave(asked)).toBe(false);
    vi.advanceTimersByTime(30_000);
    expect(await mayHave(asked)).toBe(true);
    expect(bodies).toHaveLength(3);
    vi.useRealTimers();
  });

  it('name only what there is', async () => {
    const { create, bodies } = server([{ allowed: true }]);
    await accessReviewer(create, 'node1', TTLS)({ user: { name: '', groups: [] }, verb: '', subresource: 'pods' });
    const resourceAttributes = { version: 'v1', resource: 'nodes', subresource: 'pods', name: 'node1' };
    expect(bodies).toEqual([expect.objectContaining({ spec: { resourceAttributes } })]);
  });

  it('of this user alone: each user, verb and part has an answer of its own', async () => {
    const { create, bodies } = server([{ allowed: true }]);
    const mayHave = accessReviewer(create, 'node1', TTLS);
    await mayHave(asked);
    await mayHave({ ...asked, verb: 'create' });
    await mayHave({ ...asked, subresource: 'stats' });
    await mayHave({ ...asked, user: { ...user, groups: ['h'] } });
    expect(bodies).toHaveLength(4);
  });
});

it.each(['PROPFIND', 'constructor', '__proto__'])(
  'a method without a verb (%s) is asked for without one',
  async (method) => {
    const verbs: string[] = [];
    const refusal = await authorize(user, method, ['metrics'], async ({ verb }) => {
      verbs.push(verb);
      return false;
    });
    expect([verbs, refusal?.body]).toEqual([
      [''],
      'Forbidden (user=u, verb=, resource=nodes, subresource(s)=[metrics])\n',
    ]);
  },
);

it('of rights that are allowed and denied at once, nothing may be had', async () => {
  const { create } = server([
    { allowed: true, denied: true },
    { allowed: false, denied: true },
  ]);
  const mayHave = accessReviewer(create, 'node1', TTLS);
  await expect(mayHave(asked)).rejects.toThrow('both allowed and denied');
  expect(await mayHave(asked)).toBe(false);
});

describe('an answer for one token is never another’s', () => {
  /** An API server that knows some tokens and gets many requests at once. */
  function knowing(users: Readonly<Record<string, string>>) {
    const reviewed: string[] = [];
    const create: Create = async ({ body }) => {
      const { token } = (body as { spec: { token: string } }).spec;
      reviewed.push(token);
      await pause(1);
      const username = Object.hasOwn(users, token) ? users[token] : undefined;
      const status = username === undefined ? { authenticated: false } : { authenticated: true, user: { username } };
      return { metadata: { name: '' }, status };
    };
    return { create, reviewed };
  }

  it('be it its prefix, its extension, of another case, or the name of a prototype', async () => {
    const { create, reviewed } = knowing({ secret: 'admin', secre: 'reader', Secret: 'other' });
    const review = tokenReviewer(create, { tokenMs: 120_000 });
    const tokens = ['secret', 'secre', 'Secret', 'secrets', 'secret\0', '__proto__', 'constructor', ''];
    const names = async () => (await Promise.all(tokens.map(review))).map((found) => found?.name ?? null);
    const right = ['admin', 'reader', 'other', null, null, null, null, null];
    expect(await names()).toEqual(right);
    expect(await names()).toEqual(right);
    expect(reviewed.toSorted()).toEqual(tokens.toSorted());
  });

  it('a no holds for its token alone, and as long as upstream keeps it', async () => {
    const users: Record<string, string> = {};
    const { create } = knowing(users);
    const review = tokenReviewer(create, { tokenMs: 40 });
    expect(await review('late')).toBeNull();
    users['late'] = 'user';
    users['other'] = 'admin';
    expect((await review('other'))?.name).toBe('admin');
    await expect.poll(async () => (await review('late'))?.name, { interval: 5 }).toBe('user');
  });

  it('a certificate that counts wins over it, and one that does not leaves the token its own answer', async () => {
    const { create } = knowing({ secret: 'admin' });
    const reviewToken = tokenReviewer(create, { tokenMs: 120_000 });
    const certificate = { validToDate: new Date(0), raw: Buffer.from('certificate') };
    const subject = { CN: 'from-certificate', O: ['group'] };
    const socket = { getPeerX509Certificate: () => certificate, getPeerCertificate: () => ({ subject }) };
    const who = async (token: string, isTrusted: boolean) => {
      const request = { headers: { authorization: `Bearer ${token}` }, socket } as unknown as IncomingMessage;
      const found = await authenticate(request, {
        anonymous: true,
        clientCertificates: true,
        isTrusted: () => isTrusted,
        reviewToken,
        onCertificate: () => undefined,
      });
      return 'user' in found ? found.user.name : 'refused';
    };
    expect(await who('secret', false)).toBe('admin');
    expect(await who('secret', true)).toBe('from-certificate');
    expect(await who('secre', true)).toBe('from-certificate');
    expect(await who('secre', false)).toBe('refused');
  });

  it('a certificate may name the uid of its user, once', async () => {
    const certificate = { validToDate: new Date(0), raw: Buffer.from('certificate') };
    const who = async (uid: string | string[], ignoresUids = false) => {
      const subject = { CN: 'jane', O: ['group'], '1.3.6.1.4.1.57683.2': uid };
      const socket = { getPeerX509Certificate: () => certificate, getPeerCertificate: () => ({ subject }) };
      const found = await authenticate({ headers: {}, socket } as unknown as IncomingMessage, {
        anonymous: true,
        clientCertificates: true,
        ignoresUids,
        isTrusted: () => true,
        reviewToken: null,
        onCertificate: () => undefined,
      });
      return 'user' in found ? found.user.uid : found.refused;
    };
    expect(await who('u-1')).toBe('u-1');
    expect(await who('u-1', true)).toBeUndefined();
    expect(await who(['u-1', 'u-2'])).toBe('expected 1 UID, but found multiple: [u-1 u-2]');
    expect(await who('')).toBe('UID cannot be an empty string');
  });

  it('and an API server that does not answer is a refusal, even where the anonymous may ask', async () => {
    const timeout = AbortSignal.timeout(20);
    vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(timeout);
    const create: Create = async (_request, signal) => pause(60_000, undefined as never, { signal });
    const found = await authenticate({ headers: { authorization: 'Bearer t' }, socket: {} } as IncomingMessage, {
      anonymous: true,
      clientCertificates: false,
      isTrusted: () => true,
      reviewToken: tokenReviewer(create, { tokenMs: 120_000 }),
      onCertificate: () => undefined,
    });
    expect(found).toEqual({ refused: 'The operation was aborted' });
  });
});

describe('tokens', () => {
  it('are asked for once, however many wait, and a failure is not kept', async () => {
    const refused = new OperationError('forbidden', { code: 'Forbidden' });
    const authenticated = { authenticated: true, user: { username: 'u', groups: ['g'] } };
    const { create, bodies } = server([refused, authenticated]);
    const review = tokenReviewer(create, { tokenMs: 120_000 });
    await expect(review('t')).rejects.toThrow('forbidden');
    const users = await Promise.all(Array.from({ length: 50 }, () => review('t')));
    expect(users).toEqual(Array.from({ length: 50 }, () => ({ name: 'u', groups: ['g'] })));
    expect(bodies).toHaveLength(2);
  });

  it.each(['ECONNRESET', 'InternalError'])('are asked for again after %s, for a while', async (code) => {
    const failed = new OperationError('failed', { code, retriable: true });
    const { create, bodies } = server([failed, failed, { authenticated: false }]);
    expect(await tokenReviewer(create, { tokenMs: 1 })('t')).toBeNull();
    expect(bodies).toHaveLength(3);
  });

  it.each(['ECONNREFUSED', 'ETIMEDOUT', 'ServiceUnavailable'])(
    'are asked for once where the API server is down: %s',
    async (code) => {
      const down = new OperationError('down', { code, retriable: true });
      const { create, bodies } = server([down, { authenticated: false }]);
      await expect(tokenReviewer(create, { tokenMs: 1 })('t')).rejects.toThrow('down');
      expect(bodies).toHaveLength(1);
    },
  );
});

it('a cache has a limit, and forgets the oldest', async () => {
  const cache = new AnswerCache<number>({ ttlMs: () => 1_000, maxEntries: 2, now: () => 0 });
  let calls = 0;
  const ask = async () => ++calls;
  for (const question of ['a', 'b', 'c', 'c', 'b']) await cache.get(question, ask);
  expect(calls).toBe(3);
  await cache.get('a', ask);
  expect(calls).toBe(4);
});

describe('a token among the protocols of a WebSocket', () => {
  const OFFER = 'base64url.bearer.authorization.k8s.io.';
  const ofWebSocket = async (protocols: string) => {
    const headers = { upgrade: 'websocket', 'sec-websocket-protocol': protocols };
    return authenticate({ headers, socket: {} } as unknown as IncomingMessage, {
      anonymous: true,
      clientCertificates: false,
      isTrusted: () => true,
      reviewToken: async (name) => ({ name, groups: [] }),
      onCertificate: () => undefined,
    });
  };

  it('is a token like any other', async () => {
    const user = { name: 'good', groups: ['system:authenticated'] };
    expect(await ofWebSocket(`${OFFER}Z29vZA, v4.channel.k8s.io`)).toEqual({ user });
  });

  it.each([
    [`${OFFER}Z29vZA`, 'missing additional subprotocol'],
    [`${OFFER}Z29vZA, ${OFFER}Z29vZA, v4.channel.k8s.io`, 'multiple base64.bearer.authorization tokens specified'],
    [`${OFFER}!!!, v4.channel.k8s.io`, 'invalid base64.bearer.authorization token encoding'],
  ])('%s refuses its client', async (protocols, refused) => {
    expect(await ofWebSocket(protocols)).toEqual({ refused });
  });

  it('where there is none, the client is anonymous', async () => {
    const anonymous = { user: { name: 'system:anonymous', groups: ['system:unauthenticated'] } };
    expect(await ofWebSocket('v4.channel.k8s.io')).toEqual(anonymous);
    expect(await ofWebSocket(`${OFFER}, v4.channel.k8s.io`)).toEqual(anonymous);
  });
});

it('the token of the anonymous user authenticates no client', async () => {
  const anonymous = { name: 'system:anonymous', groups: ['g'] };
  const found = await authenticate({ headers: { authorization: 'Bearer t' }, socket: {} } as IncomingMessage, {
    anonymous: false,
    clientCertificates: false,
    isTrusted: () => true,
    reviewToken: async () => anonymous,
    onCertificate: () => undefined,
  });
  expect(found).toEqual({ user: anonymous });
});
