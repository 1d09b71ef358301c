/** Answers that no API server gives: each is an error that names the field, never an exception of later code. */
import { describe, expect, it } from 'vitest';
import { answerToWrite, decodedList, decodedObject } from '../../../src/actors/kube/decode.ts';
import { readWatch } from '../../../src/actors/kube/watch.ts';
import { Vault } from '../../../src/kernel/journal/secrets.ts';
import type { Json } from '../../../src/kernel/json.ts';

const deep = (levels: number): Json => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`) as Json;

const keys = (count: number): Json => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, '']));

const LONG = 'x'.repeat(100_000);
const TERMS = 'pods.spec.nodeAffinity.required.nodeSelectorTerms';
/** A volume that only some nodes can use. */
const bound = (nodeSelectorTerms: Json): Json => ({
  metadata: {},
  spec: { nodeAffinity: { required: { nodeSelectorTerms } } },
});

describe('an object', () => {
  it.each<[Json, string]>([
    [null, 'pods: a map expected, not null'],
    [true, 'pods: a map expected, not a boolean'],
    [[], 'pods: a map expected, not a list'],
    [{ metadata: 'x' }, 'pods.metadata: a map expected, not a string'],
    [{ metadata: { name: 5 } }, 'pods.metadata.name: text expected, not a number'],
    [{ metadata: { resourceVersion: {} } }, 'pods.metadata.resourceVersion: text expected, not a map'],
    [{ metadata: { labels: 7 } }, 'pods.metadata.labels: a map expected, not a number'],
    [{ metadata: { annotations: { a: [1] } } }, 'pods.metadata.annotations["a"]: text expected, not a list'],
    [{ metadata: { finalizers: 'a' } }, 'pods.metadata.finalizers: a list expected, not a string'],
    [{ metadata: { ownerReferences: [null] } }, 'pods.metadata.ownerReferences[0]: a map expected, not null'],
    [{ metadata: {}, spec: 5 }, 'pods.spec: a map expected, not a number'],
    [{ metadata: {}, status: [] }, 'pods.status: a map expected, not a list'],
    [{ metadata: {}, data: { a: 1 } }, 'pods.data["a"]: text expected, not a number'],
    [{ metadata: {}, data: keys(10_001) }, 'pods.data: at most 10000 keys expected, not a map'],
    [{ metadata: { name: 'a/b' } }, 'pods.metadata.name: a segment of a path expected, not a string'],
    [{ metadata: { name: '..' } }, 'pods.metadata.name: a segment of a path expected, not a string'],
    [{ metadata: { namespace: '../a' } }, 'pods.metadata.namespace: a segment of a path expected, not a string'],
    [{ metadata: { name: 'a\0' } }, 'pods.metadata.name: a segment of a path expected, not a string'],
    [{ metadata: { name: LONG } }, 'pods.metadata.name: at most 1024 characters expected, not a string'],
    [{ metadata: { uid: LONG } }, 'pods.metadata.uid: at most 1024 characters expected, not a string'],
    [{ metadata: { resourceVersion: LONG } }, 'pods.metadata.resourceVersion: at most 1024 characters expected'],
    [{ metadata: { continue: LONG } }, 'pods.metadata.continue: at most 65536 characters expected'],
    [{ metadata: {}, spec: { podCIDRs: '10.0.0.0/8' } }, 'pods.spec.podCIDRs: a list expected, not a string'],
    [{ metadata: {}, spec: { taints: 5 } }, 'pods.spec.taints: a list expected, not a number'],
    [{ metadata: {}, status: { conditions: {} } }, 'pods.status.conditions: a list expected, not a map'],
    [{ metadata: {}, status: { conditions: [null] } }, 'pods.status.conditions[0]: a map expected, not null'],
    [{ metadata: {}, status: { volumesAttached: 5 } }, 'pods.status.volumesAttached: a list expected, not a number'],
    [bound([null]), `${TERMS}[0]: a map expected, not null`],
    [bound({}), `${TERMS}: a list expected, not a map`],
    [bound([{ matchFields: null }]), `${TERMS}[0].matchFields: a value expected, not null`],
    [bound([{ matchExpressions: [{ values: null }] }]), `${TERMS}[0].matchExpressions[0].values: a value expected`],
    [bound([{ matchExpressions: [{ values: 'a' }] }]), `${TERMS}[0].matchExpressions[0].values: a list expected`],
    [{ metadata: {}, spec: deep(100_000) }, 'pods: at most 200 levels expected, not a map'],
  ])('%o', (value, words) => {
    expect(() => decodedObject(value, 'pods')).toThrow(`the API server's answer cannot be decoded: ${words}`);
  });

  it('may lack what it has not, and names of prototypes are names', () => {
    const text = '{"metadata":{"name":"a","labels":null,"__proto__":{"name":5}},"spec":null,"__proto__":{"spec":7}}';
    const object = decodedObject(JSON.parse(text) as Json, 'pods');
    expect(JSON.stringify(object)).toBe(text);
  });

  it('with a key of megabytes at fault quotes a part of it', () => {
    const labels = { ['x'.repeat(1_000_000)]: 5 };
    expect(() => decodedObject({ metadata: { labels } }, 'pods')).toThrow(
      /^.{1000,1200}: text expected, not a number$/,
    );
  });

  it('without metadata has empty ones', () => {
    expect(decodedObject({ kind: 'TokenReview' }, 'reviews')).toEqual({ kind: 'TokenReview', metadata: {} });
  });

  it('has no managed fields, however deep', () => {
    const metadata = { name: 'a', managedFields: [{ fieldsV1: deep(1_000) }] };
    expect(decodedObject({ metadata, spec: {} }, 'pods')).toEqual({ metadata: { name: 'a' }, spec: {} });
  });

  it('that is a Status says its status as text', () => {
    expect(decodedObject({ kind: 'Status', metadata: {}, status: 'Success' }, 'pods')).toBeDefined();
  });
});

