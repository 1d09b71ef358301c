/**
 * Node addresses: follows the addresses of this machine, which may get them after the start of the agent, or others.
 *
 * Decides: when the node has other addresses than before.
 * Owns: the addresses that the node has.
 * Hears: `addresses.seen` of the watch.
 * Asks: `host.watchAddresses`.
 * Sends: the supervisor `addresses.changed`.
 * Invariants:
 *   A1 a node keeps its addresses while the machine has none that it could have instead.
 *   A2 unchanged addresses are not published.
 * Upstream: pkg/kubelet/nodestatus/setters.go (NodeAddress), which looks with each update of the Node's status.
 */
import { errorOf, line, pick, sendParent, setup, typed } from '../../../kernel/xstate.ts';
import type { KubeletFlags } from '../../configuration/flags/flags.ts';
import type { MachineAddresses } from '../../model/operations/host.ts';
import { operations } from '../../model/operations/index.ts';
import type { NodeIdentity } from '../context/types.ts';
import { chooseNodeIPs, nameToLookUp } from './node-ip.ts';

export interface NodeAddressesInput extends NodeIdentity, Pick<KubeletFlags, 'nodeIP' | 'cloudProvider'> {
  /** `nodeStatusUpdateFrequency`: how often a change is looked for. */
  readonly periodMs: number;
}

type Event = { readonly type: 'addresses.seen'; readonly machine: MachineAddresses };

/** The pause before a broken watch is reopened. */
const REOPEN_MS = 10_000;

/**
 * The addresses that the node should have now, or why it has none. A node that has an address gets another one only by
 * its name or by a default route: without them any interface would do, such as that of the pods.
 */
function choiceOf(context: NodeAddressesInput, { machine }: Event): { nodeIPs: readonly string[]; problem: string } {
  const { hostname, nodeName, nodeIPs: own } = context;
  const candidates = own.length === 0 ? machine : { ...machine, addresses: [] };
  const { nodeIPs, addressProblem = '' } = chooseNodeIPs(context, hostname, candidates);
  if (addressProblem !== '' || nodeIPs.length > 0) return { nodeIPs, problem: addressProblem };
  const hasOwn = own.length > 0 && own.every((address) => machine.local?.includes(address));
  return { nodeIPs: own, problem: hasOwn ? '' : `can't get ip address of node ${nodeName}: no default routes found` };
}

const s = setup({
  types: typed<{ input: NodeAddressesInput; context: NodeAddressesInput; events: Event }>(),
  actors: pick(operations, 'host.watchAddresses'),
  guards: {
    isOther: ({ context, event }) => {
      const { nodeIPs, problem } = choiceOf(context, event);
      return problem === '' && (context.addressProblem !== '' || nodeIPs.join() !== context.nodeIPs.join());
    },
    isNewProblem: ({ context, event }) => {
      const { problem } = choiceOf(context, event);
      return problem !== '' && problem !== context.addressProblem;
    },
  },
  delays: { reopen: REOPEN_MS },
});

const adopt = s.assign(({ context, event }) => ({ nodeIPs: choiceOf(context, event).nodeIPs, addressProblem: '' }));
const noteProblem = s.assign({ addressProblem: ({ context, event }) => choiceOf(context, event).problem });

export const nodeAddressesMachine = s.createMachine({
  id: 'nodeAddresses',
  context: ({ input }) => ({ ...input, addressProblem: input.addressProblem ?? '' }),
  initial: 'watching',
  states: {
    watching: {
      invoke: {
        id: 'watch',
        src: 'host.watchAddresses',
        input: ({ context }) => ({ ...nameToLookUp(context, context.nodeName), periodMs: context.periodMs }),
        onDone: 'reopening',
        onError: {
          target: 'reopening',
          actions: line('error', ({ event }) => [
            'Cannot watch the addresses of this machine',
            { err: errorOf(event).message },
          ]),
        },
      },
      on: {
        'addresses.seen': [
          {
            guard: 'isOther',
            actions: [
              adopt,
              line('info', ({ context: { nodeName, nodeIPs } }) => [
                'The addresses of this node changed',
                { node: nodeName, nodeIPs },
              ]),
              sendParent(({ context }) => ({ type: 'addresses.changed', nodeIPs: context.nodeIPs })),
            ],
          },
          {
            guard: 'isNewProblem',
            actions: [
              noteProblem,
              line('error', ({ context: { nodeName, addressProblem: err } }) => [
                'Failed to set some node status fields',
                { node: nodeName, err },
              ]),
            ],
          },
        ],
      },
    },
    reopening: { after: { reopen: 'watching' } },
  },
});
