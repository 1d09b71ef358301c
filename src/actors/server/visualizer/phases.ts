/**
 * The phases of a start: each stretch of time that the root actor spent in one of its states. Also the charts of
 * machines as read models know them; XState's machines have this form, and the page has it as a table. Pure.
 *
 * A phase is a state whose `meta` names its `steps` or what it `waitsFor`; a machine that names none has its innermost
 * states as phases. Every visit is kept. Invariants: no phase ends before it began; at most PHASES_MAX are kept, and an
 * open one is never dropped.
 */
import type { Address } from '../../../kernel/address.ts';
import { AGENT_PHASE, type KernelRecord, TURN_FAILED } from '../../../kernel/records.ts';
import type { FailureView, PhaseView } from './protocol.ts';

/** Kept visits: a start has about 40, the rest is for restarts of subsystems. */
const PHASES_MAX = 500;

interface Meta {
  readonly steps?: string;
  readonly waitsFor?: string;
}

export type Phase = Pick<PhaseView, 'id' | 'name' | 'depth' | 'steps' | 'waitsFor'>;

export class Phases {
  started = 0;
  private visits: PhaseView[] = [];
  private readonly open = new Map<string, PhaseView>();

  /** The root is now in these states; `unknown`: and in others, which its chart does not have. */
  changed(nodes: readonly ChartNode[], t: number, n: number, unknown: readonly string[] = []): void {
    const others = unknown.map((path) => ({ id: path, name: path, depth: 0 }));
    this.nowIn([...phaseNodes(nodes).map(described), ...others], t, n);
  }

  nowIn(now: readonly Phase[], t: number, n: number): void {
    const ids = new Set(now.map((node) => node.id));
    for (const [id, visit] of this.open) {
      if (ids.has(id)) continue;
      this.open.delete(id);
      this.visits[this.visits.indexOf(visit)] = { ...visit, left: t, leftBy: n };
    }
    for (const phase of now) {
      if (this.open.has(phase.id)) continue;
      const visit: PhaseView = { ...phase, entered: t, enteredBy: n };
      this.open.set(phase.id, visit);
      this.visits.push(visit);
    }
    while (this.visits.length > PHASES_MAX) {
      const oldest = this.visits.findIndex((visit) => visit.left !== undefined);
      if (oldest === -1) break;
      this.visits.splice(oldest, 1);
    }
  }

  list(): readonly PhaseView[] {
    return this.visits;
  }
}

/** The failure reported by a root that could not start, if this record is the report. */
export function failureIn(record: KernelRecord, root: Address): FailureView | undefined {
  if (record.k !== 'log' || record.at !== root) return undefined;
  const { err, phase } = record.fields ?? {};
  if (record.text === TURN_FAILED)
    return { n: record.n, phase: AGENT_PHASE, message: `${TURN_FAILED}: ${String(err)}` };
  if (record.text !== 'command failed') return undefined;
  return { n: record.n, message: String(err), ...(typeof phase === 'string' ? { phase } : {}) };
}

function phaseNodes(nodes: readonly ChartNode[]): ChartNode[] {
  const [root] = nodes;
  if (root && namesPhases(root)) return nodes.filter(isNamed);
  return nodes.filter((node) => Object.keys(node.states).length === 0);
}

const metaOf = (node: ChartNode): Meta => node.meta ?? {};
export const isNamed = (node: ChartNode): boolean =>
  typeof metaOf(node).steps === 'string' || typeof metaOf(node).waitsFor === 'string';

const naming = new WeakMap<ChartNode, boolean>();
function namesPhases(node: ChartNode): boolean {
  const known = naming.get(node);
  if (known !== undefined) return known;
  const names = isNamed(node) || Object.values(node.states).some((child) => namesPhases(child));
  naming.set(node, names);
  return names;
}

export function described(node: ChartNode): Phase {
  const { steps, waitsFor } = metaOf(node);
  let depth = 0;
  for (let up: ChartNode | undefined = node.parent; up; up = up.parent) if (isNamed(up)) depth++;
  return {
    id: node.id,
    name: node.path.join('.') || node.key,
    depth,
    ...(typeof steps === 'string' ? { steps } : {}),
    ...(typeof waitsFor === 'string' ? { waitsFor } : {}),
  };
}

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

interface ValueStates {
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
