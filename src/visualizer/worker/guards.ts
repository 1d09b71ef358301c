/** The transitions that an actor considered, with what their guards said, as the page draws them. Pure. */
import { candidatesOf, guardName } from '../../kernel/guards.ts';
import type { AnyTransitionDefinition } from '../../kernel/steps.ts';
import type { EdgeView } from './requests.ts';

/** `before`: the snapshot in which the event was heard; absent: the actor began with it. */
export function edgesOf(
  before: object | undefined,
  event: { readonly type: string },
  taken: readonly AnyTransitionDefinition[],
): EdgeView[] {
  const candidates = before ? candidatesOf(before, event) : [];
  const considered = candidates.map(({ transition, passes }) => {
    const result = taken.includes(transition) ? 'taken' : passes === undefined ? 'not reached' : 'no';
    return edge(transition, result);
  });
  const known = new Set(candidates.map(({ transition }) => transition));
  return [...considered, ...taken.filter((transition) => !known.has(transition)).map((each) => edge(each, 'taken'))];
}

function edge(transition: AnyTransitionDefinition, result: EdgeView['result']): EdgeView {
  const guard = guardName(transition);
  return {
    source: transition.source.id,
    targets: (transition.target ?? []).map(({ id }) => id),
    event: transition.eventType || 'always',
    ...(guard === undefined ? {} : { guard }),
    result,
  };
}
