/** What supervisors of children do alike when one of them has ended or crashed. Pure. */
interface Supervisor<Again> {
  stopChild(id: string): void;
  raise(event: Again, options: { readonly delay: number; readonly id: string }): void;
}

/** The id of the child whose end or crash this event reports. */
export const childIn = ({ type }: { readonly type: string }): string =>
  type.replace(/^xstate\.(?:done|error)\.actor\./, '');

/** The id of a child that crashed is free from now on; `again` comes after a pause, when the child is to start anew. */
export function reapChild<Again>(enqueue: Supervisor<Again>, id: string, again: Again, pauseMs: number): void {
  enqueue.stopChild(id);
  enqueue.raise(again, { delay: pauseMs, id: `respawn-${id}` });
}
