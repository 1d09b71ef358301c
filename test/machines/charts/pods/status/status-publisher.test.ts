import { describe, expect, it } from 'vitest';
import type { JsonEvent } from '../../../../../src/kernel/json.ts';
import { statusPublisherMachine } from '../../../../../src/machines/charts/pods/status/status-publisher.ts';
import { fail, late, ok, runUnder } from '../../../../support/answering-world.ts';

const REF = { uid: 'u1', namespace: 'default', name: 'web' };
const seen = (status: object, more: object = {}): JsonEvent => ({
  type: 'status.observed',
  seen: { uid: 'u1', isMirror: false, resourceVersion: '1', isDeleting: false, status, ...more },
});
const changed = (status: object, stage = 'sync'): JsonEvent => ({ type: 'status.changed', uid: 'u1', status, stage });

interface Patch {
  readonly status: Readonly<Record<string, unknown>>;
}

/** An API server that is older than the field `hostIPs`, or has its gate disabled. */
function olderServer(metadata: object = {}) {
  const patches: Patch[] = [];
  let status: Readonly<Record<string, unknown>> = {};
  let version = 1;
  const world = runUnder(statusPublisherMachine, REF, {
    'kube.patch': ({ body }: { body: Patch }) => {
      patches.push(body);
      const { hostIPs: _unknown, '$setElementOrder/hostIPs': _order, ...known } = body.status;
      status = { ...status, ...known };
      version += 1;
      return ok({ metadata: { uid: 'u1', resourceVersion: String(version), ...metadata }, status });
    },
    'kube.delete': ok(null),
  });
  const pass = (ms: number) => world.time.advanceTo(world.time.now() + ms);
  return { world, patches, pass, now: () => ({ status, version }) };
}

it.each([
  [true, { nominatedNodeName: null, resize: null }],
  [undefined, {}],
])('what is of the time before the pod was bound is removed (%s)', (clears, expected) => {
  const patches: Patch[] = [];
  const input = { ...REF, ...(clears ? { clears } : {}) };
  const world = runUnder(statusPublisherMachine, input, {
    'kube.patch': ({ body }: { body: Patch }) => {
      patches.push(body);
      return ok({ metadata: { uid: 'u1', resourceVersion: '2' }, status: { phase: 'Running' } });
    },
  });
  world.send(seen({ phase: 'Pending', nominatedNodeName: 'node', resize: 'Proposed', resourceClaimStatuses: [] }));
  world.send(changed({ phase: 'Running' }));
  world.time.advanceTo(world.time.now() + 60_000);
  expect(patches.map(({ status }) => status)).toEqual([{ phase: 'Running', ...expected }]);
  expect(world.divergence()).toBeNull();
});

