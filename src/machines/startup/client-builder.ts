/**
 * Client builder: the three clients of the API server, or none.
 *
 * Decides: standalone (no `--kubeconfig`: KubeClient, EventClient and HeartbeatClient are all absent) or cluster.
 * Owns: nothing after it has answered.
 * Answers: `{ mode: 'standalone' }`, or the reason why there are no clients.
 * Invariants: B1 an empty `--kubeconfig` never touches the network.
 * Seeds: S052, S056 to S063. Upstream: cmd/kubelet/app/server.go.
 */
import { line, setup } from '../../kernel/xstate.ts';
import type { Answer } from './types.ts';

export interface ClientBuilderInput {
  readonly kubeconfig: string;
  readonly bootstrapKubeconfig: string;
}

const isStandalone = (input: ClientBuilderInput) => input.kubeconfig === '' && input.bootstrapKubeconfig === '';

export const clientBuilderMachine = setup({
  types: {
    input: {} as ClientBuilderInput,
    context: {} as ClientBuilderInput,
    output: {} as Answer<{ readonly mode: 'standalone' }>,
  },
  guards: { isStandalone: ({ context }) => isStandalone(context) },
}).createMachine({
  id: 'clientBuilder',
  context: ({ input }) => input,
  initial: 'detectingMode',
  states: {
    detectingMode: { always: [{ guard: 'isStandalone', target: 'standalone' }, { target: 'refused' }] },
    standalone: { type: 'final', entry: line('warn', 'Standalone mode, no API client') },
    refused: { type: 'final' },
  },
  output: ({ context }) =>
    isStandalone(context)
      ? { ok: true, value: { mode: 'standalone' } }
      : {
          ok: false,
          message:
            `cluster mode is not built yet: cannot use kubeconfig "${context.kubeconfig || context.bootstrapKubeconfig}"; ` +
            'start without --kubeconfig and --bootstrap-kubeconfig to run static pods standalone',
        },
});
