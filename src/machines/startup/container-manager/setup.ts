/** Types, guards and actions of the container manager. The chart is in `container-manager.ts`. */

import {
  type ActionArgsOf,
  type Ended,
  errorOf,
  line,
  outputOf,
  pick,
  required,
  setup,
  to,
  typed,
} from '../../../kernel/xstate.ts';
import type { PodsKnown } from '../../model/allocation/messages.ts';
import type { ResourcesHeld, StateFile } from '../../model/allocation/resource-grants.ts';
import { handedOver, stateFilePaths, stateFiles, stateFilesProblem } from '../../model/allocation/resource-grants.ts';
import type { NodeResources } from '../../model/cgroups/allocatable.ts';
import { nodeAllocatableGroup, type QOSDemand } from '../../model/cgroups/node-groups.ts';
import { type CgroupsHeld, cgroupOperations } from '../../model/operations/cgroup.ts';
import { type CgroupInfo, hostOperations } from '../../model/operations/host.ts';
import { nodeEvent } from '../../model/pods/pod-messages.ts';
import { nodeEvents } from '../../model/reasons/reasons.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import type { ContainerManagerInput, PodGroup, SetUpStep } from './policy.ts';
import { missingGroup, nameOf, orphansOf, resourcesOf } from './policy.ts';

export interface ContainerManagerContext extends ContainerManagerInput {
  readonly cgroups: CgroupInfo | null;
  readonly resources: NodeResources | null;
  readonly refusal: string;
  readonly steps: readonly SetUpStep[];
  readonly demand: QOSDemand;
  readonly found: readonly PodGroup[];
  /** Cgroups of pods that are gone. */
  readonly orphans: readonly string[];
  /** The cgroup of this process; empty while unknown. */
  readonly kubeletGroup: string;
  /** Exclusive resources of containers; `null` while unknown. */
  readonly held: ResourcesHeld | null;
  /** The content of its state files, by path. */
  readonly written: Readonly<Record<string, string>>;
  /** The state file that is being written. */
  readonly draft: StateFile | null;
}

type Event =
  | { readonly type: 'containerManager.start' }
  | { readonly type: 'qos.changed'; readonly demand: QOSDemand }
  | PodsKnown
  | CgroupsHeld
  | ResourcesHeld
  | Ended;

export const containerManagerSetup = setup({
  types: typed<{ input: ContainerManagerInput; context: ContainerManagerContext; events: Event }>(),
  actors: {
    ...pick(
      hostOperations,
      'host.cgroups',
      'host.fileSystem',
      'host.tuneKernel',
      'host.readCheckpoints',
      'host.writeCheckpoint',
    ),
    ...pick(
      cgroupOperations,
      'cgroup.missing',
      'cgroup.ensure',
      'cgroup.update',
      'cgroup.hold',
      'cgroup.own',
      'cgroup.gather',
      'cgroup.listPods',
      'cgroup.destroy',
    ),
  },
  guards: {
    isRefused: ({ context }) => context.refusal !== '',
    countsStorage: ({ context }) => context.storagePath !== '',
    checksRoot: ({ context }) => context.usesCgroups && context.cgroupsPerQOS,
    usesCgroups: ({ context }) => context.usesCgroups,
    isSetUp: ({ context }) => context.steps.length === 0,
    movesSystemToRoot: ({ context }) => context.steps.length === 0 && context.systemCgroups === '/',
    isMade: ({ context }) => context.steps[0]?.isMade === true,
    hasOrphans: ({ context }) => context.orphans.length > 0,
    hasLevels: ({ context }) => context.usesCgroups && context.cgroupsPerQOS,
    gathersSystem: ({ context }) => context.usesCgroups && context.systemCgroups !== '',
    hasStaleFile: ({ context }) => staleFile(context) !== undefined,
    gathersKubelet: ({ context }) => context.usesCgroups && context.kubeletCgroups !== '',
  },
});

/** The resources are known before anything is set up. */
export const resourcesIn = ({ resources }: ContainerManagerContext): NodeResources =>
  required(resources, 'the resources of the node');
export const cgroupsIn = ({ cgroups }: ContainerManagerContext): CgroupInfo =>
  required(cgroups, 'the cgroups of the machine');

