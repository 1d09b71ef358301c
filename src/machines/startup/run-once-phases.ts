/**
 * The end of starting in a node that runs its pods once: no servers and no loops, only the folders, the runtime, and
 * the wait for the pods. Steps: S131, S112.
 */
import { assign, enqueueActions, line, raise } from '../../kernel/xstate.ts';
import type { Failure } from './context/types.ts';
import { kubeletSetup, messageOf } from './setup.ts';
import {
  CONTAINER_MANAGER_PHASE,
  containerLogs,
  createPodCIDR,
  dataDirectories,
  startContainerManagerAgain,
} from './start-kubelet.ts';

const failureOf = (phase: string, text: string): Failure => ({
  phase: `runOnce.${phase}`,
  message: `failed to run Kubelet: runonce failed: ${text}`,
  exitCode: 1,
});

export const runOncePhases = kubeletSetup.createStateConfig({
  initial: 'dataDirectories',
  states: {
    dataDirectories: {
      meta: { steps: 'S131, S233', waitsFor: "the node's folders" },
      invoke: {
        id: 'dataDirectories',
        src: 'host.makeDirectories',
        input: ({ context }) => ({ directories: dataDirectories(context) }),
        onDone: 'containerLogs',
        onError: {
          target: '#kubelet.failed',
          actions: assign({ failure: ({ event }) => failureOf('dataDirectories', messageOf(event)) }),
        },
      },
    },
    containerLogs: containerLogs('waitingForRuntime'),
    waitingForRuntime: {
      meta: { steps: 'S131, S236', waitsFor: 'RuntimeReady' },
      entry: [createPodCIDR, raise({ type: 'create.pleg' })],
      on: { 'runtimeState.up': 'runtimeDependentModules' },
    },
    runtimeDependentModules: {
      ...CONTAINER_MANAGER_PHASE,
      on: {
        ...startContainerManagerAgain,
        'containerManager.started': 'pods',
        'containerManager.failed': {
          target: '#kubelet.failed',
          actions: assign({ failure: ({ event }) => failureOf('runtimeDependentModules', event.message) }),
        },
      },
    },
    pods: {
      meta: { steps: 'S131', waitsFor: 'each pod to be ready or to end' },
      entry: raise({ type: 'create.runOnce' }),
      on: {
        ...startContainerManagerAgain,
        'runOnce.finished': [
          {
            guard: ({ event }) => event.error !== '',
            target: '#kubelet.failed',
            actions: enqueueActions(({ event, enqueue }) => {
              const { results, error } = event;
              enqueue.assign({ podResults: results, failure: failureOf('pods', error) });
            }),
          },
          {
            target: '#kubelet.stopped',
            actions: [assign({ podResults: ({ event }) => event.results }), line('info', 'Started kubelet as runonce')],
          },
        ],
      },
    },
  },
});
