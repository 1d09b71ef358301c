/** A chart says all that its machine does, and says it the same each time. */
import { describe, expect, it } from 'vitest';
import { type ChartState, chartOf } from '../../../../scripts/diagrams/chart.ts';
import { drawMachines } from '../../../../scripts/diagrams/draw.ts';
import { DRAWING_MAX } from '../../../../scripts/diagrams/levels.ts';
import type { AnyStateMachine, AnyStateNode } from '../../../../src/kernel/active-states.ts';
import { machinesOf } from '../../../../src/kernel/atomic.ts';
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

  it('names what a state asks for, and what it hears without leaving', () => {
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

  it('draws what many far states lead to as lines, and what few lead to as edges', () => {
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

describe('the drawings of the kubelet', async () => {
  const files = await drawMachines(kubeletMachine);
  const machines = [...machinesOf(kubeletMachine).values()] as AnyStateMachine[];
  const statesOf = (node: AnyStateNode): AnyStateNode[] => [
    node,
    ...Object.values<AnyStateNode>(node.states).flatMap(statesOf),
  ];
  const drawingsOf = (machine: string): [string, string][] =>
    [...files].filter(([name]) => name.split('.')[0] === machine);

  it('are each small enough to be read', () => {
    const sizes = [...files].map(([name, svg]) => {
      const [, width, height] = / width="([\d.]+)" height="([\d.]+)"/.exec(svg)!;
      return { name, width: Number(width), height: Number(height) };
    });
    expect(sizes.filter(({ width, height }) => width > DRAWING_MAX.width || height > DRAWING_MAX.height)).toEqual([]);
  });

  it.each(machines.map((machine) => [machine.id, machine] as const))(
    'of %s show each state and event',
    (id, machine) => {
      const nodes = statesOf(machine.root);
      const svgs = drawingsOf(id).map(([, svg]) => svg);
      expect(new Set(svgs.flatMap((svg) => values(svg, 'id')))).toEqual(new Set(nodes.map((node) => node.id)));
      const ways = nodes.flatMap((node) => [...[...node.transitions.values()].flat(), ...(node.always ?? [])]);
      const heard = ways.filter((way) => way.target?.length || way.actions.length > 0);
      const drawn = new Set(svgs.flatMap((svg) => values(svg, 'event')).flatMap((list) => list.split(' ')));
      expect(drawn).toEqual(new Set(heard.map((way) => way.eventType || 'always')));
    },
  );

  it('lead from the first one to every other, and back', () => {
    const links = [...files].flatMap(([from, svg]) =>
      [...svg.matchAll(/<a href="([^"]+)">/g)].map(([, to]) => `${from} -> ${to}`),
    );
    const folded = [...files.keys()].filter((name) => name.split('.').length > 2);
    const above = (name: string) => name.replace(/\.\w+\.svg$/, '.svg');
    const wanted = folded.flatMap((name) => [`${above(name)} -> ${name}`, `${name} -> ${above(name)}`]);
    expect(folded.length).toBeGreaterThan(0);
    expect(links.sort()).toEqual(wanted.sort());
  });

  it('say in a folded box which states its own drawing has', () => {
    const inside = values(files.get('pod.svg')!, 'inside').flatMap((list) => list.split(' '));
    const drawn = values(files.get('pod.svg')!, 'id');
    const pod = machines.find(({ id }) => id === 'pod')!;
    expect([...drawn, ...inside].sort()).toEqual(
      statesOf(pod.root)
        .map((node) => node.id)
        .sort(),
    );
  });
});
