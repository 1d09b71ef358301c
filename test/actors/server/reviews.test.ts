/** Reviews at the API server: how long an answer holds, how often it is asked for, and what a failure costs. */
import { describe, expect, test, vi } from 'vitest';
import { AnswerCache } from '../../../src/actors/server/auth/cache.ts';
import { accessReviewer, type Create, tokenReviewer } from '../../../src/actors/server/auth/reviews.ts';
import { OperationError } from '../../../src/kernel/json.ts';
import type { KubeObject } from '../../../src/machines/operations/kube.ts';

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
  test('are asked for as upstream asks, and kept as long as upstream keeps them', async () => {
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

  test('of nobody else: each user, verb and part has an answer of its own', async () => {
    const { create, bodies } = server([{ allowed: true }]);
    const mayHave = accessReviewer(create, 'node1', TTLS);
    await mayHave(asked);
    await mayHave({ ...asked, verb: 'create' });
    await mayHave({ ...asked, subresource: 'stats' });
    await mayHave({ ...asked, user: { ...user, groups: ['h'] } });
    expect(bodies).toHaveLength(4);
  });
});

describe('tokens', () => {
  test('are asked for once, however many wait, and a failure is not kept', async () => {
    const refused = new OperationError('forbidden', { code: 'Forbidden' });
    const authenticated = { authenticated: true, user: { username: 'u', groups: ['g'] } };
    const { create, bodies } = server([refused, authenticated]);
    const review = tokenReviewer(create, { tokenMs: 120_000 });
    await expect(review('t')).rejects.toThrow('forbidden');
    const users = await Promise.all(Array.from({ length: 50 }, () => review('t')));
    expect(users).toEqual(Array.from({ length: 50 }, () => ({ name: 'u', groups: ['g'] })));
    expect(bodies).toHaveLength(2);
  });

  test('have answers of their own, however alike they are', async () => {
    const names: Record<string, string> = { abc: 'first', ab: 'second', 'abc ': 'third', ABC: 'fourth' };
    const create: Create = async ({ body }) => {
      const { token } = (body as unknown as { spec: { token: string } }).spec;
      const status =
        token === 'abcd' ? { authenticated: false } : { authenticated: true, user: { username: names[token] } };
      return { metadata: { name: '' }, status } as unknown as KubeObject;
    };
    const review = tokenReviewer(create, { tokenMs: 120_000 });
    for (let again = 0; again < 2; again++) {
      const tokens = [...Object.keys(names), 'abcd'];
      const users = await Promise.all(tokens.map((token) => review(token)));
      expect(users.map((each) => each?.name)).toEqual(['first', 'second', 'third', 'fourth', undefined]);
    }
  });

  test('are asked for again while the API server is away, for a while', async () => {
    const away = new OperationError('away', { code: 'ECONNREFUSED', retriable: true });
    const { create, bodies } = server([away, away, { authenticated: false }]);
    expect(await tokenReviewer(create, { tokenMs: 1 })('t')).toBeNull();
    expect(bodies).toHaveLength(3);
  });
});

test('a cache has a limit, and forgets the oldest', async () => {
  const cache = new AnswerCache<number>({ ttlMs: () => 1_000, maxEntries: 2, now: () => 0 });
  let calls = 0;
  const ask = async () => ++calls;
  for (const question of ['a', 'b', 'c', 'c', 'b']) await cache.get(question, ask);
  expect(calls).toBe(3);
  await cache.get('a', ask);
  expect(calls).toBe(4);
});
