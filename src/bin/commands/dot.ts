/** `statelet dot CHART`: the chart of a machine, or of an actor with its active states, for Graphviz or Mermaid. */
import { JournalError } from '../../kernel/journal/errors.ts';
import { NotReplayable, replay } from '../../kernel/replay.ts';
import {
  type AnyStateNode,
  type AnyTransitionDefinition,
  chartsOf,
  stateNodesOf,
  transitionsOf,
} from '../../kernel/steps.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { journalAt, refuse } from '../insight/command.ts';
import { describeEvent } from '../insight/coverage.ts';
import { replayOptions } from '../insight/replayed.ts';
import { actorName, Story } from '../insight/story.ts';

export interface DotOptions {
  readonly format: string;
  readonly journal?: string;
  readonly incarnation?: string;
}

/** A chart, and the ids of the states that are active in it. */
interface Drawn {
  readonly root: AnyStateNode;
  readonly active: ReadonlySet<string>;
}

export function dotCommand(name: string, { format, journal, incarnation }: DotOptions): number {
  if (format !== 'dot' && format !== 'mermaid') {
    return refuse('dot', `--format is dot or mermaid, not ${JSON.stringify(format)}`, exitCodes.usage);
  }
  try {
    const drawn = journal === undefined ? machineNamed(name) : actorNamed(name, journal, incarnation);
    if (typeof drawn === 'string') return refuse('dot', drawn, exitCodes.expectationMissing);
    process.stdout.write((format === 'dot' ? dotOf : mermaidOf)(drawn.root, drawn.active));
    return exitCodes.same;
  } catch (thrown) {
    if (thrown instanceof JournalError) return refuse('dot', thrown.message, exitCodeOf(thrown));
    if (thrown instanceof NotReplayable) return refuse('dot', thrown.message, exitCodes.invalidLog);
    throw thrown;
  }
}

function machineNamed(name: string): Drawn | string {
  const charts = chartsOf(kubeletMachine);
  const chart = charts.find(({ id }) => id === name);
  const root = chart?.states[0];
  if (root) return { root, active: new Set() };
  return `there is no machine ${JSON.stringify(name)}; there are ${charts.map(({ id }) => id).join(', ')}`;
}

/** An actor with its active states from a replay, at the end of the journal or at the first difference. */
function actorNamed(name: string, log: string, incarnation: string | undefined): Drawn | string {
  const journal = journalAt(log, incarnation);
  const story = new Story(journal);
  const { kernel, divergence } = replay(replayOptions(journal));
  if (divergence) return `this build does not replay ${log} from record ${divergence.n} on`;
  const isChosen = (address: string): boolean => address === name || actorName(address, story) === name;
  const address = kernel.addresses.find(isChosen);
  const nodes = address === undefined ? undefined : stateNodesOf(kernel.snapshotOf(address));
  const [top] = nodes ?? [];
  if (!nodes || !top) return `${log} ends without an actor ${JSON.stringify(name)} that has a chart`;
  return { root: top.machine.root, active: new Set(nodes.map(({ id }) => id)) };
}

/** The states that are active, by id; empty for a chart alone. */
type Active = ReadonlySet<string>;

const childrenOf = ({ states }: AnyStateNode): AnyStateNode[] => Object.values(states);
const nameOf = ({ key, path, machine }: AnyStateNode): string => (path.length === 0 ? machine.id : key);
const below = (node: AnyStateNode): AnyStateNode[] => [node, ...childrenOf(node).flatMap(below)];

interface Edge {
  readonly from: AnyStateNode;
  readonly to: AnyStateNode;
  readonly label: string;
}

const edgesOf = (root: AnyStateNode): Edge[] =>
  below(root).flatMap((from) => transitionsOf(from).flatMap((transition) => edgesOfOne(from, transition)));

const edgesOfOne = (from: AnyStateNode, transition: AnyTransitionDefinition): Edge[] =>
  (transition.target ?? []).map((to) => ({ from, to, label: describeEvent(transition) }));