describe('the answer to a write', () => {
  const vault = new Vault(Buffer.alloc(32, 1));
  const answer = {
    kind: 'Any',
    metadata: { name: 'a', namespace: 'default', uid: '1', resourceVersion: '7', labels: { app: 'web' } },
    spec: { nodeName: 'node-1' },
    status: { phase: 'Running' },
  };
  const target = { client: 'kube', apiVersion: 'v1', namespace: 'default', name: 'a' } as const;

  it('of the status of a pod has its status and its version', () => {
    const { labels: _dropped, ...metadata } = answer.metadata;
    const written = answerToWrite({ ...target, resource: 'pods', subresource: 'status' }, answer, vault);
    expect(written).toEqual({ metadata, status: answer.status });
  });

  it('of an event has its name', () => {
    expect(answerToWrite({ ...target, client: 'event', resource: 'events' }, answer, vault)).toEqual({
      metadata: { name: 'a' },
    });
  });

  it.each(['pods', 'nodes'])('of other %s has all of it', (resource) => {
    expect(answerToWrite({ ...target, resource }, answer, vault)).toEqual(answer);
  });
});

describe('a list', () => {
  it.each<[Json, string]>([
    [7, 'list: a map expected, not a number'],
    [{ metadata: 'x' }, 'list.metadata: a map expected, not a string'],
    [{ metadata: {}, items: {} }, 'list.items: a list expected, not a map'],
    [{ metadata: {}, items: [{ metadata: {} }, null] }, 'list.items[1]: a map expected, not null'],
    [{ metadata: { continue: 5 } }, 'list.metadata.continue: text expected, not a number'],
  ])('%o', (value, words) => {
    expect(() => decodedList(value)).toThrow(words);
  });

  it('of none may be null', () => {
    expect(decodedList({ metadata: { resourceVersion: '1' }, items: null }).items).toEqual([]);
  });
});

