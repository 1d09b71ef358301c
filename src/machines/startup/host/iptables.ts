/**
 * iptables: the chains that other components expect on a node, and the rule that keeps other hosts off the loopback.
 *
 * Decides: what is logged about them. The chains are upstream's, and the port creates them.
 * Owns: nothing.
 * Hears: `iptables.initialized`, `iptables.failed`, `iptables.restored` from `host.keepIptables`, by protocol.
 * Asks: `host.keepIptables`, which checks each minute whether the tables were flushed.
 * Invariants:
 *   I1 a node without iptables starts and runs.
 * Seeds: S138, S224, S225. Upstream: pkg/kubelet/kubelet_network_linux.go.
 */
import { failureLine, line, pick, setup, typed } from '../../../kernel/xstate.ts';
import type { IptablesItem } from '../../model/operations/host.ts';
import { operations } from '../../model/operations/index.ts';

/** Upstream's period of checking its canary. */
const MONITOR_PERIOD_MS = 60_000;

export const iptablesMachine = setup({
  types: typed<{ context: Record<string, never>; events: IptablesItem }>(),
  actors: pick(operations, 'host.keepIptables'),
}).createMachine({
  id: 'iptables',
  context: {},
  initial: 'keeping',
  states: {
    keeping: {
      invoke: {
        id: 'keep',
        src: 'host.keepIptables',
        input: { periodMs: MONITOR_PERIOD_MS },
        onDone: 'ended',
        onError: {
          target: 'ended',
          actions: failureLine('error', 'Failed to initialize iptables rules; some functionality may be missing.'),
        },
      },
      on: {
        'iptables.initialized': {
          actions: line('info', ({ event }) => ['Initialized iptables rules.', { protocol: event.protocol }]),
        },
        'iptables.restored': {
          actions: line('info', ({ event }) => ['Reloading after iptables flush', { protocol: event.protocol }]),
        },
        'iptables.failed': {
          actions: [
            line('error', ({ event }) => [event.step, { protocol: event.protocol, err: event.message }]),
            line('info', ({ event }) => [
              'Failed to initialize iptables rules; some functionality may be missing.',
              { protocol: event.protocol },
            ]),
          ],
        },
      },
    },
    ended: {},
  },
});
