/** Types and derivations of `nodeStatus`: its context, events and guards. Pure. The chart is in `node-status.ts`. */
import { type Ended, type EnqueueOf, type JsonObject, now, pick, setup, typed } from '../../../kernel/xstate.ts';
import type { Node, NodeAddress, NodeStatus } from '../../model/api/pod.ts';
import type { ConditionsChanged } from '../../model/eviction/policy.ts';
import { criOperations, type WatchImagesItem } from '../../model/operations/cri.ts';
import { kubeOperations } from '../../model/operations/kube.ts';
import { type Decider, hasBehavior } from '../../model/settings/behaviors.ts';
import { type ReflectorReport, reflectorMachine } from '../kube/reflector.ts';
import { isUndecided, lacksRelist, type NodeFacts, type NodeReports } from './object/facts.ts';
import { hasChange, hasConditionChange, hasMoreVolumesInUse, lostLabels, nodeStatus } from './object/node.ts';
import { registrationMachine } from './registration.ts';

export interface NodeStatusInput extends Decider {
  readonly facts: NodeFacts;
  /** Reports that are known before the subsystems send theirs: capacity and allocatable. */
  readonly reports: Partial<NodeReports>;
  /** `registerNode`: false waits for another client to create the Node. */
  readonly register: boolean;
  /** Passed to `registration`; absent: false. */
  readonly getsOnExistsOnly?: boolean;
  readonly updateFrequencyMs: number;
  readonly reportFrequencyMs: number;
  /** `nodeStatusMaxImages`; -1: all of them. */
  readonly maxImages: number;
}

/** Attempts to report before the next period, as upstream. */
const TRIES_MAX = 5;

export interface Context extends Omit<NodeStatusInput, 'reports'> {
  readonly reports: NodeReports;
  /** The pressure conditions are those of an earlier start: `eviction` has not reported yet. */
  readonly isPressureOld: boolean;
  readonly node: Node | null;
  /**
   * Conditions for which an event was recorded, and which the Node may not show yet, or left by an earlier start;
   * `null`: those of the Node.
   */
  readonly recorded: NonNullable<NodeStatus['conditions']> | null;
  readonly next: NodeStatus;
  readonly reportedAtMs: number;
  readonly quietMs: number;
  readonly tries: number;
}

/** A part of the node's status, from the subsystem that knows it. */
interface NodeReported {
  readonly type: 'node.reported';
  readonly reports: Partial<NodeReports>;
}

/** The Node has other addresses, which a cloud provider sets: those of the host of its pods. */
export interface HostAddressesChanged {
  readonly type: 'hostAddresses.changed';
  readonly hostAddresses: readonly NodeAddress[];
}

/** More addresses of a Node are not kept. */
export const ADDRESSES_MAX = 64;

type Event =
  | NodeReported
  /** `allocation` restarted and does not know the Node. */
  | { readonly type: 'node.wanted' }
  | ConditionsChanged
  /** This machine has other addresses. */
  | { readonly type: 'node.addressed'; readonly addresses: NodeFacts['addresses'] }
  | { readonly type: 'pressure.seen' }
  | ReflectorReport
  | WatchImagesItem
  | Ended;

export const statusOf = (context: Context): NodeStatus => context.node?.status ?? {};
export const projected = (context: Context, nowMs: number): NodeStatus =>
  nodeStatus(context.facts, context.reports, statusOf(context), nowMs);

/** The patch that restores lost labels of the Node; `null` if none are lost. */
export const labelsOf = (context: Context): JsonObject | null =>
  isAsKubelet(context) && context.node !== null ? lostLabels(context.facts, context.node) : null;

/** A cloud provider sets the addresses of the Node. */
export const isCloudAddressed = (context: Context): boolean =>
  context.facts.externalCloud && hasBehavior(context, 'configurationAsKubelet');

export const isAsKubelet = (context: Context): boolean => hasBehavior(context, 'nodeAsKubelet');

/** A change of the Node that interrupts a report does not cause a second event about the reported conditions. */
export const recordsConditionsOnce = (context: Context): boolean => hasBehavior(context, 'conditionsOnce');

export const nodeStatusSetup = setup({
  types: typed<{ input: NodeStatusInput; context: Context; events: Event }>(),
  actors: {
    registration: registrationMachine,
    reflector: reflectorMachine,
    ...pick(kubeOperations, 'kube.get', 'kube.patch'),
    ...pick(criOperations, 'cri.watchImages'),
  },
  guards: {
    isDecided: ({ context }) => {
      const isAwaited = hasBehavior(context, 'relistAwaited') && lacksRelist(context.reports);
      return context.recorded?.length === 0 || !(isUndecided(context.reports) || isAwaited);
    },
    registersItself: ({ context }) => context.register,
    isUrgent: ({ context }) => {
      const [before, after] = [statusOf(context), projected(context, context.reportedAtMs)];
      const isUrgent = hasConditionChange(before, after) || hasMoreVolumesInUse(before, after);
      return context.node !== null && (isUrgent || context.reports.isRecreated === true);
    },
    mayTryAgain: ({ context }) => context.tries < TRIES_MAX,
  },
  delays: {
    nextReport: (args) => {
      const { context } = args;
      const isChanged =
        hasChange(statusOf(context), projected(context, context.reportedAtMs)) || labelsOf(context) !== null;
      const period = isChanged ? context.updateFrequencyMs : context.quietMs;
      return Math.max(0, context.reportedAtMs + period - now({ system: args.self.system }));
    },
  },
});

export type Enqueue = EnqueueOf<typeof nodeStatusSetup>;
