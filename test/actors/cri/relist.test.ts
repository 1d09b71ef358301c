import { describe, expect, it } from 'vitest';
import { containerInstance, groupByPod, PodCache, podRuntimeStatus } from '../../../src/actors/cri/relist.ts';
import type { Container, ContainerStatus, PodSandbox, PodSandboxStatus } from '../../../src/machines/model/api/cri.ts';
import { labelsOf } from './fake-runtime.ts';

const sandbox = (id: string, uid: string | null, over: object = {}): PodSandbox => ({
  id,
  state: 'SANDBOX_READY',
  created_at: '1',
  labels: uid === null ? {} : labelsOf(uid),
  annotations: {},
  runtime_handler: '',
  ...over,
});
const container = (id: string, uid: string | null, over: object = {}): Container => ({
  id,
  pod_sandbox_id: '',
  image_ref: '',
  image_id: '',
  state: 'CONTAINER_RUNNING',
  created_at: '1',
  labels: uid === null ? {} : labelsOf(uid),
  annotations: {},
  ...over,
});
const sandboxStatus = (id: string, uid: string, over: object = {}): PodSandboxStatus => sandbox(id, uid, over);
const containerStatus = (id: string, uid: string, over: object = {}): ContainerStatus => ({
  ...container(id, uid),
  started_at: '0',
  finished_at: '0',
  exit_code: 0,
  reason: '',
  message: '',
  mounts: [],
  log_path: '',
  stop_signal: 'RUNTIME_DEFAULT',
  ...over,
});
const observed = (uid: string, atMs: number, over: object = {}) =>
  podRuntimeStatus(uid, [sandboxStatus('s', uid)], [containerStatus('c', uid, over)], atMs);
const listed = (uid: string, over: object = {}) => groupByPod([sandbox('s', uid)], [container('c', uid, over)]);
const empty = groupByPod([], []);

describe('lists by pod', () => {
  it('a sandbox or container without the labels of a pod is foreign', () => {
    expect(groupByPod([sandbox('s', null)], [container('c', null)]).size).toBe(0);
    expect([...groupByPod([sandbox('s', 'a')], [container('c', null)]).keys()]).toEqual(['a']);
  });

  it('a container without a sandbox is still its pod’s', () => {
    expect(groupByPod([], [container('c', 'a')]).get('a')).toMatchObject({ sandboxIds: [], containerIds: ['c'] });
  });

  it('labels that are names of Object.prototype are labels', () => {
    const hostile = Object.fromEntries([
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ]);
    expect(groupByPod([sandbox('s', null, { labels: hostile })], []).size).toBe(0);
    expect([...groupByPod([sandbox('s', '__proto__')], []).keys()]).toEqual(['__proto__']);
  });

  const base = [container('c', 'a'), container('d', 'a')];
  it.each([
    ['another order', [container('d', 'a'), container('c', 'a')], true],
    ['other labels', [container('c', 'a', { annotations: { x: 'y' } }), container('d', 'a')], true],
    ['another state', [container('c', 'a', { state: 'CONTAINER_EXITED' }), container('d', 'a')], false],
    ['one less', [container('c', 'a')], false],
    ['another id', [container('c', 'a'), container('e', 'a')], false],
  ])('digests: %s', (_what, containers, equal) => {
    const digest = (of: readonly Container[]) => groupByPod([], of).get('a')?.digest;
    expect(digest(containers) === digest(base)).toBe(equal);
  });
});

describe('one pod in canonical form', () => {
  it('has the needed fields, and name and namespace from the labels', () => {
    const annotations = { 'io.kubernetes.container.terminationMessagePath': '/dev/termination-log' };
    const mounts = ['/dev/termination-log', '/etc/hosts'].map((container_path) => ({ container_path, readonly: true }));
    const containers = [containerStatus('c', 'a', { annotations, mounts })];
    const status = podRuntimeStatus('a', [sandboxStatus('s', 'a', { annotations: { x: 'y' } })], containers, 0);
    expect(status).toMatchObject({ uid: 'a', name: 'name-of-a', namespace: 'default' });
    expect(status.sandboxes).toMatchObject([{ labels: {}, annotations: {} }]);
    expect(status.containers).toMatchObject([
      { labels: {}, annotations, mounts: [{ container_path: '/dev/termination-log' }] },
    ]);
  });

  it('is sorted newest first, by numbers and not by text', () => {
    const times = ['9', '1700000000000000001', '1700000000000000000', '10'];
    const containers = times.map((created_at, index) => containerStatus(`c${index}`, 'a', { created_at }));
    const status = podRuntimeStatus('a', [], containers, 0);
    expect(status.containers.map(({ created_at }) => created_at)).toEqual([
      '1700000000000000001',
      '1700000000000000000',
      '10',
      '9',
    ]);
  });

  it('a state of a newer runtime is unknown, and not ready', () => {
    const status = podRuntimeStatus(
      'a',
      [sandboxStatus('s', 'a', { state: 7 })],
      [containerStatus('c', 'a', { state: 9 })],
      0,
    );
    expect(status.sandboxes[0]?.state).toBe('SANDBOX_NOTREADY');
    expect(status.containers[0]?.state).toBe('CONTAINER_UNKNOWN');
  });

  it('missing metadata stays absent, and negative exit codes are kept', () => {
    const bare = containerStatus('c', 'a', { metadata: null, image: null, exit_code: -1 });
    const [only] = podRuntimeStatus('a', [], [bare], 0).containers;
    expect(only).not.toHaveProperty('metadata');
    expect(only).not.toHaveProperty('image');
    expect(only?.exit_code).toBe(-1);
  });

  it('name and namespace come from any sandbox or container with labels', () => {
    expect(podRuntimeStatus('a', [], [containerStatus('c', 'a')], 0)).toMatchObject({
      name: 'name-of-a',
      namespace: 'default',
    });
    expect(podRuntimeStatus('a', [], [], 0)).toMatchObject({ name: '', namespace: '' });
  });
});