it('a null in the status of the API server is an absent field, at any depth', () => {
  const patches: Patch[] = [];
  const world = runUnder(statusPublisherMachine, REF, {
    'kube.patch': ({ body }: { body: Patch }) => {
      patches.push(body);
      return ok({ metadata: { uid: 'u1', resourceVersion: '2' }, status: {} });
    },
  });
  const ready = { type: 'Ready', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' };
  world.send(seen({ phase: 'Running', podIPs: null, conditions: [{ ...ready, lastProbeTime: null }] }));
  world.send(changed({ phase: 'Running', conditions: [ready] }));
  world.time.advanceTo(world.time.now() + 60_000);
  expect(patches).toEqual([]);
});

describe('an API server that does not keep a field', () => {
  const own = { phase: 'Running', hostIP: '10.0.0.1', hostIPs: [{ ip: '10.0.0.1' }] };

  it('is told once', () => {
    const { world, patches, pass } = olderServer();
    world.send(seen({}));
    world.send(changed(own));
    pass(60_000);
    expect(patches).toHaveLength(1);
    world.send(changed(own));
    pass(60_000);
    expect(patches).toHaveLength(1);
    expect(world.divergence()).toBeNull();
  });

  it('receives later changes, and the status again if another client changed it', () => {
    const { world, patches, pass, now } = olderServer();
    world.send(seen({}));
    world.send(changed(own));
    pass(60_000);
    world.send(changed({ ...own, podIP: '10.1.1.1' }));
    pass(60_000);
    expect(patches).toHaveLength(2);
    expect(patches[1]!.status).toMatchObject({ podIP: '10.1.1.1' });
    world.send(seen({ ...now().status, hostIP: '10.9.9.9' }, { resourceVersion: '9' }));
    pass(60_000);
    expect(patches).toHaveLength(3);
    expect(patches[2]!.status).toMatchObject({ hostIP: '10.0.0.1' });
  });

  it('deletes the pod when nothing of it is left', () => {
    const { world, pass } = olderServer({ deletionTimestamp: '2026-01-01T00:00:00Z' });
    world.send(seen({}, { isDeleting: true }));
    world.send(changed({ ...own, phase: 'Succeeded' }, 'terminated'));
    world.send({ type: 'status.reclaimed', uid: 'u1' });
    pass(60_000);
    expect(world.asked().filter((name) => name === 'kube.delete')).toHaveLength(1);
  });
});

describe('what waits for others', () => {
  const state = { running: { startedAt: '2026-01-01T00:00:00Z' } };
  const container = { name: 'c', state, ready: true, restartCount: 0, started: true, image: '', imageID: '' };
  const had = {
    phase: 'Running',
    startTime: '2026-01-01T00:00:00Z',
    containerStatuses: [{ ...container, resources: { limits: { cpu: '100m' } } }],
  };
  const pending = { type: 'PodResizePending', status: 'True', reason: 'Deferred', message: 'later' };

  const others = (reason: string) => [{ type: 'Ready', status: 'False', reason, message: 'a gate' }];

  it.each([
    ['why it is not ready', { ...had, conditions: others('Other') }, 10_000],
    ['what others have not said yet', { ...had, conditions: others('ReadinessGatesNotReady') }, 500],
    ['that it was asked for something else', { ...had, observedGeneration: 2 }, 500],
    ['a new address', { ...had, podIP: '10.1.1.1' }, 500],
    ['what a container got', { ...had, containerStatuses: [{ ...container, resources: {} }] }, 500],
    ['that a resize has to wait', { ...had, conditions: [pending] }, 500],
  ])('%s', (_, next, ms) => {
    const { world, patches, pass } = olderServer();
    world.send(seen(had));
    world.send(changed(had));
    world.send(changed(next));
    pass(ms - 1);
    expect(patches).toHaveLength(0);
    pass(1);
    expect(patches).toHaveLength(1);
  });

  it('an address of a pod whose containers all start', () => {
    const creating = {
      ...had,
      containerStatuses: [{ ...container, state: { waiting: { reason: 'ContainerCreating' } } }],
    };
    const { world, patches, pass } = olderServer();
    world.send(seen(creating));
    world.send(changed({ ...creating, podIP: '10.1.1.1' }));
    pass(9_999);
    expect(patches).toHaveLength(0);
    pass(1);
    expect(patches).toHaveLength(1);
  });
});

describe('what the API server did not take', () => {
  const AWAY = { name: 'RequestError', message: 'connection refused', code: 'ECONNREFUSED', retriable: true };
  const REFUSED = { name: 'StatusError', message: 'no', code: 'Forbidden', retriable: false };
  const BUSY = { name: 'StatusError', message: 'no', code: 'TooManyRequests', retriable: true, retryAfterMs: 300_000 };

  /** The requests have failed for ten minutes. */
  function failing(error: typeof AWAY) {
    const patches: unknown[] = [];
    const world = runUnder(statusPublisherMachine, REF, {
      'kube.patch': ({ body }: { body: unknown }) => {
        patches.push(body);
        return { error };
      },
    });
    world.send(seen({}));
    world.send(changed({ phase: 'Running' }));
    world.time.advanceTo(world.time.now() + 600_000);
    const before = patches.length;
    const after = (ms: number): number => {
      world.time.advanceTo(world.time.now() + ms);
      return patches.length - before;
    };
    return { world, after };
  }

  it('for it was away goes out again each ten seconds at most', () => {
    const { world, after } = failing(AWAY);
    expect(after(100_000)).toBeGreaterThanOrEqual(10);
    expect(world.divergence()).toBeNull();
  });

  it.each([
    ['the pod changes', changed({ phase: 'Failed' })],
    ['the API server says something new of it', seen({}, { resourceVersion: '2' })],
  ])('for it was away goes out at once when %s', (_, news) => {
    const { world, after } = failing(AWAY);
    after(1_000);
    const before = after(0);
    world.send(news);
    expect(after(1) - before).toBe(1);
    world.send(seen({}, { resourceVersion: news.type === 'status.observed' ? '2' : '1' }));
    expect(after(1) - before).toBe(1);
  });

  it.each([
    ['it refused', REFUSED],
    ['it is busy', BUSY],
  ])('for %s waits, whatever comes', (_, error) => {
    const { world, after } = failing(error);
    world.send(changed({ phase: 'Failed' }));
    world.send(seen({}, { resourceVersion: '2' }));
    expect(after(1)).toBe(0);
  });
});

it('a pod that is seen again while the patch of the one before finds nothing is written', () => {
  const uids: (string | undefined)[] = [];
  const answers = [late(100, fail('pods "web" not found', 'NotFound')), ok({ metadata: { uid: 'u2' }, status: {} })];
  const world = runUnder(statusPublisherMachine, REF, {
    'kube.patch': ({ body }: { body: { metadata?: { uid?: string } } }) => {
      uids.push(body.metadata?.uid);
      return answers[Math.min(uids.length, answers.length) - 1]!;
    },
  });
  const pass = (ms: number) => world.time.advanceTo(world.time.now() + ms);
  world.send(seen({}));
  world.send(changed({ phase: 'Running' }));
  pass(10_050);
  expect(uids).toEqual(['u1']);
  world.send(seen({}, { uid: 'u2', resourceVersion: '7' }));
  pass(60_000);
  expect(uids).toEqual(['u1', 'u2']);
  expect(world.divergence()).toBeNull();
});
