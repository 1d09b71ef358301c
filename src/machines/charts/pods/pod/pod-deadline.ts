/** `activeDeadlineSeconds`: from the start of the pod, over restarts of the agent. Part of the chart of `pod.ts`. */
import { podEvents } from '../../../model/reasons/reasons.ts';
import { killOverdue, record } from './pod-actions.ts';
import { podSetup as s } from './pod-setup.ts';

/** See `recordOverdue` for the other two. */
const recordOver = record(() => podEvents.deadlineExceeded());

export const deadline = s.createStateConfig({
  initial: 'none',
  states: {
    none: { always: { guard: 'hasDeadline', target: 'counting' } },
    counting: {
      always: { guard: 'isOver', target: 'over' },
      after: { deadline: { target: 'over', actions: [recordOver, recordOver, killOverdue] } },
      /** It may have been made shorter. */
      on: { 'pod.configured': { target: 'counting', reenter: true } },
    },
    over: {},
  },
});