describe('a watch', () => {
  const read = (...lines: readonly string[]) => {
    const seen: string[] = [];
    const body = { on: () => body, destroy: () => {}, [Symbol.asyncIterator]: () => chunks() };
    async function* chunks() {
      yield* lines.map((line) => Buffer.from(`${line}\n`));
    }
    const answer = { statusCode: 200, headers: {}, body } as never;
    return readWatch(answer, '1', (change, { metadata }) => seen.push(`${change} ${metadata.name}`)).then((end) => ({
      end,
      seen,
    }));
  };
  const of = (type: string, name: string, version: number, uid = name) =>
    JSON.stringify({ type, object: { metadata: { name, uid, resourceVersion: String(version) } } });
  const good = '{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"2"}}}';

  it('of objects that change faster than decisions reports the newest state of each, and every deletion', async () => {
    const storm = Array.from({ length: 1_000 }, (_, at) => [
      of('ADDED', 'storm', 3 * at + 2, `u${at}`),
      of('MODIFIED', 'storm', 3 * at + 3, `u${at}`),
      of('DELETED', 'storm', 3 * at + 4, `u${at}`),
    ]);
    const changed = Array.from({ length: 500 }, (_, at) => of('MODIFIED', 'changing', 4_000 + at));
    const { end, seen } = await read(good, ...storm.flat(), ...changed, of('ADDED', 'after', 5_000));
    expect(end).toEqual({ reason: 'closed', resourceVersion: '5000' });
    expect([seen[0], seen.at(-1)]).toEqual(['ADDED a', 'ADDED after']);
    expect(seen.filter((each) => each === 'DELETED storm')).toHaveLength(1_000);
    const [added, modified] = ['ADDED storm', 'MODIFIED changing'].map((what) => seen.filter((each) => each === what));
    expect(added!.length + modified!.length).toBeLessThan(500);
  });

  it('tells changes in the order of their versions, so that none is missed when the watch continues', async () => {
    const { seen } = await read(good, of('ADDED', 'b', 3), of('ADDED', 'c', 4), of('MODIFIED', 'b', 5));
    expect(seen).toEqual(['ADDED a', 'ADDED c', 'ADDED b']);
  });

  it('tells an object that went and came back in this order', async () => {
    const { seen } = await read(
      good,
      of('MODIFIED', 'b', 3),
      of('DELETED', 'b', 4),
      of('ADDED', 'b', 5),
      of('MODIFIED', 'b', 6),
    );
    expect(seen).toEqual(['ADDED a', 'DELETED b', 'ADDED b']);
  });

  it('a line without end is given up at 16 MiB, and the connection is closed', async () => {
    let sent = 0;
    async function* drip() {
      for (const chunk = Buffer.alloc(64 * 1024, 'x'); sent < 1_000; sent++) yield chunk;
    }
    let isClosed = false;
    const body = { on: () => body, destroy: () => void (isClosed = true), [Symbol.asyncIterator]: drip };
    const answer = { statusCode: 200, headers: {}, body } as never;
    await expect(readWatch(answer, '1', () => undefined)).rejects.toThrow('a change has more than 16777216 bytes');
    expect([sent, isClosed]).toEqual([256, true]);
  });

  it('many changes at once let everything else have its turn between two of them', async () => {
    let turns = 0;
    const count = () => {
      turns++;
      immediate = setImmediate(count);
    };
    let immediate = setImmediate(count);
    const at: number[] = [];
    const body = { on: () => body, destroy: () => {}, [Symbol.asyncIterator]: () => [lines].values() };
    const lines = Buffer.from(Array.from({ length: 100 }, (_, at) => `${of('ADDED', `n${at}`, at + 2)}\n`).join(''));
    await readWatch({ statusCode: 200, headers: {}, body } as never, '1', () => at.push(turns));
    clearImmediate(immediate);
    expect(new Set(at).size).toBe(100);
  });

  it('a change in pieces of one byte takes little more memory than its bytes', async () => {
    const piece = Buffer.from('x');
    let heap = 0;
    async function* drip() {
      const before = process.memoryUsage().heapUsed;
      for (let sent = 0; sent < 3_000_000; sent++) yield piece.subarray();
      heap = process.memoryUsage().heapUsed - before;
      yield Buffer.from('\n');
    }
    const body = { on: () => body, destroy: () => {}, [Symbol.asyncIterator]: drip };
    const answer = { statusCode: 200, headers: {}, body } as never;
    await expect(readWatch(answer, '1', () => undefined)).rejects.toThrow('a change is no JSON');
    expect(heap).toBeLessThan(100 * 1_048_576);
  });

  it.each(['null', '7', '[]', '{}', '{"type":7,"object":{}}', '{"type":"PATCHED","object":{"metadata":{}}}'])(
    'is over with the line %s',
    async (line) => {
      const { end, seen } = await read(good, line, good);
      expect([end, seen]).toEqual([{ reason: 'closed', resourceVersion: '2' }, ['ADDED a']]);
    },
  );

  it('that begins with such a line fails: the next one would begin with it, too', async () => {
    await expect(read('7', good)).rejects.toThrow('a change is no JSON');
  });

  it.each([
    '{"type":"MODIFIED"}',
    '{"type":"BOOKMARK","object":7}',
    '{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":{}}}}',
    '{"type":"ERROR","object":"x"}',
    `{"type":"ADDED","object":{"metadata":{},"spec":${'['.repeat(100_000)}${']'.repeat(100_000)}}}`,
  ])('fails with the line %.60s', async (line) => {
    await expect(read(good, line)).rejects.toThrow(/cannot be decoded: watch\.object/);
  });
});
