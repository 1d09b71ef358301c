/**
 * References in lines: they shorten what is written, are resolved when it is read, and hostile ones are refused early.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BadReference, Decoder, type RawLine } from '../../../src/kernel/journal/decoder.ts';
import { Encoder } from '../../../src/kernel/journal/encoder.ts';
import { ADDRESSES_MAX, REACH } from '../../../src/kernel/journal/references.ts';
import type { JournalRecord } from '../../../src/kernel/records.ts';

const SOON_MS = 1_000;

/** Whatever a line refers to, it is read as it was before. */
class Pair {
  readonly blobs = new Map<unknown, string>();
  readonly encoder = new Encoder((sha256, json) => this.blobs.set(sha256, json));
  readonly decoder = new Decoder((sha256) => {
    const json = this.blobs.get(sha256)!;
    return { value: JSON.parse(json), bytes: json.length };
  });
  n = 0;

  line(fields: object): string {
    const record = { n: this.n++, ...fields } as JournalRecord;
    const line = this.encoder.encode(record);
    const read = this.decoder.decode(JSON.parse(line) as RawLine, line.length, false);
    expect(JSON.stringify(read)).toBe(JSON.stringify(record));
    return line;
  }

  message(event: unknown, from = 'kubelet/pods', to = 'kubelet/status'): string {
    return this.line({ k: 'message', from, to, event, cause: this.n - 1 });
  }
}

const POD = { uid: '0f4b8f3e-9a66-4c52-8b1a-2f5d1c1c7000', name: 'web', labels: { 'app.kubernetes.io/name': 'web' } };

