/** The visualizer's answers over HTTP, and the clients that it refuses. */
import { request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { KernelFeed } from '../../../../src/actors/server/visualizer/feed.ts';
import type {
  ActorDetail,
  HealthFacts,
  PhasesView,
  RecordsView,
  TreeView,
} from '../../../../src/actors/server/visualizer/protocol.ts';
import { Visualizer } from '../../../../src/actors/server/visualizer/visualizer.ts';
import { assign, line, setup } from '../../../../src/kernel/xstate.ts';
import { bootBoss } from '../../../kernel/support.ts';
import { fetch, listen, TOKEN, watched } from './support.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
async function watch(...args: Parameters<typeof watched>) {
  const all = await watched(...args);
  closing.push(all.close);
  return all;
}

/** A request with headers that `fetch` does not let one choose. */
const statusAs = (origin: URL, host: string, headers: object = {}): Promise<number> =>
  new Promise((resolve, reject) => {
    const sent = request(
      new URL('/api/tree', origin),
      { headers: { authorization: `Bearer ${TOKEN}`, host, ...headers } },
      (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      },
    );
    sent.on('error', reject).end();
  });

describe('the tree', () => {
  it('shows each actor with its machine, its active states and what it asked for', async () => {
    const { ask, kernel } = await watch();
    kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    const { actors, root, node, n } = await ask<TreeView>('/api/tree');
    expect({ root, node, n }).toEqual({ root: 'boss', node: 'n', n: kernel.n - 1 });
    expect(actors.map((actor) => [actor.address, actor.machine, actor.status])).toEqual([
      ['boss', 'boss', 'active'],
      ['boss/ledger', 'ledger', 'active'],
      ['boss/worker-ann', 'worker', 'active'],
    ]);
    expect(actors[0]).toMatchObject({ value: 'opening', requests: [{ name: 'world.look', class: 'query' }] });
    expect(actors[2]!.active.map((state) => state.id)).toEqual(['worker', 'worker.idle']);
    expect(actors[2]!.requests).toMatchObject([{ name: 'world.listen', class: 'stream', since: 1_000_000 }]);
  });

  it('knows what people call a uid in an address', async () => {
    const { ask } = await watch({ machine: keeper });
    const { actors } = await ask<TreeView>('/api/tree');
    const named = actors.map((actor) => [actor.address, actor.named]);
    expect(named).toEqual([
      ['keeper', undefined],
      ['keeper/pod-u1', { uid: 'u1', name: 'web' }],
    ]);
  });

  it('keeps an actor that has ended, and shows it anew when it starts again', async () => {
    const { ask, kernel } = await watch();
    const worker = async () => (await ask<TreeView>('/api/tree')).actors.find((actor) => /ann/.test(actor.address));
    kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    kernel.dispatch('boss', { type: 'bomb', name: 'ann' }, 'test');
    expect(await worker()).toMatchObject({ status: 'error', error: 'exploded', requests: [] });
    const other = await watch();
    other.kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    other.kernel.dispatch('boss', { type: 'fire', name: 'ann' }, 'test');
    other.time.advance(500);
    other.kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    const { actors } = await other.ask<TreeView>('/api/tree');
    expect(actors.at(-1)).toMatchObject({ status: 'active', active: [{ since: 1_000_500 }, { since: 1_000_500 }] });
  });

  it('begins with any turn of a kernel that was running before', async () => {
    const feed = new KernelFeed();
    const visualizer = new Visualizer({ port: 0, token: TOKEN, feed });
    closing.push(() => visualizer.close());
    const origin = await visualizer.listen();
    let seen = false;
    const { kernel } = bootBoss({ onTurn: (records, running) => seen && feed.onTurn(records, running) });
    seen = true;
    kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    const { actors, root } = (await (await fetch(new URL('/api/tree', origin))).json()) as TreeView;
    expect(root).toBe('boss');
    expect(actors.map((actor) => actor.address)).toEqual(['boss', 'boss/ledger', 'boss/worker-ann']);
  });
});

describe('one actor', () => {
  it('is told with its context and its timers', async () => {
    const { ask, kernel } = await watch();
    kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    const detail = await ask<ActorDetail>('/api/actor?address=boss/worker-ann');
    expect(JSON.parse(detail.context!)).toEqual({ name: 'ann', done: [], chance: 0, lastMs: 0 });
    expect(detail.timers).toEqual([{ event: 'xstate.after.5000.worker.idle', due: 1_005_000 }]);
  });

  it('has a context of limited length', async () => {
    const { ask, kernel } = await watch({ machine: hoarder });
    kernel.dispatch('hoarder', { type: 'keep', text: 'x'.repeat(100_000) }, 'test');
    const { context } = await ask<ActorDetail>('/api/actor?address=hoarder');
    const { records } = await ask<RecordsView>('/api/records');
    expect(context!.length).toBeLessThan(70_000);
    expect(context).toMatch(/… \(\d+ characters\)$/);
    expect(JSON.stringify(records).length).toBeLessThan(20_000);
  });

  it('that does not exist is named in the answer', async () => {
    const { origin } = await watch();
    const response = await fetch(new URL('/api/actor?address=boss/nobody', origin));
    expect(response.status).toBe(404);
    expect(await response.json()).toEqual({ error: 'no actor "boss/nobody": /api/tree lists them all' });
    expect((await fetch(new URL('/api/actor?address=boss&address=boss', origin))).status).toBe(404);
  });
});

describe('records', () => {
  it('lead from a state back to the first input, through requests and timers', async () => {
    const { ask, kernel, world, time } = await watch();
    kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    kernel.dispatch('boss', { type: 'order', name: 'ann' }, 'test');
    world.answer('world.make', { error: { name: 'E', message: 'no wood', retriable: true } });
    time.advance(1_000);
    const { records } = await ask<RecordsView>('/api/records');
    const byNumber = new Map(records.map((shown) => [shown.n, shown]));
    const chain: string[] = [];
    for (let at = records.findLast(({ record }) => record.k === 'state'); at; at = byNumber.get(at.cause ?? -1))
      chain.push(at.record.k);
    expect(chain).toEqual(['state', 'timer', 'state', 'result', 'effect', 'message', 'in']);
    expect(records.every(({ n, cause }) => cause === undefined || cause < n)).toBe(true);
  });

  it('of a stream have its request as their cause', async () => {
    const { ask, kernel, world } = await watch();
    kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    [...world.open.values()].find(({ name }) => name === 'world.listen')!.emit({ type: 'heard', word: 'hi' } as never);
    const { records } = await ask<RecordsView>('/api/records');
    const heard = records.find(({ record }) => record.k === 'in' && record.event.type === 'heard');
    const asked = records.find(({ record }) => record.k === 'effect' && record.name === 'world.listen');
    expect(heard!.cause).toBe(asked!.n);
  });

  it('of the start are held for ever, and the last ones; they come in answers of limited length', async () => {
    const { ask, kernel } = await watch();
    for (let i = 0; i < 5_000; i++) kernel.dispatch('boss', { type: 'order', name: '' }, 'test');
    await new Promise((resolve) => setTimeout(resolve, 50));
    const held: number[] = [];
    for (let more = true; more; ) {
      const answer = await ask<RecordsView>(`/api/records?after=${held.at(-1) ?? -1}`);
      expect(answer.records.length).toBeLessThanOrEqual(250);
      held.push(...answer.records.map(({ n }) => n));
      more = answer.more;
    }
    expect(held.at(-1)).toBe(kernel.n - 1);
    expect(held.length).toBeGreaterThan(5_900);
    expect(held.length).toBeLessThanOrEqual(6_000);
    const hole = held.findIndex((n, at) => n !== at);
    expect(hole).toBeGreaterThan(3_900);
    expect(held.slice(hole)).toEqual(Array.from({ length: held.length - hole }, (_, at) => held[hole]! + at));
  });
});

describe('moments', () => {
  it('are told by each change of states: what was before, what is since', async () => {
    const { ask, kernel } = await watch();
    kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    kernel.dispatch('boss', { type: 'order', name: 'ann' }, 'test');
    const { records } = await ask<RecordsView>('/api/records');
    const [hired, ordered] = records.filter(({ record }) => record.k === 'state' && record.at === 'boss/worker-ann');
    expect(hired).not.toHaveProperty('was');
    expect(hired!.active!.map(({ path }) => path)).toEqual(['', 'idle']);
    expect(ordered!.was).toMatchObject({ value: 'idle', active: [{ id: 'worker' }, { id: 'worker.idle' }] });
    expect(ordered!.active!.map(({ id }) => id)).toEqual(['worker', 'worker.making']);
  });

  it('of a request that is taken back name it and its asker', async () => {
    const { ask, kernel } = await watch();
    for (const type of ['hire', 'order', 'fire']) kernel.dispatch('boss', { type, name: 'ann' }, 'test');
    const { records } = await ask<RecordsView>('/api/records');
    const cancelled = records.filter(({ record }) => record.k === 'cancel').map(({ request }) => request);
    expect(cancelled).toContainEqual({ asker: 'boss/worker-ann', name: 'world.make' });
  });
});

describe('health', () => {
  it('has the queue, the time of turns and the memory', async () => {
    const { ask } = await watch();
    const health = await ask<HealthFacts>('/api/health');
    expect(health).toMatchObject({ queue: 0, actors: 2, requests: 1 });
    expect(health.turnsMs.length).toBe(1);
    expect(health.rssBytes).toBeGreaterThan(health.heapBytes);
  });
});

describe('phases', () => {
  it('are the innermost states of a root that names none, with their times', async () => {
    const { ask, world, time } = await watch();
    time.advance(250);
    world.answer('world.look', { output: { seen: 'rain' } });
    time.advance(750);
    const { started, now, phases } = await ask<PhasesView>('/api/phases');
    expect({ started, now }).toEqual({ started: 1_000_000, now: 1_001_000 });
    expect(phases).toMatchObject([
      { id: 'boss.opening', name: 'opening', entered: 1_000_000, left: 1_000_250 },
      { id: 'boss.open', name: 'open', entered: 1_000_250 },
    ]);
    expect(phases[1]!.left).toBeUndefined();
  });

  it('are the states that say what they wait for, every visit of them', async () => {
    const { ask, kernel, time } = await watch({ machine: starter });
    for (const type of ['up', 'down', 'up']) {
      time.advance(100);
      kernel.dispatch('starter', { type }, 'test');
    }
    const { phases } = await ask<PhasesView>('/api/phases');
    expect(phases.map(({ name, steps, waitsFor, depth, left }) => ({ name, steps, waitsFor, depth, left }))).toEqual([
      { name: 'boot', steps: 'S001', waitsFor: undefined, depth: 0, left: undefined },
      { name: 'boot.runtime', steps: undefined, waitsFor: 'the runtime', depth: 1, left: 1_000_100 },
      { name: 'boot.runtime', steps: undefined, waitsFor: 'the runtime', depth: 1, left: 1_000_300 },
    ]);
  });

  it('say what ended a start, and in which phase', async () => {
    const { ask, kernel } = await watch({ machine: starter });
    expect(await ask<PhasesView>('/api/phases')).not.toHaveProperty('failure');
    kernel.dispatch('starter', { type: 'break' }, 'test');
    const { failure } = await ask<PhasesView>('/api/phases');
    expect(failure).toMatchObject({ message: 'no socket', phase: 'boot.runtime' });
  });

  it('end with the root', async () => {
    const { ask, kernel } = await watch();
    kernel.dispatch('boss', { type: 'shutdown' }, 'test');
    const { phases } = await ask<PhasesView>('/api/phases');
    expect(phases.every((phase) => phase.left !== undefined)).toBe(true);
    expect((await ask<TreeView>('/api/tree')).actors[0]).toMatchObject({ address: 'boss', status: 'done' });
  });
});

describe('the door', () => {
  it('opens to its own names only, so that a foreign name for loopback reaches nothing', async () => {
    const { origin } = await watch();
    expect(origin.hostname).toBe('127.0.0.1');
    expect(await statusAs(origin, `127.0.0.1:${origin.port}`)).toBe(200);
    expect(await statusAs(origin, `localhost:${origin.port}`)).toBe(200);
    expect(await statusAs(origin, `evil.example:${origin.port}`)).toBe(403);
    expect(await statusAs(origin, '127.0.0.1')).toBe(403);
    const own = `127.0.0.1:${origin.port}`;
    expect(await statusAs(origin, own, { origin: `http://${own}` })).toBe(200);
    expect(await statusAs(origin, own, { origin: `http://127.0.0.1:1` })).toBe(403);
  });

  it('opens to those who have the token: as a bearer, as a parameter, or as the cookie of the page', async () => {
    const { origin } = await watch();
    const status = async (path: string, headers: Record<string, string> = {}): Promise<number> =>
      (await globalThis.fetch(new URL(path, origin), { headers })).status;
    for (const path of ['/', '/assets/app.js', '/diagrams/worker.svg', '/api/tree', '/api/records', '/events', '/x']) {
      expect([path, await status(path)]).toEqual([path, 401]);
    }
    for (const wrong of ['', 'x', `${TOKEN}x`, TOKEN.slice(1)]) {
      expect(await status(`/api/tree?token=${wrong}`)).toBe(401);
      expect(await status('/api/tree', { authorization: `Bearer ${wrong}` })).toBe(401);
    }
    expect(await status('/api/tree', { authorization: `Bearer ${TOKEN}` })).toBe(200);
    expect(await status(`/api/tree?token=${TOKEN}`)).toBe(200);
    expect(origin.search).toBe(`?token=${TOKEN}`);
    const moved = await globalThis.fetch(origin, { redirect: 'manual' });
    const [cookie = '', ...attributes] = moved.headers.get('set-cookie')!.split('; ');
    const folder = moved.headers.get('location')!;
    expect(moved.status).toBe(303);
    expect(folder).toMatch(/^\/[\da-f]{32}\/$/);
    expect(attributes).toEqual([`Path=${folder}`, 'HttpOnly', 'SameSite=Lax']);
    expect(folder).not.toContain(TOKEN);
    const page = await globalThis.fetch(new URL(folder, origin), { headers: { cookie } });
    expect(await page.text()).toContain(`src="${folder}assets/page.js"`);
    expect(await status(`${folder}api/tree`, { cookie })).toBe(200);
    expect(await status(`${folder}api/tree`)).toBe(401);
    expect(await status('/api/tree', { cookie: `other=1; ${cookie}` })).toBe(200);
    expect(await status('/api/tree', { cookie: `${cookie}x` })).toBe(401);
    const refused = await globalThis.fetch(new URL('/', origin));
    expect([refused.headers.get('set-cookie'), await refused.text()]).toEqual([null, expect.stringContaining('token')]);
    const read = await globalThis.fetch(new URL('/', origin), { headers: { accept: 'text/html,*/*' } });
    expect([read.status, read.headers.get('content-type')]).toEqual([401, 'text/html; charset=utf-8']);
    expect(await read.text()).toContain('<h1>This page needs a token</h1>');
  });

  it('lets the page run nothing but its own files', async () => {
    const { origin } = await watch();
    const page = await fetch(origin);
    const policy = page.headers.get('content-security-policy')!;
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
    expect(policy).not.toContain('unsafe');
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
    expect(await page.text()).not.toMatch(/<script(?![^>]*\bsrc=)|\son\w+=|https?:/);
  });

  it('gives out its own files only', async () => {
    const { origin } = await watch();
    const code = await fetch(new URL('/assets/page.js', origin));
    expect(code.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(await code.text()).not.toContain('ReadonlySet<Part>');
    const chart = await fetch(new URL('/diagrams/worker.svg', origin));
    expect(chart.headers.get('content-type')).toBe('image/svg+xml; charset=utf-8');
    expect(await chart.text()).toContain('data-id="worker.backingOff"');
    const refused = ['/assets/..%2f..%2fpackage.json', '/assets/tsconfig.json', '/diagrams/none.svg'];
    for (const path of [...refused, '/diagrams/..%2fworker.svg', '/x'])
      expect([path, (await fetch(new URL(path, origin))).status]).toEqual([path, 404]);
  });
});

describe('the stream', () => {
  it('greets, then tells each turn with what it changed', async () => {
    const { origin, kernel } = await watch();
    const stream = await listen(origin);
    closing.push(stream.close);
    expect(stream.type).toBe('text/event-stream; charset=utf-8');
    expect(await stream.next()).toMatchObject({ type: 'hello', data: { incarnation: 'i1', resumed: true } });
    kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    const turn = await stream.next();
    expect(turn).toMatchObject({ type: 'turn', id: String(kernel.n - 1), data: { n: kernel.n - 1, turn: 1 } });
    if (turn.type !== 'turn') throw new Error('a turn was expected');
    expect(turn.data.actors.map((actor) => actor.address)).toEqual(['boss/worker-ann']);
    expect(turn.data.records.map(({ record }) => record.k)).toEqual(['in', 'message', 'effect', 'state', 'end']);
  });

  it('goes on after the last record that the page has seen', async () => {
    const { origin, kernel } = await watch();
    const seen = kernel.n - 1;
    kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    kernel.dispatch('boss', { type: 'hire', name: 'bob' }, 'test');
    const stream = await listen(origin, { 'last-event-id': String(seen) }, '/events?after=0');
    closing.push(stream.close);
    const heard = [await stream.next(), await stream.next(), await stream.next()];
    expect(heard.map((event) => (event.type === 'turn' ? event.data.turn : event.data.resumed))).toEqual([true, 1, 2]);
  });

  it('says when turns were missed, or when the daemon is another one', async () => {
    const { origin, kernel } = await watch();
    for (let i = 0; i < 1_500; i++) kernel.dispatch('boss', { type: 'order', name: '' }, 'test');
    await new Promise((resolve) => setTimeout(resolve, 50));
    for (const last of ['0', String(kernel.n + 100)]) {
      const stream = await listen(origin, { 'last-event-id': last });
      closing.push(stream.close);
      expect(await stream.next()).toMatchObject({ type: 'hello', data: { resumed: false } });
    }
  });

  it('has room for so many pages and no more', async () => {
    const { origin } = await watch();
    for (let i = 0; i < 16; i++) closing.push((await listen(origin)).close);
    await expect(listen(origin)).rejects.toThrow('503 {"error":"16 pages are open already: close one"}');
  });
});

const hoarder = setup({
  types: { context: {} as { kept: string }, events: {} as { type: 'keep'; text: string } },
}).createMachine({
  id: 'hoarder',
  context: { kept: '' },
  on: { keep: { actions: assign({ kept: ({ event }) => event.text }) } },
});

const starter = setup({ types: { events: {} as { type: 'up' | 'down' | 'break' } } }).createMachine({
  id: 'starter',
  initial: 'boot',
  on: { break: { actions: line('error', ['command failed', { err: 'no socket', phase: 'boot.runtime' }]) } },
  states: {
    boot: {
      meta: { steps: 'S001' },
      initial: 'runtime',
      states: {
        runtime: { meta: { waitsFor: 'the runtime' }, on: { up: 'serving' } },
        serving: { on: { down: 'runtime' } },
      },
    },
  },
});

const pod = setup({ types: { context: {} as { uid: string; name: string } } }).createMachine({
  id: 'pod',
  context: { uid: 'u1', name: 'web' },
});
const keeper = setup({ actors: { pod } }).createMachine({
  id: 'keeper',
  invoke: { id: 'pod-u1', src: 'pod', onError: {} },
});