/** An outdated state file. A runtime without cgroups has no exclusive resources, and no file. */
function staleFile(context: ContainerManagerContext): StateFile | undefined {
  if (context.held === null || !context.usesCgroups) return undefined;
  return stateFiles(context, context.held).find(({ path, content }) => context.written[path] !== content);
}

const s = containerManagerSetup;

export const noteHoldings = s.assign(({ event }) => (event.type === 'resources.held' ? { held: event } : {}));

export const draftFile = s.assign(({ context }) => ({ draft: staleFile(context) ?? null }));

export const noteWritten = s.assign(({ context: { draft, written } }) =>
  draft === null ? {} : { written: { ...written, [draft.path]: draft.content }, draft: null },
);

/** Files of an earlier start must match, or the node does not start. */
export const checkStateFiles = s.assign(({ context, event }) => {
  const { contents } = outputOf<{ contents: readonly (string | null)[] }>(event);
  const found = stateFilePaths(context).flatMap((path, at) => {
    const content = contents[at];
    return content == null ? [] : [[path, content] as const];
  });
  return { refusal: stateFilesProblem(context, contents), written: Object.fromEntries(found) };
});

/** Exclusive resources in the files of an earlier start are sent to `allocation` before any pod asks. */
export const sendHandedOver = s.enqueueActions(({ context, event, enqueue }) => {
  const { contents } = outputOf<{ contents: readonly (string | null)[] }>(event);
  if (context.refusal !== '' || !hasBehavior(context, 'resourcesAsKubelet')) return;
  const message = handedOver(context, contents);
  if (message !== null) enqueue.sendTo(to('allocation'), message);
});

export const findOrphans = s.assign(({ context, event }) =>
  event.type === 'pods.known' ? { found: [], orphans: orphansOf(event.uids, context.found) } : {},
);

export const refuse = (text: (message: string) => string) =>
  s.assign({ refusal: ({ event }) => text(errorOf(event).message) });

export const computeResources = s.assign(({ context, event }) => {
  const storage = outputOf<{ capacityBytes: string } | undefined>(event)?.capacityBytes ?? null;
  const answer = resourcesOf(context, storage);
  return answer.error === undefined ? { resources: answer.value } : { refusal: answer.error };
});

type Args = ActionArgsOf<typeof s>;

export const noteDemand = s.assign(({ event }) => (event.type === 'qos.changed' ? { demand: event.demand } : {}));

/** Records whether limits are enforced, as an event of the node. */
function recordEvent({ context, enqueue }: Args, isSuccess: boolean, message: string): void {
  const text = isSuccess ? nodeEvents.limitsEnforced(message) : nodeEvents.limitsNotEnforced(message);
  enqueue.sendTo(to('eventRecorder'), nodeEvent(context.nodeName, text));
}

/** A cgroup is set up: records its event, and continues with the next one. */
export const stepDone = s.enqueueActions((args) => {
  const [step, ...steps] = args.context.steps;
  if (step && step.event !== '') recordEvent(args, true, step.event);
  args.enqueue.assign({ steps });
});

export const stepFailed = s.enqueueActions((args) => {
  const [step] = args.context.steps;
  const { code, message } = errorOf(args.event);
  const isAbsent = step?.isMade === false && code === 'ENOENT';
  const { version } = cgroupsIn(args.context);
  const why = isAbsent ? missingGroup(args.context, version, step.desired.path, message) : message;
  const refusal = `${step?.failure ?? ''}${why}`;
  if (step && step.event !== '') recordEvent(args, false, refusal);
  args.enqueue.assign({ refusal });
});

/** Failures of keeping the cgroups: each stream has its own event, to distinguish them. */
export const reportCgroupUpdate = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'cgroups.held') return;
  const { group, message } = event;
  if (group === 'pods') {
    const name = nameOf(context, nodeAllocatableGroup(context, resourcesIn(context)).path);
    const isUpdated = message === '';
    const failure = `Failed to update Node Allocatable Limits ${name}: ${message}`;
    recordEvent(args, isUpdated, isUpdated ? 'Updated Node Allocatable limit across pods' : failure);
  } else if (message !== '') {
    enqueue(line('error', [FAILURES[group] ?? group, { err: message }]));
  }
});

const FAILURES: Readonly<Record<string, string>> = {
  levels: 'Failed to update QoS cgroup configuration',
  kubelet: 'Failed to ensure process in container with oom score',
  system: 'Failed to ensure state',
};
