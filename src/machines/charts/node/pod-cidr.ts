/**
 * Pod CIDR: passes the address ranges of this node's pods to the runtime, which completes its template of a network
 * with them (`conf_template` of containerd).
 *
 * Decides: when the runtime must get the CIDRs.
 * Owns: the CIDRs that the runtime knows.
 * Receives: `podCIDR` of the configuration, and CIDRs of the Node, which replace it.
 * Hears: `node.known` of `nodeStatus`.
 * Asks: `cri.updateRuntimeConfig`.
 * Invariants:
 *   D1 the runtime gets each change once, and again until it accepts it;
 *   D2 a Node without CIDRs changes nothing.
 * Seeds: S222. Upstream: updatePodCIDR.
 */

import { assign, type Ended, failureLine, line, pick, setup, typed } from '../../../kernel/xstate.ts';
import type { NodeKnown } from '../../model/allocation/messages.ts';
import type { Node } from '../../model/api/pod.ts';
import { criOperations } from '../../model/operations/cri.ts';
import { type Decider, hasBehavior } from '../../model/settings/behaviors.ts';

/** Pause before a rejected CIDR is sent to the runtime again. */
const RETRY_MS = 10_000;

export interface PodCIDRInput extends Decider {
  /** `podCIDR` of the configuration; empty if there is none. */
  readonly podCIDR: string;
}

interface Context extends Decider {
  readonly wanted: string;
  readonly known: string;
}

type Event = NodeKnown | Ended;

/** All CIDRs of the Node, comma-separated, in the runtime's format. */
export const podCIDROf = ({ spec }: Node): string =>
  spec?.podCIDRs && spec.podCIDRs.length > 0 ? spec.podCIDRs.join(',') : (spec?.podCIDR ?? '');

const s = setup({
  types: typed<{ input: PodCIDRInput; context: Context; events: Event }>(),
  actors: pick(criOperations, 'cri.updateRuntimeConfig'),
  guards: { isReported: ({ context }) => context.wanted === '' || context.wanted === context.known },
});

const notePodCIDR = s.assign({
  wanted: ({ context, event }) => {
    if (event.type !== 'node.known') return context.wanted;
    const ofNode = podCIDROf(event.node);
    return ofNode === '' && hasBehavior(context, 'podCIDROfConfiguration') ? context.wanted : ofNode;
  },
});

export const podCIDRMachine = s.createMachine({
  id: 'podCIDR',
  context: ({ input }) => ({
    behavior: input.behavior,
    wanted: hasBehavior(input, 'podCIDROfConfiguration') ? input.podCIDR : '',
    known: '',
  }),
  initial: 'judging',
  on: { 'node.known': { actions: notePodCIDR } },
  states: {
    judging: { always: [{ guard: 'isReported', target: 'reported' }, { target: 'reporting' }] },
    reported: { on: { 'node.known': { target: 'judging', actions: notePodCIDR } } },
    reporting: {
      meta: { waitsFor: 'the runtime to take the addresses of pods' },
      entry: line('info', ({ context }) => [
        'Updating Pod CIDR',
        { originalPodCIDR: context.known, newPodCIDR: context.wanted },
      ]),
      invoke: {
        id: 'update',
        src: 'cri.updateRuntimeConfig',
        input: ({ context }) => ({ podCIDR: context.wanted }),
        onDone: { target: 'judging', actions: assign({ known: ({ context }) => context.wanted }) },
        onError: { target: 'pausing', actions: failureLine('error', 'Failed to update pod CIDR') },
      },
    },
    pausing: { after: { [RETRY_MS]: 'judging' } },
  },
});
