/**
 * The content of a chart: the states of a machine and the texts of its edges, read from the machine itself.
 *
 * Pure: no sizes, no positions. Invariants: the order is that of the definition; every transition of the machine is on
 * the chart, as an edge or as a line of its state. Lines are the transitions that stay in their state, those that leave
 * a region of a parallel state, and those that many distant states have in common (`failed`), because as edges they
 * would cross all others.
 */
import type { AnyStateMachine, AnyStateNode } from 'xstate';

export interface Chart {
  readonly machine: string;
  readonly root: ChartState;
  readonly edges: readonly ChartEdge[];
}

export type StateKind = 'atomic' | 'compound' | 'parallel' | 'final' | 'history';

export interface ChartState {
  readonly id: string;
  readonly title: string;
  readonly kind: StateKind;
  /** True for a child of a parallel state: it is active together with its siblings. */
  readonly region: boolean;
  readonly waitsFor: string | undefined;
  readonly lines: readonly ChartLine[];
  readonly initial: string | undefined;
  readonly children: readonly ChartState[];
  /** For a state that is drawn as a card: the sheet with its content, and the ids of all states there. */
  readonly card?: { readonly sheet: string; readonly inside: readonly string[] };
}

/**
 * One line inside a state: an operation that it invokes, an action on entry or exit, or an event that does not leave
 * it.
 */
export interface ChartLine {
  readonly text: string;
  /** The event type, for lines that are transitions. */
  readonly event: string | undefined;
  /** The target of a transition that is not drawn as an edge. */
  readonly target?: string;
}

export interface ChartEdge {
  readonly source: string;
  readonly target: string;
  readonly labels: readonly ChartLine[];
}

type Transition = AnyStateNode['transitions'] extends Map<string, (infer T)[]> ? T : never;
type Meta = { readonly steps?: unknown; readonly waitsFor?: unknown } | undefined;

/** The most distant states that have edges to one state; if there are more, lines are clearer than edges. */
const FAR_SOURCES_MAX = 3;

type Edges = Map<string, { source: string; target: string; labels: ChartLine[] }>;

export function chartOf(machine: AnyStateMachine): Chart {
  const edges: Edges = new Map();
  const far = farSources(machine.root);
  const isJump = (source: AnyStateNode, target: AnyStateNode): boolean =>
    leavesRegion(source, target) || (isFar(source, target) && (far.get(target.id)?.size ?? 0) > FAR_SOURCES_MAX);
  const root = stateOf(machine.root, edges, isJump);
  return { machine: machine.id, root, edges: [...edges.values()] };
}

function stateOf(
  node: AnyStateNode,
  edges: Edges,
  isJump: (source: AnyStateNode, target: AnyStateNode) => boolean,
): ChartState {
  const lines: ChartLine[] = [];
  for (const transition of transitionsOf(node)) {
    const label = labelOf(transition);
    if (!transition.target?.length) lines.push({ ...label, text: `on ${label.text}` });
    for (const target of transition.target ?? []) {
      if (isJump(node, target)) lines.push({ ...label, text: `${label.text} → ${target.key}`, target: target.id });
      else addLabel(edges, node.id, target.id, label);
    }
  }
  const meta = node.meta as Meta;
  return {
    id: node.id,
    title: node.key,
    kind: node.type,
    region: node.parent?.type === 'parallel',
    waitsFor: typeof meta?.waitsFor === 'string' ? meta.waitsFor : undefined,
    lines: [...labelled('steps', meta?.steps), ...activities(node), ...distinct(lines)],
    initial: node.type === 'compound' ? node.initial.target[0]?.id : undefined,
    children: Object.values(node.states).map((child) => stateOf(child as AnyStateNode, edges, isJump)),
  };
}

function addLabel(edges: Edges, source: string, target: string, label: ChartLine): void {
  const key = `${source} -> ${target}`;
  const edge = edges.get(key) ?? { source, target, labels: [] };
  edges.set(key, edge);
  edge.labels = distinct([...edge.labels, label]);
}

const distinct = (lines: readonly ChartLine[]): ChartLine[] =>
  lines.filter((line, index) => lines.findIndex((other) => other.text === line.text) === index);