describe('a line', () => {
  it('refers to what was written before, by content and by identity', () => {
    const pair = new Pair();
    pair.message({ type: 'pod.added', pod: POD });
    expect(pair.message({ type: 'pod.seen', by: 1, pod: POD })).toContain('"pod":"$1/event/pod"');
    expect(pair.message({ type: 'pod.seen', by: 1, pod: structuredClone(POD) })).toContain('"event":"$1/event"');
    expect(pair.message({ type: 'pod.uid', of: [POD.uid] })).toContain('["$1/event/pod/uid"]');
  });

  it('says of an object with the same members only those that differ, in the order of the object', () => {
    const pair = new Pair();
    pair.message({ type: 'x', status: { phase: 'Pending', conditions: [POD, POD], hostIP: '192.168.0.1' } });
    const line = pair.message({
      type: 'x',
      status: { phase: 'Running', conditions: [POD, POD], hostIP: '192.168.0.1' },
    });
    expect(line).toContain('"status":{"$":"1/event/status","phase":"Running"}}');
    const other = pair.message({
      type: 'x',
      status: { hostIP: '192.168.0.1', phase: 'Running', conditions: [POD, POD] },
    });
    expect(other).not.toContain('"$":"1/event/status"');
  });

  it('says of a large object only the members that are gone, changed or new', () => {
    const pair = new Pair();
    const pods = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`pod-${at}`, { name: `a pod ${at}` }]));
    pair.message({ type: 'pods', pods });
    const { 'pod-3': moved, 'pod-4': _gone, ...others } = pods;
    const changed = { ...others, 'pod-5': { name: 'another' }, 'pod-3': moved, new: { name: 'one more' } };
    expect(pair.message({ type: 'pods', pods: changed })).toContain(
      '"pods":{"$":"1/event/pods","$-":["pod-3","pod-4"],' +
        '"pod-5":{"name":"another"},"pod-3":{"name":"a pod 3"},"new":{"name":"one more"}}',
    );
    expect(pair.message({ type: 'pods', pods: { ...changed } })).toContain('"event":"$1/event"');
    expect(pair.message({ type: 'pods', pods: { first: 1, ...changed } })).toContain('"first":1,"pod-0":{');
  });

  it('says of a long list only the items that are gone or new', () => {
    const pair = new Pair();
    const uids = Array.from({ length: 20 }, (_, at) => `the uid of pod ${at}`);
    pair.message({ type: 'uids', uids });
    const changed = [...uids.slice(0, 7), 'a', 'b', ...uids.slice(8)];
    expect(pair.message({ type: 'uids', uids: changed })).toContain('{"$":"1/event/uids","$+":[7,1,"a","b"]}');
    expect(pair.message({ type: 'uids', uids: changed.slice(1) })).toContain('{"$":"1/event/uids","$+":[0,1]}');
    expect(pair.message({ type: 'uids', uids: changed.slice(1) })).toContain('"event":"$1/event"');
    expect(pair.message({ type: 'uids', uids: changed.toReversed() })).toContain('["$');
  });

  it('has the number of an address that was written, and no cause where it is the record before', () => {
    const pair = new Pair();
    expect(pair.message({ type: 'a' })).toContain('"from":"1=kubelet/pods","to":"2=kubelet/status"');
    expect(pair.message({ type: 'a' }, 'kubelet/pods/pod-1', 'kubelet/pods')).toContain('"from":"3=1/pod-1","to":1');
    expect(pair.line({ k: 'message', from: '7/8', to: '7', event: { type: 'a' } })).toBe(
      '{"n":2,"k":"message","from":"0=7/8","to":"0=7","event":{"type":"a"},"cause":0}',
    );
    expect(pair.line({ k: 'message', from: '7=a', to: '7', event: { type: 'a' }, cause: 0 })).toContain('"cause":3}');
  });

  it('numbers addresses anew behind the last number', () => {
    const pair = new Pair();
    for (let at = 0; at < ADDRESSES_MAX; at++) pair.line({ k: 'state', at: `a/${at}`, value: 'b' });
    expect(pair.line({ k: 'state', at: 'a/c', value: 'b' })).toContain('"at":"1=a/c"');
    expect(pair.line({ k: 'state', at: 'a/5', value: 'b' })).toContain('"at":"2=a/5"');
  });

  it('refers no further than a reader holds', () => {
    const pair = new Pair();
    pair.message({ type: 'pod.added', pod: POD });
    for (let at = 1; at < REACH; at++) pair.line({ k: 'cancel', id: at });
    expect(pair.message({ type: 'near', by: 1, pod: POD })).toContain(`"pod":"$${REACH}/event/pod"`);
    for (let at = 0; at < REACH; at++) pair.line({ k: 'cancel', id: at });
    expect(pair.message({ type: 'far', pod: POD })).toContain('"name":"web"');
  });

  it('does not refer to a value a thousand times as long as all lines', () => {
    const pair = new Pair();
    const list = Array.from({ length: 2_000 }, (_, at) => `a text that has some length ${at}`);
    const lines = Array.from({ length: 2_000 }, () => pair.message({ type: 'list', list }));
    expect(lines.filter((line) => line.length < 100).length).toBeGreaterThan(1_800);
    expect(lines.filter((line) => line.includes('$blob')).length).toBeGreaterThan(1);
  });

  it('gives back collections that change', () => {
    const item = fc.oneof(fc.constantFrom('a', '$', '$-', '__proto__', 7, null), fc.constant(POD), fc.string());
    const change = fc.record({ at: fc.nat(30), remove: fc.nat(3), add: fc.array(item, { maxLength: 3 }) });
    const names = fc.constantFrom('a', 'b~/', '__proto__', '$', '$-', '$+', '10', 'pod-1', 'a name of some length');
    const changes = fc.array(fc.tuple(change, names, item), { maxLength: 12 });
    fc.assert(
      fc.property(fc.array(item, { minLength: 10, maxLength: 20 }), changes, (first, steps) => {
        const pair = new Pair();
        let list: readonly unknown[] = first;
        let members: Readonly<Record<string, unknown>> = Object.fromEntries(first.map((each, at) => [`m${at}`, each]));
        for (const [{ at, remove, add }, name, value] of steps) {
          pair.message({ type: 'x', list, also: { members } });
          list = list.toSpliced(at, remove, ...add);
          const { [`m${at}`]: _gone, ...others } = members;
          members = remove === 0 ? { ...members, [name]: value } : { ...others, [name]: value };
        }
        pair.message({ type: 'x', list, also: { members, twice: [list, members] } });
      }),
      { numRuns: 300 },
    );
  });

  it('gives back whatever JSON can say, with parts that repeat', () => {
    const text = fc.oneof(fc.string(), fc.constantFrom(POD.uid, '$1/event/pod', '$$', '$', 'a text of some length'));
    const name = fc.oneof(fc.string(), fc.constantFrom('$', '$blob', '~/~1', '__proto__', 'pod', 'uid', '0', 'length'));
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 5 },
        text,
        fc.integer(),
        fc.constantFrom(POD, [POD, POD]),
        tie('object'),
        tie('list'),
      ),
      list: fc.array(tie('value'), { maxLength: 4 }),
      object: fc.dictionary(name, tie('value'), { maxKeys: 4 }),
    }));
    const event = value.map((inner) => ({ type: 'x', inner, also: [inner, structuredClone(inner)] }));
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 10 }), (events) => {
        const pair = new Pair();
        for (const each of [...events, ...events]) pair.message(each);
      }),
      { numRuns: 300 },
    );
  });
});

