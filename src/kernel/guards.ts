/**
 * For read models: which transitions an actor could have taken on an event, and what their guards say. Machines and
 * ports never ask this; it exists so that only the kernel has to know XState.
 */
import { type AnyMachineSnapshot, type AnyStateNode, type AnyTransitionDefinition, and } from 'xstate';

export interface Candidate {
  readonly transition: AnyTransitionDefinition;
  /** What its guard says of the snapshot; absent: it was not asked, as one before it was taken. */
  readonly passes?: boolean;
}

/** The candidates of each active state for the event, in the order in which XState asks them. */
export function candidatesOf(snapshot: object, event: { readonly type: string }): Candidate[] {
  const { _nodes: nodes = [] } = snapshot as Partial<AnyMachineSnapshot>;
  const found = new Map<AnyTransitionDefinition, Candidate>();
  const leaves = nodes.filter((node) => !nodes.some((other) => other.parent === node));
  for (const leaf of leaves) {
    for (let node: AnyStateNode | undefined = leaf; node; node = node.parent) {
      const candidates = candidatesIn(node, snapshot as AnyMachineSnapshot, event);
      for (const candidate of candidates) {
        if (!found.has(candidate.transition)) found.set(candidate.transition, candidate);
      }
      if (candidates.some(({ passes }) => passes)) break;
    }
  }
  return [...found.values()];
}

function candidatesIn(node: AnyStateNode, snapshot: AnyMachineSnapshot, event: { readonly type: string }): Candidate[] {
  const transitions = node.transitions.get(event.type) ?? node.transitions.get('*') ?? [];
  let isTaken = false;
  return transitions.map((transition) => {
    if (isTaken) return { transition };
    isTaken = passes(transition, snapshot, event);
    return { transition, passes: isTaken };
  });
}

/** Asks the guard as XState does: `and` of one guard has it evaluate that guard, however it is written. */
function passes({ guard }: AnyTransitionDefinition, snapshot: AnyMachineSnapshot, event: object): boolean {
  if (!guard) return true;
  const asked = and([guard as never]) as unknown as {
    check(snapshot: object, args: object, params: unknown): boolean;
  };
  try {
    return asked.check(snapshot, { context: snapshot.context, event }, asked);
  } catch {
    return false;
  }
}

/** What a guard is called: its name, or for one written in place the text of it. */
export function guardName({ guard }: AnyTransitionDefinition): string | undefined {
  if (!guard) return undefined;
  if (typeof guard === 'string') return guard;
  if (typeof guard === 'object') return (guard as { readonly type: string }).type;
  const named = guard as { readonly guards?: readonly unknown[]; readonly name: string };
  const inner = named.guards?.map((one) => guardName({ guard: one } as AnyTransitionDefinition) ?? '?');
  if (inner) return `${named.name || 'all of'}(${inner.join(', ')})`;
  // A function in place is called as the property that it stands in.
  return named.name === '' || named.name === 'guard' ? 'its condition holds' : named.name;
}