const isInside = (node: AnyStateNode, ancestor: AnyStateNode): boolean =>
  node === ancestor || (node.parent !== undefined && isInside(node.parent as AnyStateNode, ancestor));

/** True if the transition ends a region of a parallel state, and its siblings with it. */
function leavesRegion(source: AnyStateNode, target: AnyStateNode): boolean {
  if (isInside(target, source)) return false;
  const parent = source.parent as AnyStateNode | undefined;
  return parent !== undefined && (parent.type === 'parallel' || leavesRegion(parent, target));
}

const isFar = (source: AnyStateNode, target: AnyStateNode): boolean =>
  source.parent !== target.parent && !isInside(source, target) && !isInside(target, source);

/** The distant states that lead to each state. */
function farSources(node: AnyStateNode, found = new Map<string, Set<string>>()): Map<string, Set<string>> {
  for (const transition of transitionsOf(node))
    for (const target of transition.target ?? [])
      if (isFar(node, target)) found.set(target.id, (found.get(target.id) ?? new Set()).add(node.id));
  for (const child of Object.values(node.states)) farSources(child as AnyStateNode, found);
  return found;
}

/** Transitions with an effect. An empty one (`onError: {}`) only declares that the event is expected. */
function transitionsOf(node: AnyStateNode): Transition[] {
  const all = [...[...node.transitions.values()].flat(), ...(node.always ?? [])] as Transition[];
  return all.filter((transition) => transition.target?.length || transition.actions.length > 0);
}

function activities(node: AnyStateNode): ChartLine[] {
  return [
    ...node.invoke.flatMap((invoke) => labelled('invoke', typeof invoke.src === 'string' ? invoke.src : invoke.id)),
    ...labelled('entry', namesOf(node.entry).join(', ')),
    ...labelled('exit', namesOf(node.exit).join(', ')),
  ];
}

const labelled = (verb: string, what: unknown): ChartLine[] =>
  typeof what === 'string' && what !== '' ? [{ text: `${verb} ${what}`, event: undefined }] : [];

/** Names of the machine's own actions, without those of XState (`raise` and `cancel` of each delay). */
function namesOf(actions: readonly unknown[]): string[] {
  return actions.flatMap((action) => {
    const name = typeof action === 'string' ? action : (action as { type?: unknown }).type;
    return typeof name === 'string' && !name.startsWith('xstate.') ? [name] : [];
  });
}

function labelOf(transition: Transition): ChartLine {
  const event = transition.eventType as string;
  const name = event.endsWith(`.${transition.source.id}`) ? event.slice(0, -transition.source.id.length - 1) : event;
  const guard = transition.guard === undefined ? '' : `[${guardName(transition.guard)}]`;
  return { text: [eventName(name), guard].filter(Boolean).join(' ') || 'always', event: event || 'always' };
}

const ACTOR_EVENT = /^xstate\.(done|error|snapshot)\.actor\.(.+)$/;
const AFTER_EVENT = /^xstate\.after\.(.+)$/;

/** The text for an event: `xstate.done.actor.look` becomes `look done`. The caller has removed the id of the state. */
function eventName(type: string): string {
  const actor = ACTOR_EVENT.exec(type);
  if (actor) return `${actor[2]} ${actor[1] === 'error' ? 'failed' : actor[1]}`;
  const after = AFTER_EVENT.exec(type);
  if (after) return `after ${durationName(after[1] as string)}`;
  return type.startsWith('xstate.done.state') ? 'done' : type;
}

function durationName(delay: string): string {
  const ms = Number(delay);
  if (!Number.isFinite(ms)) return delay;
  if (ms >= 60_000 && ms % 60_000 === 0) return `${ms / 60_000} min`;
  return ms >= 1_000 && ms % 100 === 0 ? `${ms / 1_000} s` : `${ms} ms`;
}

function guardName(guard: unknown): string {
  if (typeof guard === 'string') return guard;
  const { type, name, guards } = guard as { type?: unknown; name?: string; guards?: readonly unknown[] };
  if (typeof type === 'string') return type;
  if (name === 'not' && guards) return `not ${guardName(guards[0])}`;
  if (guards) return guards.map(guardName).join(` ${name} `);
  return name && name !== 'guard' ? name : '…';
}