/** Reads lines that no encoder writes; `null` if all are accepted. */
function refused(lines: Iterable<object>): string | null {
  const decoder = new Decoder(() => ({ value: 'x'.repeat(2 ** 20), bytes: 2 ** 20 }));
  const began = process.cpuUsage();
  let n = 0;
  try {
    for (const fields of lines) {
      const raw = { n: n++, k: 'in', ...fields };
      decoder.decode(raw, JSON.stringify(raw).length, false);
    }
    return null;
  } catch (error) {
    if (!(error instanceof BadReference)) throw error;
    return error.message;
  } finally {
    expect(process.cpuUsage(began).user / 1_000).toBeLessThan(SOON_MS);
  }
}

function* events(count: number, event: (n: number) => unknown): Generator<object> {
  for (let n = 0; n < count; n++) yield { event: event(n) };
}

const deep = (levels: number): unknown => JSON.parse(`${'['.repeat(levels)}"x"${']'.repeat(levels)}`);

describe('from an enemy', () => {
  it.each<[string, readonly object[], RegExp]>([
    ['a value of itself', [{ event: { a: '$0/event' } }], /refers to what record 0 does not have/],
    ['of the object that it is in', [{ event: { a: { b: ['$0/event/a'] } } }], /refers to what record 0 does not have/],
    ['of what comes behind it', [{ event: { a: '$0/event/b', b: 'c' } }], /refers to what record 0 does not have/],
    ['of the future', [{ event: 1 }, { event: '$-1/event' }], /sign of a reference and is none/],
    ['out of reach', [{ event: 1 }, { event: '$9/event' }], /refers to record -8, which is out of reach/],
    ['of a field that is no value', [{ event: 1, at: 'a' }, { event: '$1/at' }], /no value of record 0/],
    ['of no field', [{ event: 1 }, { event: '$1/' }], /no value of record 0/],
    ['of what every object has', [{ event: {} }, { event: '$1/event/toString' }], /does not have/],
    ['of a length', [{ event: [1] }, { event: '$1/event/length' }], /does not have/],
    ['the members of a text', [{ event: 'a' }, { event: { $: '1/event' } }], /members of what is no object/],
    ['the members of a list', [{ event: [1] }, { event: { $: '1/event' } }], /members of what is no object/],
    ['the members of a number', [{ event: { $: 7 } }], /members of what is no object/],
    ['the members of itself', [{ event: { a: { $: '0/event', b: 1 } } }], /does not have/],
    ['without what is not there', [{ event: { a: 1 } }, { event: { $: '1/event', '$-': ['b'] } }], /has not/],
    ['without a number', [{ event: { a: 1 } }, { event: { $: '1/event', '$-': 'a' } }], /has not/],
    ['behind the end of a list', [{ event: [1] }, { event: { $: '1/event', '$+': [2, 0] } }], /has not/],
    ['with fewer items than none', [{ event: [1] }, { event: { $: '1/event', '$+': [1, -1] } }], /has not/],
    ['without more items than a list has', [{ event: [1] }, { event: { $: '1/event', '$+': [0, 2] } }], /has not/],
    ['changed by no list', [{ event: [1] }, { event: { $: '1/event', '$+': 'a' } }], /has not/],
    [
      'a thousand members',
      [{ event: Object.fromEntries(Array.from({ length: 1_025 }, (_, at) => [at, 'x'])) }, { event: { $: '1/event' } }],
      /too many members/,
    ],
    [
      'a thousand items',
      [{ event: Array.from({ length: 1_025 }, () => 'x') }, { event: { $: '1/event', '$+': [0, 0] } }],
      /too many members/,
    ],
    ['a cause that is text', [{ k: 'message', cause: 'x' }], /cause is no distance/],
    ['an address without a number', [{ to: 7 }], /no address has the number 7/],
    ['an address that is a fraction', [{ to: 0.5 }], /no address has the number 0.5/],
    ['a number far away', [{ to: '9=a' }], /cannot have it/],
    ['an address below none', [{ to: '1=5/a' }], /cannot have it/],
    ['an address that is long', [{ to: `1=${'a'.repeat(600)}` }], /cannot have it/],
    ['400 levels twice', [{ event: deep(300) }, { event: [[['$1/event']], deep(200)] }, { event: deep(1) }], /^$/],
  ])('%s', (_what, lines, why) => {
    expect(refused(lines) ?? '').toMatch(why);
  });

  it('levels upon levels', () => {
    const lines = Array.from({ length: 500 }, (_, n) => ({ event: n === 0 ? ['x'] : ['$1/event'] }));
    expect(refused(lines)).toMatch(/nested deeper than 400 levels/);
    const like = Array.from({ length: 500 }, (_, n) => ({
      event: n === 0 ? { a: {} } : { $: '1/event', a: '$1/event' },
    }));
    expect(refused(like)).toMatch(/nested deeper than 400 levels/);
  });

  it.each<[string, (n: number) => unknown]>([
    ['doubled', (n) => (n === 0 ? ['x'.repeat(1_000)] : ['$1/event', '$1/event'])],
    [
      'doubled as members',
      (n) => (n === 0 ? { a: 'x'.repeat(99), b: 0 } : { $: '1/event', b: '$1/event', a: '$1/event' }),
    ],
    [
      'longer in each line',
      (n) => (n === 0 ? ['x'.repeat(999)] : { $: '1/event', '$+': [0, 0, '$1/event/0', '$1/event/0'] }),
    ],
    ['a thousand times', (n) => (n === 0 ? 'x'.repeat(2 ** 20) : Array.from({ length: 1_000 }, () => `$${n}/event`))],
    ['a text, in each line', (n) => (n === 0 ? 'x'.repeat(2 ** 20) : `$${n}/event`)],
  ])('a value that grows: %s', (_how, event) => {
    const before = process.memoryUsage().rss;
    expect(refused(events(20_000, event))).toMatch(/32 times what was read/);
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 2 ** 20);
  });

  it('a file beside the lines, and an object of many members, again and again, cost what they are', () => {
    expect(refused(events(50, () => ({ $blob: 'a' })))).toBeNull();
    const members = Object.fromEntries(Array.from({ length: 128 }, (_, at) => [at, 'x']));
    expect(refused(events(10_000, (n) => (n === 0 ? members : { $: '1/event', 1: 'x' })))).toBeNull();
    const many = Object.fromEntries(Array.from({ length: 1_024 }, (_, at) => [at, '']));
    expect(refused(events(10_000, (n) => (n === 0 ? many : { $: '1/event' })))).toMatch(/32 times what was read/);
    const list = Array.from({ length: 1_024 }, () => '');
    expect(refused(events(10_000, (n) => (n === 0 ? list : { $: '1/event', '$+': [0, 0] })))).toMatch(/32 times/);
  });
});
