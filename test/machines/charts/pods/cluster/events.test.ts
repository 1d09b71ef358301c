/** Events in the API server: which are posted, which are counted, and the consequences of a failing server. */
import { afterEach, describe, expect, it } from 'vitest';
import { NEWEST_BEHAVIOR } from '../../../../../src/machines/model/settings/behaviors.ts';
import { Refusal } from '../../../../../src/simulation/api-server/errors.ts';
import { type ClusterNode, clusterNode } from './support.ts';

let cluster: ClusterNode;

function booted(settings: Parameters<typeof clusterNode>[0] = {}): ClusterNode {
  cluster = clusterNode(settings);
  cluster.node.boot().run(1_000);
  return cluster;
}

const send = (message: string, reason = 'BackOff', name = 'p', eventType: 'Normal' | 'Warning' = 'Warning') =>
  cluster.node.kernel.dispatch(
    'kubelet/eventRecorder',
    {
      type: 'event.recorded',
      ref: {
        kind: 'Pod',
        namespace: 'default',
        name,
        uid: 'u',
        resourceVersion: '7',
        fieldPath: 'spec.containers{c}',
      },
      eventType,
      reason,
      message,
    },
    'test',
  );
const ANNOTATIONS = { starved_resource: 'memory' };
const sendAnnotated = (message: string) =>
  cluster.node.kernel.dispatch(
    'kubelet/eventRecorder',
    {
      type: 'event.recorded',
      ref: { kind: 'Pod', namespace: 'default', name: 'p', uid: 'u' },
      eventType: 'Warning',
      reason: 'Evicted',
      message,
      annotations: ANNOTATIONS,
    },
    'test',
  );
const UUID_8 = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/;
const created = () => cluster.kube.of('create', /events$/);
const counted = () => cluster.kube.of('patch', /events/);

afterEach(() => {
  expect(cluster.node.crashes()).toEqual([]);
  cluster.node.assertReplays();
});

