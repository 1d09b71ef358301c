/**
 * The charts of machines as read models know them: states with their ids and what they wait for. XState's machines have
 * them, and the page has them as a table. Pure.
 */

export interface ChartNode {
  readonly id: string;
  readonly key: string;
  readonly path: readonly string[];
  /** The place in the definition: parents are before their children. */
  readonly order: number;
  readonly meta?: unknown;
  readonly parent?: ChartNode | undefined;
  readonly states: Readonly<Record<string, ChartNode>>;
}

/** A machine, as far as its chart goes. */
export interface Chart {
  readonly id: string;
  readonly root: ChartNode;
}

export interface ValueStates {
  /** In the order of the definition. */
  readonly nodes: readonly ChartNode[];
  /** Paths of states that the chart does not have. */
  readonly unknown: readonly string[];
}

/** The active states of a value that this build's chart, or one of another build, was in. */
export function statesIn({ root }: Chart, value: unknown): ValueStates {
  const [nodes, unknown]: [ChartNode[], string[]] = [[], []];
  collectStates(root, value, nodes, unknown);
  return { nodes: nodes.sort((a, b) => a.order - b.order), unknown };
}

function collectStates(node: ChartNode, value: unknown, nodes: ChartNode[], unknown: string[]): void {
  nodes.push(node);
  const inside: readonly (readonly [string, unknown])[] =
    typeof value === 'string' ? [[value, undefined]] : Object.entries(value ?? {});
  for (const [key, below] of inside) {
    const child = Object.hasOwn(node.states, key) ? node.states[key] : undefined;
    if (child) collectStates(child, below, nodes, unknown);
    else unknown.push([...node.path, key].join('.'));
  }
}
