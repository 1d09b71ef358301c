/** `statelet dot`: charts for Graphviz and Mermaid, of machines and of the golden node's actors. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { chartsOf } from '../../../src/kernel/steps.ts';
import { kubeletMachine } from '../../../src/machines/startup/kubelet.ts';
import { statelet } from '../recorded.ts';

const JOURNAL = join(import.meta.dirname, '../../golden/journals/v4/node');
const charts = chartsOf(kubeletMachine);
const chartOf = (id: string) => charts.find((chart) => chart.id === id)!;
const byText = (a: string, b: string): number => (a < b ? -1 : 1);
const targetsOf = (id: string): number =>
  chartOf(id).transitions.reduce((sum, { target = [] }) => sum + target.length, 0);

describe.each(['container', 'pod', 'kubelet'])('%s', (id) => {
  it('in DOT has each state and each transition once', () => {
    const { code, stdout } = statelet(['dot', id]);
    expect(code).toBe(0);
    const states = [
      ...stdout.matchAll(/^ +"([^"]+)" \[label=/gm),
      ...stdout.matchAll(/^ +subgraph "cluster ([^"]+)" \{/gm),
    ];
    const names = states.map(([, name = '']) => name).sort(byText);
    expect(names).toEqual(
      chartOf(id)
        .states.map((state) => state.id)
        .toSorted(),
    );
    expect(stdout.match(/^ +"[^"]+" -> "[^"]+" \[label=/gm)).toHaveLength(targetsOf(id));
    expect(stdout.match(/\{/g)).toHaveLength(stdout.match(/\}/g)!.length);
  });

  it('in Mermaid has each state and each transition once', () => {
    const { code, stdout } = statelet(['dot', id, '--format', 'mermaid']);
    expect(code).toBe(0);
    const words = [...stdout.matchAll(/^ +state "[^"]*" as (\w+)/gm)].map(([, word]) => word);
    expect(words).toHaveLength(chartOf(id).states.length);
    expect(new Set(words).size).toBe(words.length);
    expect(stdout.match(/^ +\w+ --> \w+ : [^:;#"\n]+$/gm)).toHaveLength(targetsOf(id));
  });
});

it('marks the states that are active at the end of a journal', () => {
  const { stdout } = statelet(['dot', 'pod/web-node-1/app', '--journal', JOURNAL]);
  expect(stdout.match(/^ +"([^"]+)" \[label=.*filled/gm)).toEqual([
    expect.stringContaining('"container.running" [label="running", style="rounded,filled'),
  ]);
  const mermaid = statelet(['dot', 'kubelet/syncLoop', '--journal', JOURNAL, '--format', 'mermaid']).stdout;
  expect(mermaid.match(/^ +class (\w+) active$/gm)).toEqual(['  class syncLoop_syncing active']);
});

it('says which machines there are, and which actor is none', () => {
  const { code, stderr } = statelet(['dot', 'nothing']);
  expect(stderr).toContain('there is no machine "nothing"; there are allocation, ');
  expect(code).toBe(8);
  expect(statelet(['dot', 'pod/none', '--journal', JOURNAL])).toMatchObject({ code: 8, stdout: '' });
  expect(statelet(['dot', 'pod', '--format', 'svg']).code).toBe(2);
});
