/**
 * The call that stops a container, with its retries. Part of the chart of `container.ts`, also in parallel to a hook.
 */
import { errorOf, line } from '../../../../kernel/xstate.ts';
import { stopSeconds } from './container-policy.ts';
import { containerSetup as s, updateFromAnswer } from './container-setup.ts';

/** Before a failed stop is retried. */
const STOP_RETRY_MS = 1_000;

/** Waits for the runtime to stop the instance, with grace period. */
const asking = s.createStateConfig({
  invoke: {
    id: 'stop',
    src: 'cri.stopContainer',
    input: ({ context }) => ({ containerId: context.id, timeoutSeconds: stopSeconds(context) }),
    onDone: { target: '#container.stopped', actions: updateFromAnswer },
    onError: [
      { guard: ({ event }) => errorOf(event).code === 'NOT_FOUND', target: '#container.stopped' },
      {
        target: 'failed',
        actions: line('error', ({ context, event }) => [
          'Kill container failed',
          { container: context.name, error: errorOf(event).message },
        ]),
      },
    ],
  },
});

const failed = s.createStateConfig({
  entry: { type: 'report', params: { phase: 'stopping', inspect: true } },
  after: { [STOP_RETRY_MS]: 'asking' },
});

export const stopCall = { asking, failed };
