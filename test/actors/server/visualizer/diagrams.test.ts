/** A chart shows everything that its machine does, and always in the same way. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type ChartState, chartOf } from '../../../../scripts/diagrams/chart.ts';
import { drawMachines } from '../../../../scripts/diagrams/draw.ts';
import { SHEET_HEIGHT_MAX, SHEET_WIDTH_MAX } from '../../../../scripts/diagrams/sheets.ts';
import type { AnyStateMachine, AnyStateNode } from '../../../../src/kernel/steps.ts';
import { machinesOf } from '../../../../src/kernel/steps.ts';
import { setup } from '../../../../src/kernel/xstate.ts';
import { kubeletMachine } from '../../../../src/machines/startup/kubelet.ts';
import { bossMachine, workerMachine } from '../../../kernel/support.ts';

const values = (svg: string, attribute: string): string[] =>
  [...svg.matchAll(new RegExp(` data-${attribute}="([^"]*)"`, 'g'))].map((match) => match[1]!);
const edges = (machine: Parameters<typeof chartOf>[0]) =>
  chartOf(machine).edges.map(({ source, target, labels }) => [source, target, labels.map((label) => label.text)]);
const find = (state: ChartState, id: string): ChartState | undefined =>
  state.id === id ? state : state.children.map((child) => find(child, id)).find(Boolean);
const linesOf = (machine: Parameters<typeof chartOf>[0], id: string) =>
  find(chartOf(machine).root, id)!.lines.map((line) => line.text);

const guards = { isReady: () => true, isLate: () => false };

describe('a chart', () => {
  it('has an edge for each way, with events, guards, delays and ends of requests in words', () => {
    expect(edges(workerMachine)).toEqual([
      ['worker.idle', 'worker.making', ['work']],
      ['worker.making', 'worker.idle', ['rest', 'make done']],
      ['worker.making', 'worker.backingOff', ['make failed']],
      ['worker.backingOff', 'worker.idle', ['rest']],
      ['worker.backingOff', 'worker.making', ['after 1 s']],
    ]);
  });

  it('names the requests of a state, and the events that it handles without leaving', () => {
    expect(linesOf(workerMachine, 'worker')).toEqual(['invoke world.listen', 'on explode', 'on heard']);
    expect(linesOf(bossMachine, 'boss.opening')).toEqual(['invoke world.look']);
  });

  it('shows guards, delays with a name, and what leaves a region as a line', () => {
    const machine = setup({ guards, delays: { 'restart.part': 10 } }).createMachine({
      id: 'm',
      initial: 'on',
      states: {
        on: {
          type: 'parallel',
          states: {
            part: {
              initial: 'up',
              states: {
                up: { meta: { steps: 'S001' }, always: { guard: 'isReady', target: 'down' }, on: { stop: '#off' } },
                down: { after: { 'restart.part': 'up' } },
              },
            },
            other: {},
          },
          on: { late: { guard: 'isLate', target: 'off' } },
        },
        off: { id: 'off', type: 'final' },
      },
    });
    expect(linesOf(machine, 'm.on.part.up')).toEqual(['steps S001', 'stop → off']);
    expect(edges(machine)).toEqual([
      ['m.on', 'off', ['late [isLate]']],
      ['m.on.part.up', 'm.on.part.down', ['[isReady]']],
      ['m.on.part.down', 'm.on.part.up', ['after restart.part']],
    ]);
  });

  it('draws the target of many distant states as lines, and the target of few as edges', () => {
    const step = (next: string) => ({ initial: 'a', states: { a: { on: { fail: '#failed', go: `#${next}` } } } });
    const steps = ['one', 'two', 'three', 'four'];
    const machine = setup({}).createMachine({
      id: 'm',
      initial: 'one',
      states: {
        ...Object.fromEntries(steps.map((id, i) => [id, { id, ...step(steps[i + 1] ?? 'one') }])),
        failed: { id: 'failed', type: 'final' },
      },
    });
    expect(edges(machine).map(([, target]) => target)).toEqual(['two', 'three', 'four', 'one']);
    expect(linesOf(machine, 'm.one.a')).toEqual(['fail → failed']);
  });
});

describe('a drawing', () => {
  it('has every state and every event of every machine that can be reached', async () => {
    const files = await drawMachines(bossMachine);
    expect([...files.keys()]).toEqual(['boss.svg', 'ledger.svg', 'worker.svg']);
    const worker = files.get('worker.svg')!;
    const machine: AnyStateMachine = workerMachine;
    const nodes: AnyStateNode[] = [machine.root, ...Object.values<AnyStateNode>(machine.root.states)];
    expect(values(worker, 'id')).toEqual(nodes.map((node) => node.id));
    const events = nodes.flatMap((node) =>
      [...node.transitions].filter(([, ways]) => ways.some((way) => way.target || way.actions.length > 0)),
    );
    const drawn = new Set(values(worker, 'event').flatMap((list) => list.split(' ')));
    expect([...drawn].sort()).toEqual([...new Set(events.map(([type]) => type))].sort());
  });

  it('is the same each time, on any machine', async () => {
    const [first, second] = [await drawMachines(bossMachine), await drawMachines(bossMachine)];
    expect(second).toEqual(first);
    for (const svg of first.values()) expect(svg).not.toMatch(/\d\.\d\d/);
  });

  it('is well-formed whatever the names are', async () => {
    const machine = setup({}).createMachine({ id: 'm', initial: '<&">', states: { '<&">': { on: { '<a>': {} } } } });
    const svg = (await drawMachines(machine)).get('m.svg')!;
    expect(svg).toContain('data-id="m.&lt;&amp;&quot;&gt;"');
    expect(svg.replace(/<style>[^<]*<\/style>/, '').match(/<[^/a-z]/)).toBeNull();
  });
});

describe('a chart that is larger than a page', () => {
  const steps = (count: number) => ({
    initial: 's0',
    states: Object.fromEntries(
      Array.from({ length: count }, (_, at) => [`s${at}`, { on: { next: `s${at + 1 < count ? at + 1 : 0}` } }]),
    ),
  });
  const star = (count: number) => ({
    initial: 'middle',
    states: {
      middle: { on: Object.fromEntries(Array.from({ length: count }, (_, at) => [`go.${at}`, `p${at}`])) },
      ...Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, { on: { back: 'middle' } }])),
    },
  });
  const large = setup({}).createMachine({
    id: 'large',
    initial: 'on',
    states: {
      on: {
        type: 'parallel',
        states: { small: steps(2), long: steps(15), wide: star(12) },
        on: { stop: 'off' },
      },
      off: { type: 'final' },
    },
  });

  it('is drawn as sheets: cards with links to the sheet of what is inside them, and back', async () => {
    const files = await drawMachines(large);
    expect([...files.keys()]).toEqual(['large.svg', 'large.on.wide.svg']);
    const [first = '', inside = ''] = files.values();
    expect(first).toContain('<a href="large.on.wide.svg">');
    expect(inside).toContain('<a href="large.svg">');
    expect(values(first, 'inside')).toEqual([values(inside, 'id').slice(1).join(' ')]);
  });

  it('has every state on a sheet, and every way between states', async () => {
    const drawn = [...(await drawMachines(large)).values()].join('');
    const nodes = (node: AnyStateNode): AnyStateNode[] => [node, ...Object.values(node.states).flatMap(nodes)];
    expect([...new Set(values(drawn, 'id'))].sort()).toEqual(
      nodes((large as AnyStateMachine).root)
        .map(({ id }) => id)
        .sort(),
    );
    const targets = new Set(values(drawn, 'target'));
    const reached = chartOf(large).edges.map(({ target }) => target);
    expect(reached.filter((target) => !targets.has(target))).toEqual([]);
  });
});

describe('the committed drawings', () => {
  const folder = join(import.meta.dirname, '../../../../docs/diagrams');
  const names = readdirSync(folder).filter((name) => name.endsWith('.svg'));
  const drawings = names.map((name) => [name, readFileSync(join(folder, name), 'utf8')] as const);

  it.each(drawings)('%s fits a page, and its links lead to drawings', (_, svg) => {
    const [, width, height] = /viewBox="0 0 ([\d.]+) ([\d.]+)"/.exec(svg)!;
    expect(Number(width)).toBeLessThanOrEqual(SHEET_WIDTH_MAX);
    expect(Number(height)).toBeLessThanOrEqual(SHEET_HEIGHT_MAX);
    for (const [, link] of svg.matchAll(/<a href="([^"]+)">/g)) expect(names).toContain(link);
  });

  it.each([...machinesOf(kubeletMachine)])('of %s show each state and event', (id, machine) => {
    const statesOf = (node: AnyStateNode): AnyStateNode[] => [node, ...Object.values(node.states).flatMap(statesOf)];
    const nodes = statesOf(machine.root);
    const svgs = drawings.filter(([name]) => name.split('.')[0] === id).map(([, svg]) => svg);
    expect(new Set(svgs.flatMap((svg) => values(svg, 'id')))).toEqual(new Set(nodes.map((node) => node.id)));
    const ways = nodes.flatMap((node) => [...[...node.transitions.values()].flat(), ...(node.always ?? [])]);
    const heard = ways.filter((way) => way.target?.length || way.actions.length > 0);
    const drawn = new Set(svgs.flatMap((svg) => values(svg, 'event')).flatMap((list) => list.split(' ')));
    expect(drawn).toEqual(new Set(heard.map((way) => way.eventType || 'always')));
  });

  it('include every drawing of the index', () => {
    const index = readFileSync(join(folder, 'README.md'), 'utf8');
    const links = [...index.matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link!);
    expect(links.length).toBeGreaterThan(5);
    expect(links.filter((link) => !names.includes(link))).toEqual([]);
  });
});