describe('the ledger', () => {
  it('a new pod is inspected and reported once, and not again while it stays the same', () => {
    const ledger = new PodCache();
    expect(ledger.relisted(listed('a'), 1)).toEqual({ inspect: ['a'], items: [] });
    expect(ledger.inspected(observed('a', 2))).toMatchObject([{ type: 'runtime.podChanged', status: { uid: 'a' } }]);
    expect(ledger.relisted(listed('a'), 3)).toEqual({ inspect: [], items: [] });
    expect(ledger.inspected(observed('a', 4))).toEqual([]);
  });

  it('a change that only the full status shows is reported', () => {
    const ledger = new PodCache();
    ledger.inspected(observed('a', 1));
    expect(ledger.inspected(observed('a', 2, { reason: 'OOMKilled' }))).toHaveLength(1);
  });

  it('a changed list requests an inspection, and reports nothing itself', () => {
    const ledger = new PodCache();
    ledger.inspected(observed('a', 1));
    const change = listed('a', { state: 'CONTAINER_EXITED' });
    expect(ledger.relisted(change, 2)).toEqual({ inspect: ['a'], items: [] });
  });

  it.each([
    ['a later list removes a pod', 1, 2, { inspect: [], items: [{ type: 'runtime.podRemoved', uid: 'a' }] }],
    ['a list that began before the pod was seen does not', 2, 1, { inspect: ['a'], items: [] }],
  ])('%s', (_what, seenAtMs, listedAtMs, findings) => {
    const ledger = new PodCache();
    ledger.inspected(observed('a', seenAtMs));
    expect(ledger.relisted(empty, listedAtMs)).toEqual(findings);
  });

  it('an ended instance stays ended, whatever an earlier answer says', () => {
    const ledger = new PodCache();
    ledger.inspected(observed('a', 1));
    const ended = containerInstance(containerStatus('c', 'a', { state: 'CONTAINER_EXITED', exit_code: 5 }));
    expect(ledger.observed(ended, 2)).toHaveLength(1);
    expect(ledger.observed(containerInstance(containerStatus('c', 'a')), 3)).toEqual([]);
    expect(ledger.hasEnded('c')).toBe(true);
  });

  it('an inspection that finds nothing removes the pod, once', () => {
    const ledger = new PodCache();
    ledger.inspected(observed('a', 1));
    const nothing = podRuntimeStatus('a', [], [], 2);
    expect(ledger.inspected(nothing)).toEqual([{ type: 'runtime.podRemoved', uid: 'a' }]);
    expect(ledger.inspected(nothing)).toEqual([]);
  });

  it('an observation that began earlier changes nothing', () => {
    const ledger = new PodCache();
    ledger.inspected(observed('a', 5, { exit_code: 1 }));
    expect(ledger.inspected(observed('a', 4, { exit_code: 2 }))).toEqual([]);
  });

  it('a stale pod is reported once per reason, inspected at each relist, and reported again when it recovers', () => {
    const ledger = new PodCache();
    ledger.inspected(observed('a', 1));
    expect(ledger.failed('a', 'hangs')).toEqual([{ type: 'runtime.podStale', uid: 'a', message: 'hangs' }]);
    expect(ledger.failed('a', 'hangs')).toEqual([]);
    expect(ledger.failed('a', 'refuses')).toHaveLength(1);
    expect(ledger.staleCount).toBe(1);
    expect(ledger.relisted(listed('a'), 2).inspect).toEqual(['a']);
    expect(ledger.inspected(observed('a', 3))).toHaveLength(1);
    expect(ledger.staleCount).toBe(0);
  });

  it('a stale pod that the runtime no longer has is not stale', () => {
    const ledger = new PodCache();
    ledger.failed('a', 'hangs');
    ledger.relisted(empty, 1);
    expect(ledger.staleCount).toBe(0);
  });

  it('ids lead to their pod until a later list lacks them', () => {
    const ledger = new PodCache();
    ledger.learn('early', 'a', 1);
    ledger.learn('late', 'a', 5);
    ledger.relisted(listed('a'), 3);
    expect(['s', 'c', 'early', 'late'].map((id) => ledger.podOf(id))).toEqual(['a', 'a', undefined, 'a']);
  });
});
