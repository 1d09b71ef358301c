/** Static pods from a URL, beside those of files and of the API server. */
import { afterEach, describe, expect, it } from 'vitest';
import { manifest, type PodsNode } from '../../../../support/pods-node.ts';
import { clusterNode } from './support.ts';

const url = 'http://127.0.0.1/pods';
let node: PodsNode;

function prepare(): PodsNode {
  const cluster = clusterNode({ staticPodURL: url, staticPodURLHeader: {}, httpCheckFrequencyMs: 20_000 });
  node = cluster.node;
  return node;
}
const running = (uid: string) => () => node.phase(uid) === 'Running';
const headers = { $secret: `§${'a'.repeat(22)}`, len: 7 };

afterEach(() => {
  expect(node.crashes()).toEqual([]);
  node.assertReplays();
});

describe('httpSource', () => {
  it('runs what the URL gives, and ends what it gives no more', () => {
    prepare().world.setFetched([manifest({ uid: 'u1', name: 'one' }), manifest({ uid: 'u2', name: 'two' })]);
    node.boot().until('both', () => running('u1')() && running('u2')());
    expect(node.world.kube!.pod('one-node').metadata.annotations).toMatchObject({
      'kubernetes.io/config.source': 'http',
    });
    expect(node.world.kube!.pod('one-node').spec.tolerations).not.toContainEqual({
      operator: 'Exists',
      effect: 'NoExecute',
    });
    node.world.setFetched([manifest({ uid: 'u1', name: 'one' })]);
    node.until('gone', () => node.podState('u2') === undefined);
    node.until('its mirror', () => node.world.kube!.pod('two-node') === undefined);
    expect(node.phase('u1')).toBe('Running');
  });

  it('keeps what runs while the URL gives nothing, and says so once', () => {
    prepare().world.setFetched([manifest({ uid: 'u1' })]);
    node.boot().until('Running', running('u1'));
    node.world.setFetched(null, `${url}: 503 Service Unavailable`);
    node.world.setFetched(null, `${url}: 503 Service Unavailable`);
    node.run(120_000);
    expect(node.phase('u1')).toBe('Running');
    expect(node.logs('Failed to read pods from URL')).toEqual([{ url, error: `${url}: 503 Service Unavailable` }]);
    node.world.setFetched([manifest({ uid: 'u1' })]);
    node.run(1_000);
    expect(node.logs('The pods of the URL are read again')).toHaveLength(1);
  });

  const invalid = manifest({ uid: 'u2', name: 'two', spec: { containers: [] } });
  it.each([
    ['its pod', [{ ...invalid, uid: 'u1' }]],
    ['another pod', [manifest({ uid: 'u3', name: 'three' }), invalid]],
  ])('keeps what runs while %s is invalid', (_, manifests) => {
    prepare().world.setFetched([manifest({ uid: 'u1' })]);
    node.boot().until('Running', running('u1'));
    node.world.setFetched(manifests);
    node.run(120_000);
    expect(node.phase('u1')).toBe('Running');
    expect(node.logs('Failed to read pods from URL')).toHaveLength(1);
    node.world.setFetched([manifest({ uid: 'u3', name: 'three' })]);
    node.until('the next', () => running('u3')() && node.podState('u1') === undefined);
  });

  it('runs the first of two pods of one name', () => {
    prepare().world.setFetched([manifest({ uid: 'u1', name: 'one' }), manifest({ uid: 'u2', name: 'one' })]);
    node.boot().until('Running', running('u1'));
    expect(node.podState('u2')).toBeUndefined();
  });

  it('whose answer is empty ends what it gave, and has been heard', () => {
    prepare().world.setFetched([manifest({ uid: 'u1' })]);
    node.boot().until('Running', running('u1'));
    const error = `zero-length data received from ${url}`;
    node.world.setFetched([], error);
    node.until('gone', () => node.podState('u1') === undefined);
    expect(node.logs('Failed to read pods from URL')).toEqual([{ url, error }]);
  });

  it('that never published anything delays the end of orphaned pods', () => {
    prepare().world.setFetched(null, 'connection refused');
    node.world.runtime.runSandbox({
      metadata: { name: 'old', uid: 'old', namespace: 'n', attempt: 0 },
      hostname: '',
      log_directory: '',
      labels: {},
      annotations: {},
    });
    node.boot().run(120_000);
    expect(node.podState('old')).toBe('unclaimed');
    node.world.setFetched([]);
    node.until('ended', () => node.podState('old') === undefined);
  });

  it('asks with the handles of its headers', () => {
    node = clusterNode({ staticPodURL: url, staticPodURLHeader: { Authorization: [headers] } }).node;
    node.boot().run(100);
    const [asked] = node.sink.records.flatMap((record) =>
      record.k === 'effect' && record.name === 'host.watchManifestUrl' ? [record.input] : [],
    );
    expect(asked).toEqual({ url, headers: { Authorization: [headers] }, nodeName: 'node', periodMs: 20_000 });
  });
});
