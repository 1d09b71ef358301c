/**
 * What a chart says: the states of a machine and the words on its edges, read from the machine that runs.
 *
 * Pure: no sizes, no places. Invariants: the order is the order of the definition; every transition of the machine is
 * on the chart, as an edge when it has a target and as a line of its state when it has none.
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
  /** True for the child of a parallel state: it is active together with its neighbours. */
  readonly region: boolean;
  readonly waitsFor: string | undefined;
  readonly lines: readonly ChartLine[];
  readonly initial: string | undefined;
  readonly children: readonly ChartState[];
}

/** One line inside a state: what it invokes, does on entry and exit, or hears without leaving. */
export interface ChartLine {
  readonly text: string;
  /** The event type, for lines that are transitions. */
  readonly event: string | undefined;
}

export interface ChartEdge {
  readonly source: string;
  readonly target: string;
  readonly labels: readonly ChartLine[];
}

type Transition = AnyStateNode['transitions'] extends Map<string, (infer T)[]> ? T : never;
type Meta = { readonly step?: unknown; readonly waitsFor?: unknown } | undefined;

export function chartOf(machine: AnyStateMachine): Chart {
  const edges = new Map<string, { source: string; target: string; labels: ChartLine[] }>();
  const root = stateOf(machine.root, edges);
  return { machine: machine.id, root, edges: [...edges.values()] };
}

function stateOf(node: AnyStateNode, edges: Map<string, { source: string; target: string; labels: ChartLine[] }>) {
  const internal: ChartLine[] = [];
  for (const transition of transitionsOf(node)) {
    const label = labelOf(transition);
    if (!transition.target?.length) internal.push({ ...label, text: `on ${label.text}` });
    for (const target of transition.target ?? []) {
      const key = `${node.id} -> ${target.id}`;
      const edge = edges.get(key) ?? { source: node.id, target: target.id, labels: [] };
      edges.set(key, edge);
      if (!edge.labels.some((other) => other.text === label.text)) edge.labels.push(label);
    }
  }
  const meta = node.meta as Meta;
  const state: ChartState = {
    id: node.id,
    title: typeof meta?.step === 'string' ? `${node.key}  ${meta.step}` : node.key,
    kind: node.type,
    region: node.parent?.type === 'parallel',
    waitsFor: typeof meta?.waitsFor === 'string' ? meta.waitsFor : undefined,
    lines: [...activities(node), ...internal],
    initial: node.type === 'compound' ? node.initial.target[0]?.id : undefined,
    children: Object.values(node.states).map((child) => stateOf(child as AnyStateNode, edges)),
  };
  return state;
}

/** Transitions that do something. An empty one (`onError: {}`) only says that an event is no surprise. */
function transitionsOf(node: AnyStateNode): Transition[] {
  const all = [...[...node.transitions.values()].flat(), ...(node.always ?? [])] as Transition[];
  return all.filter((transition) => transition.target?.length || transition.actions.length > 0);
}

function activities(node: AnyStateNode): ChartLine[] {
  const said = (verb: string, names: readonly string[]) =>
    names.length > 0 ? [{ text: `${verb} ${names.join(', ')}`, event: undefined }] : [];
  return [
    ...node.invoke.flatMap((invoke) => said('invoke', [invokeName(invoke.id, invoke.src)])),
    ...said('entry', namesOf(node.entry)),
    ...said('exit', namesOf(node.exit)),
  ];
}

const invokeName = (id: string, src: unknown): string => (typeof src === 'string' ? src : id);

/** Names of the machine's own actions; XState's (`raise` and `cancel` of each delay) would only be noise. */
function namesOf(actions: readonly unknown[]): string[] {
  return actions.flatMap((action) => {
    const name = typeof action === 'string' ? action : (action as { type?: unknown }).type;
    return typeof name === 'string' && !name.startsWith('xstate.') ? [name] : [];
  });
}

function labelOf(transition: Transition): ChartLine {
  const event = transition.eventType as string;
  const guard = transition.guard === undefined ? '' : `[${guardName(transition.guard)}]`;
  return { text: [eventName(event), guard].filter(Boolean).join(' ') || 'always', event: event || 'always' };
}

const ACTOR_EVENT = /^xstate\.(done|error|snapshot)\.actor\.(.+)$/;
const AFTER_EVENT = /^xstate\.after\.([^.]+)\./;

/** An event as people say it: `xstate.done.actor.look` is `look done`. */
export function eventName(type: string): string {
  const actor = ACTOR_EVENT.exec(type);
  if (actor) return `${actor[2]} ${actor[1] === 'error' ? 'failed' : actor[1]}`;
  const after = AFTER_EVENT.exec(type);
  if (after) return `after ${durationName(after[1] as string)}`;
  return type.startsWith('xstate.done.state.') ? 'done' : type;
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