const initialOf = (node: AnyStateNode): AnyStateNode | undefined =>
  node.type === 'compound' ? node.initial.target[0] : undefined;

const quoted = (text: string): string => `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
/** Every compound state has a point of its own that edges lead to: DOT has no edges between clusters. */
const pointOf = (node: AnyStateNode): string => quoted(childrenOf(node).length > 0 ? `${node.id} (all)` : node.id);

function dotOf(root: AnyStateNode, active: Active): string {
  const edges = edgesOf(root).map(({ from, to, label }) => {
    const ends = [clusterEnd('ltail', from, to), clusterEnd('lhead', to, from)].filter((end) => end !== '').join('');
    return `  ${pointOf(from)} -> ${pointOf(to)} [label=${quoted(label)}${ends}];\n`;
  });
  return [
    `digraph ${quoted(root.machine.id)} {\n`,
    '  compound=true; rankdir=LR; fontname="sans-serif";\n',
    '  node [shape=box, style=rounded, fontname="sans-serif"]; edge [fontname="sans-serif", fontsize=10];\n',
    dotState(root, active, '  '),
    ...edges,
    '}\n',
  ].join('');
}

/** An edge ends at the border of a cluster, unless its other end lies within. */
function clusterEnd(side: 'ltail' | 'lhead', node: AnyStateNode, other: AnyStateNode): string {
  const isWithin = other === node || other.id.startsWith(`${node.id}.`);
  return childrenOf(node).length > 0 && !isWithin ? `, ${side}=${quoted(`cluster ${node.id}`)}` : '';
}

function dotState(node: AnyStateNode, active: Active, indent: string): string {
  const isActive = active.has(node.id);
  if (childrenOf(node).length === 0) {
    const fill = isActive ? ', style="rounded,filled", fillcolor="#ffd866"' : '';
    return `${indent}${quoted(node.id)} [label=${quoted(nameOf(node))}${fill}];\n`;
  }
  const style = node.type === 'parallel' ? 'dashed' : isActive ? 'bold' : 'solid';
  const first = initialOf(node);
  return [
    `${indent}subgraph ${quoted(`cluster ${node.id}`)} {\n`,
    `${indent}  label=${quoted(nameOf(node))}; style=${style};\n`,
    `${indent}  ${pointOf(node)} [shape=point, label=""];\n`,
    ...childrenOf(node).map((child) => dotState(child, active, `${indent}  `)),
    first ? `${indent}  ${pointOf(node)} -> ${pointOf(first)} [style=dotted];\n` : '',
    `${indent}}\n`,
  ].join('');
}

/** Mermaid allows letters, digits and underscores in names. */
const wordOf = ({ id }: AnyStateNode): string => id.replace(/[^A-Za-z0-9]/g, '_');
/** Characters that end a label in Mermaid. */
const plain = (text: string): string => text.replace(/[:;#"]/g, ' ');

function mermaidOf(root: AnyStateNode, active: Active): string {
  const edges = edgesOf(root).map(({ from, to, label }) => `  ${wordOf(from)} --> ${wordOf(to)} : ${plain(label)}\n`);
  const marked = below(root).filter(({ id, states }) => active.has(id) && Object.keys(states).length === 0);
  return [
    'stateDiagram-v2\n  direction LR\n',
    '  classDef active fill:#ffd866,stroke:#7a5c00,color:#000\n',
    mermaidState(root, '  '),
    ...edges,
    ...marked.map((node) => `  class ${wordOf(node)} active\n`),
  ].join('');
}

function mermaidState(node: AnyStateNode, indent: string): string {
  const head = `${indent}state "${plain(nameOf(node))}" as ${wordOf(node)}`;
  const children = childrenOf(node);
  if (children.length === 0) return `${head}\n`;
  const first = initialOf(node);
  const parts = children.map((child) => mermaidState(child, `${indent}  `));
  const regions = node.type === 'parallel' ? parts.join(`${indent}  --\n`) : parts.join('');
  return `${head} {\n${first ? `${indent}  [*] --> ${wordOf(first)}\n` : ''}${regions}${indent}}\n`;
}
