/** What the page knows of a node that works while the page loads. */
import { afterEach, expect, test, vi } from 'vitest';

/** By its address: the page is compiled against a browser, the tests are not. */
const PAGE = new URL('../../src/visualizer/store.ts', import.meta.url).href;

interface PageStore {
  readonly records: readonly { readonly n: number }[];
  readonly actors: ReadonlyMap<string, unknown>;
  start(): Promise<void>;
}

const state = (n: number, value: string) => ({ n, turn: n, t: n, record: { n, k: 'state', at: 'root', value } });
const actor = (value: string) => ({ address: 'root', value, status: 'active', ended: false });

afterEach(() => vi.unstubAllGlobals());

test('actors are of the same moment as the records, although a turn ended between the two answers', async () => {
  const answers: Record<string, unknown> = {
    '/api/tree': {
      incarnation: '1',
      root: 'root',
      turn: 4,
      n: 4,
      now: 0,
      live: true,
      recordsMax: 9,
      actors: [actor('a')],
    },
    '/api/records': { records: [state(4, 'a'), state(5, 'b')] },
    '/api/phases': { started: 0, now: 0, phases: [] },
  };
  const followed: string[] = [];
  const heard = new Map<string, (event: { data: string }) => void>();
  vi.stubGlobal('requestAnimationFrame', () => 0);
  vi.stubGlobal('setInterval', () => 0);
  vi.stubGlobal('fetch', async (path: string) => ({
    ok: path in answers,
    json: async () => answers[path],
    text: () => '',
  }));
  class Source {
    constructor(url: string) {
      followed.push(url);
    }
    addEventListener = heard.set.bind(heard);
  }
  vi.stubGlobal('EventSource', Source);
  const { Store } = (await import(PAGE)) as { Store: new () => PageStore };
  const store = new Store();
  await store.start();
  expect(followed).toEqual(['/events?after=4']);
  expect(store.records.map(({ n }) => n)).toEqual([4]);
  heard.get('turn')!({ data: JSON.stringify({ turn: 5, gone: [], actors: [actor('b')], records: [state(5, 'b')] }) });
  expect(store.records.map(({ n }) => n)).toEqual([4, 5]);
  expect(store.actors.get('root')).toMatchObject({ value: 'b' });
});
