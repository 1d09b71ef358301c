/** A source with many pods publishes a few in each turn, so that other messages are handled in between. */
import { afterEach, describe, expect, it } from 'vitest';
import type { KernelRecord } from '../../../../../src/kernel/records.ts';
import { manifest, nodeWith, type PodsNode } from '../../../../support/pods-node.ts';
import { type ClusterNode, clusterNode } from '../cluster/support.ts';

const PORTION = 10;
const COUNT = 45;
const names = Array.from({ length: COUNT }, (_, at) => `pod-${String(at).padStart(3, '0')}`);
const manifests = (prefix = 'u') => names.map((name) => manifest({ uid: `${prefix}-${name}`, name }));

let node: PodsNode;

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

interface ConfigPods {
  readonly op: string;
  readonly pods: readonly { readonly name?: string; readonly metadata?: { readonly name: string } }[];
}

const turnsOf = (records: readonly KernelRecord[]): KernelRecord[][] => {
  const turns: KernelRecord[][] = [[]];
  for (const record of records) {
    turns.at(-1)!.push(record);
    if (record.k === 'end') turns.push([]);
  }
  return turns;
};

const messagesTo = (actor: string, type: string, records: readonly KernelRecord[] = node.sink.records) =>
  records.flatMap((record) =>
    record.k === 'message' && record.to === `kubelet/${actor}` && record.event.type === type ? [record.event] : [],
  );

/** The names that were published with this operation, by turn. */
const published = (op: string): string[][] =>
  turnsOf(node.sink.records)
    .map((turn) =>
      messagesTo('pods', 'config.pods', turn).flatMap((event) => {
        const { op: itsOp, pods } = event as unknown as ConfigPods;
        return itsOp === op ? pods.map((pod) => pod.metadata?.name ?? pod.name ?? '') : [];
      }),
    )
    .filter((found) => found.length > 0);

const isKnown = (actor: string) => () => messagesTo(actor, 'config.sourceReady').length > 1;

function cluster(): ClusterNode {
  const made = clusterNode();
  ({ node } = made);
  return made;
}

describe('a list of the API server', () => {
  it('is published in portions and in its order, and the source is ready after the last one', () => {
    const { kube } = cluster();
    for (const name of names) kube.createPod(name);
    node.boot().until('ready', isKnown('syncLoop'));
    const added = published('ADD');
    expect(added.flat()).toEqual(names);
    expect(Math.max(...added.map(({ length }) => length))).toBe(PORTION);
    const [, ready] = messagesTo('syncLoop', 'config.sourceReady');
    expect(ready).toMatchObject({ source: 'api', uids: names.map((name) => kube.pod(name).metadata.uid) });
  });

  it('that is not longer than a portion is published in the turn in which it arrives', () => {
    const { kube } = cluster();
    for (const name of names.slice(0, PORTION)) kube.createPod(name);
    node.boot().until('ready', isKnown('syncLoop'));
    expect(published('ADD')).toEqual([names.slice(0, PORTION)]);
  });

  /** The watch reports this at once; in the world of the tests it would only open after the last portion. */
  const watched = (change: string, object: object): void =>
    void node.kernel.dispatch('kubelet/podConfig/apiSource', { type: 'reflector.changed', change, object }, 'test');

  it('lets the other inputs have their turn', () => {
    const { kube } = cluster();
    for (const name of names) kube.createPod(name);
    node.boot().until('the first portion', () => published('ADD').length === 1);
    kube.patch('pods', names[0]!, { metadata: { labels: { changed: 'yes' } } });
    watched('MODIFIED', kube.pod(names[0]!));
    expect(published('UPDATE')).toEqual([[names[0]]]);
    expect(published('ADD').flat()).toHaveLength(PORTION);
    node.until('the others', () => published('ADD').flat().length === COUNT);
  });

  it('has pods as they are by the time of their publication, and new ones at its end', () => {
    const { kube } = cluster();
    for (const name of names) kube.createPod(name);
    node.boot().until('the first portion', () => published('ADD').length === 1);
    const [gone, changed] = [names.at(-1)!, names.at(-2)!];
    watched('DELETED', kube.pod(gone));
    kube.delete('pods', gone, 0);
    kube.patch('pods', changed, { metadata: { labels: { changed: 'yes' } } });
    watched('MODIFIED', kube.pod(changed));
    kube.createPod('new');
    watched('ADDED', kube.pod('new'));
    expect(published('ADD').flat()).toHaveLength(PORTION);
    node.until('ready', isKnown('syncLoop')).run(1_000);
    expect(published('ADD').flat()).toEqual([...names.slice(0, -1), 'new']);
    expect(published('UPDATE')).toEqual([]);
    const [, ready] = messagesTo('syncLoop', 'config.sourceReady') as unknown as [unknown, { uids: string[] }];
    expect(ready.uids).toHaveLength(COUNT);
  });

  it('is published whole when the actor of the pods crashed between two portions', () => {
    const { kube } = cluster();
    for (const name of names) kube.createPod(name);
    node.boot().until('the first portion', () => published('ADD').length === 1);
    kube.breakWatches();
    node.kernel.dispatch('kubelet/podConfig', { type: 'config.wanted', uids: null }, 'test');
    node.until('all run', () => names.every((name) => kube.pod(name).status?.phase === 'Running'));
    expect(messagesTo('pods', 'config.pods').flatMap((event) => (event.op === 'REMOVE' ? [event] : []))).toEqual([]);
  });

  it('ends no pod of an earlier agent before it was published', () => {
    const { kube } = cluster();
    for (const name of names) kube.createPod(name);
    node.boot().until('all run', () => names.every((name) => kube.pod(name).status?.phase === 'Running'));
    const before = node.world.runtime.started.length;
    node = node.restart();
    node.run(120_000);
    expect(node.logs('Ending a pod that is not wanted any more')).toEqual([]);
    expect(node.world.runtime.started).toHaveLength(before);
    expect(names.map((name) => kube.pod(name).status?.phase)).toEqual(names.map(() => 'Running'));
  });
});

