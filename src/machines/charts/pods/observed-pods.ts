/** Takes the runtime's reports about pods. Part of `pods.ts`. */
import { line, now } from '../../../kernel/xstate.ts';
import { released, start } from './pod-start.ts';
import { podsSetup as s, sendToPod } from './pods-setup.ts';
import { endUnwanted } from './wanted-pods.ts';

export const handleObservation = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'runtime.podChanged') return;
  const { status } = event;
  const record = context.records[status.uid];
  if (record?.alive) sendToPod(enqueue, status.uid, event);
  if (record) return;
  const { uid, name, namespace } = status;
  const added = start(args, { uid, name, namespace }, undefined, { runtime: status });
  const judged = context.judges ? endUnwanted(enqueue, added) : added;
  enqueue.assign({ records: { ...context.records, [uid]: judged } });
});

export const handleRelist = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'runtime.relisted') return;
  const listedUids = new Set(event.uids);
  for (const { uid, alive } of Object.values(context.records)) {
    if (alive && !listedUids.has(uid)) sendToPod(enqueue, uid, { type: 'runtime.absent', observedAtMs: now(args) });
  }
  enqueue.assign({ relisted: true, records: released(enqueue, context.records) });
});

export const logStale = s.enqueueActions(({ event, enqueue }) => {
  if (event.type !== 'runtime.podStale') return;
  enqueue(line('warn', ['A pod cannot be inspected', { uid: event.uid, error: event.message }]));
});
