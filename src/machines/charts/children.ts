/** Shared by supervisors of child actors: handling a child that ended or crashed. Pure. */
interface Supervisor<Again> {
  stopChild(id: string): void;
  raise(event: Again, options: { readonly delay: number; readonly id: string }): void;
}

/** The id of the child that this event reports as ended or crashed. */
export const childIn = ({ type }: { readonly type: string }): string =>
  type.replace(/^xstate\.(?:done|error)\.actor\./, '');

/** Frees the id of a crashed child; `again` is raised after a pause, when a replacement may be spawned. */
export function reapChild<Again>(enqueue: Supervisor<Again>, id: string, again: Again, pauseMs: number): void {
  enqueue.stopChild(id);
  enqueue.raise(again, { delay: pauseMs, id: `respawn-${id}` });
}