describe('eventWriter', () => {
  it('posts the annotations that come with an event, unless it stands for several', () => {
    const { node } = booted();
    for (let at = 0; at < 12; at += 1) {
      sendAnnotated(`no ${at}`);
      node.run(1_000);
    }
    const annotations = created().map(
      ({ body }) => (body as { metadata: { annotations?: object } }).metadata.annotations,
    );
    expect(annotations[0]).toEqual(ANNOTATIONS);
    expect((created().at(-1)!.body as { message: string }).message).toContain('(combined from similar events)');
    expect(annotations.at(-1)).toBeUndefined();
  });

  it('is posted as the recorded kubelet posts it', () => {
    const { node } = booted();
    send('no');
    node.run(100);
    expect(created().at(-1)!.body).toEqual({
      kind: 'Event',
      apiVersion: 'v1',
      metadata: { name: expect.stringMatching(/^p\.[0-9a-f]{16}$/), namespace: 'default' },
      involvedObject: {
        kind: 'Pod',
        namespace: 'default',
        name: 'p',
        uid: 'u',
        apiVersion: 'v1',
        resourceVersion: '7',
        fieldPath: 'spec.containers{c}',
      },
      reason: 'BackOff',
      message: 'no',
      source: { component: 'kubelet', host: 'node' },
      firstTimestamp: expect.stringMatching(/Z$/),
      lastTimestamp: expect.stringMatching(/Z$/),
      count: 1,
      type: 'Warning',
      eventTime: null,
      reportingComponent: 'kubelet',
      reportingInstance: 'node',
    });
  });

  it.each([
    ['is posted whatever the warnings about the object, of which there are 25 at once', NEWEST_BEHAVIOR, true],
    ['was not posted by an earlier node, when 25 of the object were', 1, false],
  ])('that is normal %s', (_, behavior, isPosted) => {
    const { node } = booted({ behavior });
    for (let nth = 0; nth < 30; nth += 1) send('Readiness probe failed: ', 'Unhealthy');
    send('no more', 'FailedMount');
    send('Stopping container c', 'Killing', 'p', 'Normal');
    node.run(5_000);
    const counts = counted().map(({ body }) => (body as { count: number }).count);
    expect(Math.max(...counts)).toBe(25);
    const reasons = created().map(({ body }) => (body as { reason: string }).reason);
    expect(reasons).toContain('Unhealthy');
    expect(reasons).not.toContain('FailedMount');
    expect(reasons.includes('Killing')).toBe(isPosted);
  });

  it('about an object whose name is as long as names may be has a name that the API server takes', () => {
    const { node } = booted();
    const longest = `${'long-name.'.repeat(25)}pod`;
    for (const message of ['no', 'neither']) send(message, 'BackOff', longest);
    node.run(100);
    const [first, second] = created().slice(-2);
    expect([first!.body.metadata.name, second!.body.metadata.name]).toEqual([
      expect.stringMatching(UUID_8),
      expect.stringMatching(UUID_8),
    ]);
    expect(first!.body.metadata.name).not.toBe(second!.body.metadata.name);
    expect(first!.body.involvedObject.name).toBe(longest);
  });

  it('that stands for different ones does not say who reported these', () => {
    const { node } = booted();
    for (let i = 0; i < 10; i++) send(`different ${i}`);
    node.run(1_000);
    const combined = created().find(({ body }) => body.message.startsWith('(combined from similar events)'));
    expect(combined!.body).toMatchObject({
      source: { component: 'kubelet' },
      reportingComponent: '',
      reportingInstance: '',
    });
  });

  it('that happens again counts up the one that is there', () => {
    const { node } = booted();
    for (let i = 0; i < 3; i++) {
      send('no');
      node.run(1_000);
    }
    expect(created()).toHaveLength(1);
    expect(counted().map(({ body }) => body.count)).toEqual([2, 3]);
    expect(counted()[0]!.path).toBe(`default/events/${created()[0]!.body.metadata.name}`);
  });

  it('of many pods that say the same again and again is counted up, too', () => {
    const { node } = booted();
    const [before, reasons] = [created().length, ['Scheduled', 'Pulled', 'Created', 'BackOff']];
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 70; i++) for (const reason of reasons) send('no', reason, `p${i}`);
      node.run(1_000);
    }
    expect([created().length - before, counted().length]).toEqual([280, 560]);
  });

  it('that happens many times during one call is written once more', () => {
    const { node } = booted();
    for (let i = 0; i < 20; i++) send('no');
    node.run(1_000);
    expect(created()).toHaveLength(1);
    expect(counted().length).toBeLessThanOrEqual(1);
    expect(created()[0]!.body.count + counted().length).toBeGreaterThan(1);
  });

  it('whose object is gone meanwhile is posted anew', () => {
    const { node, kube } = booted();
    send('no');
    node.run(100);
    kube.delete('events', created()[0]!.body.metadata.name);
    send('no');
    node.run(100);
    expect(created().map(({ body }) => body.count)).toEqual([1, 2]);
  });

  it('about the node is in the namespace default and has none itself', () => {
    const { node } = booted();
    const ref = { kind: 'Node', namespace: '', name: 'node', uid: '' };
    node.kernel.dispatch(
      'kubelet/eventRecorder',
      { type: 'event.recorded', ref, eventType: 'Normal', reason: 'Starting', message: 'Starting kubelet.' },
      'test',
    );
    node.run(100);
    expect(created().at(-1)!).toMatchObject({
      path: 'default/events',
      body: { metadata: { namespace: 'default' }, involvedObject: { kind: 'Node', name: 'node', apiVersion: 'v1' } },
    });
    expect(created().at(-1)!.body.involvedObject).not.toHaveProperty('uid');
  });
});

describe('an API server', () => {
  it('that rejects an event is not asked again', () => {
    const { node, kube } = booted();
    kube.refuse = (verb, path) =>
      verb === 'create' && path.endsWith('events') ? new Refusal('bad', { code: 422, reason: 'Invalid' }) : undefined;
    send('no');
    node.run(600_000);
    expect(created()).toHaveLength(1);
    expect(node.logs('Server rejected event (will not retry!)')).toHaveLength(1);
  });

  it('that is away gets the events when it is back', () => {
    const { node, kube } = booted();
    kube.isAway = true;
    send('one');
    send('two');
    node.run(45_000);
    kube.isAway = false;
    node.run(20_000);
    const accepted = created().filter(({ error }) => error === undefined);
    expect(accepted.map(({ body }) => body.message).toSorted((a, b) => (a < b ? -1 : 1))).toEqual(['one', 'two']);
  });

  it('that stays away is asked twelve times, and the event is given up', () => {
    const { node, kube } = booted();
    kube.isAway = true;
    send('lost');
    node.run(600_000);
    expect(created()).toHaveLength(13);
    expect(node.logs('Server rejected event (will not retry!)')).toHaveLength(1);
  });
});