describe('a pod of the API server that comes or goes', () => {
  it('is reported by its own uid', () => {
    const { kube } = cluster();
    for (const name of names) kube.createPod(name);
    node.boot().until('ready', isKnown('syncLoop')).run(1_000);
    kube.createPod('one');
    const { uid } = kube.pod('one').metadata;
    node.run(1_000);
    kube.delete('pods', 'one', 0);
    node.run(1_000);
    const changes = messagesTo('syncLoop', 'config.sourceChanged').slice(-2);
    expect(changes).toEqual([
      { type: 'config.sourceChanged', source: 'api', added: [uid], removed: [] },
      { type: 'config.sourceChanged', source: 'api', added: [], removed: [uid] },
    ]);
    expect(messagesTo('syncLoop', 'config.sourceReady')).toHaveLength(2);
    node.run(60_000);
    const desired = messagesTo('pods', 'pods.housekeeping').at(-1)!['desired'];
    expect(desired).toEqual(names.map((name) => kube.pod(name).metadata.uid));
  });

  it('copies no table of all pods when only its status changes, or when another one ends', () => {
    const { kube } = cluster();
    for (const name of names) kube.createPod(name);
    node.boot().until('all run', () => names.every((name) => kube.pod(name).status?.phase === 'Running'));
    const source = () =>
      (
        node.kernel.snapshotOf('kubelet/podConfig/apiSource') as {
          readonly context: { reported: unknown; seen: unknown; mirrors: unknown };
        }
      ).context;
    const before = source();
    kube.patch('pods', names[0]!, { status: { message: 'of another client' } }, 'status');
    node.run(1_000);
    expect(source().reported).toBe(before.reported);
    expect(source().seen).toBe(before.seen);
    expect(source().mirrors).toBe(before.mirrors);
    const softState = () =>
      (
        node.kernel.snapshotOf('kubelet/softState') as {
          readonly context: { state: { probes: unknown; rejections: unknown } };
        }
      ).context.state;
    const forget = (name: string) => {
      const { uid } = kube.pod(name).metadata;
      node.kernel.dispatch('kubelet/softState', { type: 'softState.forgotten', uid }, 'test');
    };
    forget(names[1]!);
    const { probes, rejections } = softState();
    forget(names[2]!);
    expect(softState().probes).toBe(probes);
    expect(softState().rejections).toBe(rejections);
  });
});

describe('a folder of many manifests', () => {
  it('is published in portions, and each portion is wanted at once', () => {
    node = nodeWith();
    node.boot().run(5_000);
    node.world.setManifests(manifests());
    node.until('the first portion', () => published('ADD').length === 1);
    node.kernel.dispatch('kubelet/syncLoop', { type: 'runtime.relisted', uids: [] }, 'test');
    node.until('all run', () => names.every((name) => node.phase(`u-${name}`) === 'Running'));
    expect(published('ADD').flat()).toEqual(names.map((name) => `${name}-node`));
    expect(Math.max(...published('ADD').map(({ length }) => length))).toBe(PORTION);
    expect(node.logs('Ending a pod that is not wanted any more')).toEqual([]);
  });

  it('that changes between two portions is published as it is by then, removals first', () => {
    node = nodeWith();
    node.boot().run(5_000);
    node.world.setManifests(manifests());
    node.until('the first portion', () => published('ADD').length === 1);
    node.world.setManifests(manifests('v'));
    node.until('all run', () => names.every((name) => node.phase(`v-${name}`) === 'Running'));
    expect(published('REMOVE').flat()).toEqual(names.slice(0, PORTION).map((name) => `${name}-node`));
    node.world.setManifests([]);
    node.until('none', () => node.world.runtime.sandboxes.size === 0);
    expect(Math.max(...published('REMOVE').map(({ length }) => length))).toBe(PORTION);
  });
});
