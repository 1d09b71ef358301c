/**
 * In-place resize: applies granted resources in the runtime and in the pod's cgroup, without a restart where the policy
 * of a container allows it. Part of the chart of `pod.ts`.
 *
 * Invariants: R1 the pod's cgroup never has less than its containers. R2 a failed step is reported and retried; it
 * stops no instance, and no container is stopped twice for one resize. R3 an unfinished resize survives the agent:
 * `softState` has the resources of the running instances. R4 no container gets less memory than it uses.
 */
import { errorOf, now, type OutputOf, outputOf, required, to } from '../../../../kernel/xstate.ts';
import type { LinuxContainerResources } from '../../../model/api/cri.ts';
import { DEFAULT_GRACE_SECONDS } from '../../../model/api/pod.ts';
import { podGroup } from '../../../model/cgroups/pod-cgroup.ts';
import type { Operations } from '../../../model/operations/index.ts';
import { eventRecorded } from '../../../model/pods/pod-messages.ts';
import { killMessages, podEvents } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { sandboxOverhead } from '../../../model/spec/resources.ts';
import { factsOf, isAlive, sandboxesOf } from '../../../model/status/runtime-facts.ts';
import { quote } from '../../../model/values/go-text.ts';
import { pickKeys, valueIn } from '../../../model/values/tables.ts';
import { pauseMs, SYNC_BACK_OFF } from '../../../model/values/time.ts';
import { retryDelay } from '../container/container-policy.ts';
import { logFailure, noteFailureFor } from './pod-actions.ts';
import type { PodContext } from './pod-context.ts';
import { observeNow } from './pod-observation.ts';
import { refOf } from './pod-policy.ts';
import { applyChange, podSetup as s, sendToContainer } from './pod-setup.ts';
import type { ContainerChange, MemoryDecreases, ResizeStep } from './resize-policy.ts';
import { changesOf, memoryDecreases, memoryProblem, resizeSteps, resizeSummary } from './resize-policy.ts';

const isRunning = ({ runtime, containers }: PodContext, name: string): boolean =>
  factsOf(runtime, name)?.state === 'running' && valueIn(containers, name)?.view.phase === 'running';

const hasGroups = ({ node }: PodContext): boolean => node.makesPodCgroups === true;

/** The pod with its granted resources, and the resources that its instances have. Both have to be known. */
function subjectOf({ uid, pod, actuated }: PodContext) {
  if (pod === null || actuated === null) throw new Error(`pod ${uid} is resized without a specification or resources`);
  return { pod, actuated };
}

function allChanges(context: PodContext): readonly ContainerChange[] {
  const { pod, actuated } = subjectOf(context);
  return changesOf(pod, actuated);
}

const changes = (context: PodContext): readonly ContainerChange[] =>
  allChanges(context).filter(({ name }) => isRunning(context, name));

/**
 * The container starts with its resources from before the resize: only a running instance can be updated, or stopped to
 * be restarted.
 */
function isStarting({ runtime, containers }: PodContext, name: string): boolean {
  const state = factsOf(runtime, name)?.state;
  const { view, begins } = valueIn(containers, name) ?? {};
  if (view?.phase === 'running') return state !== 'running';
  if (view?.phase === 'stopping' || view?.phase === 'ended') return false;
  return view?.phase === 'starting' || begins === true || state === 'created' || state === 'running';
}

const noneStarts = ({ context }: { readonly context: PodContext }): boolean =>
  !allChanges(context).some(({ name }) => isStarting(context, name));

const showResize = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const { error } = context.resize ?? { error: '' };
  const resize = {
    target: required(context.allocation, 'the allocation to resize to'),
    steps: [],
    anew: stoppedByEarlierAttempt(context),
    error,
  };
  enqueue.sendTo(to('softState'), { type: 'softState.resized', uid: context.uid, actuated: context.actuated });
  applyChange(enqueue, context, { resize }, now(args));
});

/** Containers whose policy requires it are stopped to be restarted; the others are updated one after the other. */
const begin = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const { pod, actuated, allocation, node } = context;
  if (pod === null || actuated === null || allocation === null) return;
  const running = changes(context);
  const steps = resizeSteps(pod, actuated, node, running).filter(({ kind }) => kind !== 'group' || hasGroups(context));
  const reported = stoppedByEarlierAttempt(context);
  const toStop = running.filter(({ name, restarts }) => restarts && !reported.includes(name)).map(({ name }) => name);
  const anew = [...reported, ...toStop];
  const stopped = toStop.map((name) => factsOf(context.runtime, name)?.id ?? '');
  const { error } = context.resize ?? { error: '' };
  applyChange(enqueue, context, { resize: { target: allocation, steps, anew, stopped, error } }, now(args));
  const graceSeconds = pod.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
  for (const name of toStop) {
    const message = killMessages.resizeRequiresRestart(name);
    sendToContainer(enqueue, name, { type: 'container.stop', graceSeconds, message, after: 'restart' });
  }
});

/** Containers that an earlier attempt of this resize stopped, with an event for each. */
const stoppedByEarlierAttempt = ({ resize, allocation }: PodContext): readonly string[] =>
  resize !== null && JSON.stringify(resize.target) === JSON.stringify(allocation) ? resize.anew : [];

function decreases(context: PodContext): MemoryDecreases {
  const { pod, actuated } = subjectOf(context);
  return memoryDecreases(pod, actuated, context.node, changes(context));
}

const takesNoMemory = ({ context }: { readonly context: PodContext }): boolean => {
  const { podBytes, containers } = decreases(context);
  return !hasGroups(context) || (podBytes === null && containers.length === 0);
};

/** An instance that has stopped uses no memory. */
const allHaveStopped = ({ context: { resize, runtime } }: { readonly context: PodContext }): boolean =>
  (runtime?.containers ?? []).every((instance) => !isAlive(instance) || !resize?.stopped?.includes(instance.id));

const containerIds = (context: PodContext): Readonly<Record<string, string>> =>
  Object.fromEntries(decreases(context).containers.map(({ name }) => [name, factsOf(context.runtime, name)?.id ?? '']));

const noteStep = s.assign({
  resize: ({ context }) => context.resize && { ...context.resize, steps: context.resize.steps.slice(1) },
});

const nextStep = ({ resize }: PodContext): ResizeStep | undefined => resize?.steps[0];
const isNext =
  (kind: ResizeStep['kind']) =>
  ({ context }: { readonly context: PodContext }): boolean =>
    nextStep(context)?.kind === kind;
/** The step is for an instance that is stopping or has ended: the next one starts with the granted resources. */
const isNeedless = ({ context }: { readonly context: PodContext }): boolean => {
  const step = nextStep(context);
  return step?.kind === 'container' && !isRunning(context, step.name);
};
const isOfKind = <Kind extends ResizeStep['kind']>(
  step: ResizeStep | undefined,
  kind: Kind,
): step is Extract<ResizeStep, { kind: Kind }> => step?.kind === kind;

/** The next step if it is of this kind: states that need it are entered only then. */
const stepOf = <Kind extends ResizeStep['kind']>(context: PodContext, kind: Kind) => {
  const step = nextStep(context);
  if (!isOfKind(step, kind)) throw new Error(`the next step of the resize is not of kind ${kind}`);
  return step;
};

/** All containers have the granted resources, except restarted ones, which get them at creation. */
const noteActuated = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const { resize, actuated } = context;
  if (resize === null || actuated === null) return;
  const { target, anew } = resize;
  const isKept = (name: string): boolean => anew.includes(name) && !isActuated(context, name);
  const kept = pickKeys(actuated, (name) => isKept(name));
  applyChange(enqueue, context, { actuated: { ...target, ...kept } }, now(args));
});

const isActuated = ({ actuated, resize }: PodContext, name: string): boolean =>
  JSON.stringify(valueIn(actuated, name)) === JSON.stringify(valueIn(resize?.target, name));

const complete = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const { uid, pod } = context;
  enqueue.sendTo(to('softState'), { type: 'softState.resized', uid, actuated: null });
  if (pod !== null) {
    const text = podEvents.resizeCompleted(resizeSummary(pod));
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
  }
  applyChange(enqueue, context, { resize: null }, now(args));
});

const noteProblem = (text: (event: unknown, context: PodContext) => string) =>
  s.enqueueActions((args) => {
    const { context, enqueue, event } = args;
    const { pod, resize } = context;
    const error = text(event, context);
    if (pod === null || resize === null) return;
    if (resize.error !== error) {
      const recorded = podEvents.resizeError(resizeSummary(pod, error));
      enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), recorded));
    }
    applyChange(enqueue, context, { resize: { ...resize, error } }, now(args));
  });

const noteFailedCall = noteProblem((event) => errorOf(event).message);
function problemOf(event: unknown, context: PodContext): string {
  const { bytes, containers } = outputOf<OutputOf<Operations['cgroup.memoryUsage']>>(event);
  const used = Object.entries(containerIds(context)).flatMap(([name, id]) =>
    containers[id] === undefined ? [] : [[name, containers[id]] as const],
  );
  return memoryProblem(decreases(context), { podBytes: bytes, containers: Object.fromEntries(used) });
}

const noteFailure = noteFailureFor(({ node, failures }, chance) =>
  hasBehavior(node, 'retriesAsKubelet') ? Math.round(pauseMs(SYNC_BACK_OFF, 0, chance)) : retryDelay(failures, chance),
);
const failed = [noteFailure, noteFailedCall, logFailure('Cannot resize the pod')];
const failing = { target: 'failing', actions: failed };

/** A runtime that does not know the request does not refuse the resize. */
const isRefused = ({ context, event }: { readonly context: PodContext; readonly event: unknown }): boolean => {
  const { code, message } = errorOf(event);
  const isUnknown = code === 'UNIMPLEMENTED' || (code === 'UNKNOWN' && message.includes('not implemented'));
  return stepOf(context, 'sandbox').of !== undefined && !isUnknown;
};
const noteRefusal = noteProblem((event, context) => {
  const call = `updatePodSandboxResources failed for sanboxID ${quote(sandboxId(context))}: ${errorOf(event).message}`;
  const resource = stepOf(context, 'sandbox').of;
  return `failed to notify runtime for UpdatePodSandboxResources (resource=${resource}); resize rejected: ${call}`;
});

const hasPreviousLimits = ({ context }: { readonly context: PodContext }): boolean =>
  stepOf(context, 'group').before !== undefined;

const sandboxId = ({ runtime }: PodContext): string => sandboxesOf(runtime)[0]?.id ?? '';
const sandboxUpdate = (context: PodContext, resources: LinuxContainerResources) => ({
  podSandboxId: sandboxId(context),
  overhead: sandboxOverhead(subjectOf(context).pod, context.node),
  resources,
});

export const resizing = s.createStateConfig({
  initial: 'idle',
  states: {
    idle: { always: { guard: 'mustResize', target: 'awaiting' } },
    /** Waits until each container of the resize has either started or ended. */
    awaiting: {
      entry: showResize,
      always: [
        { guard: 'isKilled', target: 'idle' },
        { guard: noneStarts, target: 'beginning' },
      ],
    },
    beginning: {
      entry: begin,
      always: [{ guard: takesNoMemory, target: 'stepping' }, { target: 'stopping' }],
    },
    /** Waits until the containers to restart have stopped: they use memory until then. */
    stopping: { always: { guard: allHaveStopped, target: 'measuring' } },
    /** Waits for the pod's memory usage. */
    measuring: {
      invoke: {
        id: 'memoryUsage',
        src: 'cgroup.memoryUsage',
        input: ({ context }) => ({
          path: podGroup(subjectOf(context).pod, context.node).path,
          containers: Object.values(containerIds(context)),
        }),
        onDone: [
          {
            guard: ({ context, event }) => problemOf(event, context) !== '',
            target: 'failing',
            actions: [noteFailure, noteProblem(problemOf)],
          },
          { target: 'stepping' },
        ],
        onError: failing,
      },
    },
    /** One step after the other. */
    stepping: {
      always: [
        { guard: 'isKilled', target: 'idle' },
        { guard: isNext('group'), target: 'holding' },
        { guard: isNext('sandbox'), target: 'sandbox' },
        { guard: isNeedless, target: 'stepping', actions: noteStep, reenter: true },
        { guard: isNext('container'), target: 'reporting' },
        { target: 'settling', actions: noteActuated },
      ],
    },
    holding: {
      invoke: {
        id: 'holdGroup',
        src: 'cgroup.update',
        input: ({ context }) => ({
          ...podGroup(subjectOf(context).pod, context.node),
          resources: stepOf(context, 'group').resources,
        }),
        onDone: { target: 'stepping', actions: noteStep },
        onError: [{ guard: hasPreviousLimits, target: 'revoking', actions: failed }, failing],
      },
    },
    /** Tells the runtime the resources from before the failed step. */
    revoking: {
      invoke: {
        id: 'revoke',
        src: 'cri.updatePodSandboxResources',
        input: ({ context }) => sandboxUpdate(context, stepOf(context, 'group').before ?? {}),
        onDone: 'failing',
        onError: { target: 'failing', actions: logFailure('The runtime did not take back the pod’s resources') },
      },
    },
    /** Updates the sandbox; a runtime may refuse. */
    sandbox: {
      invoke: {
        id: 'resizeSandbox',
        src: 'cri.updatePodSandboxResources',
        input: ({ context }) => sandboxUpdate(context, stepOf(context, 'sandbox').resources),
        onDone: { target: 'stepping', actions: noteStep },
        onError: [
          {
            guard: isRefused,
            target: 'failing',
            actions: [noteFailure, noteRefusal, logFailure('Cannot resize the pod')],
          },
          {
            target: 'stepping',
            actions: [noteStep, logFailure('The runtime did not take the pod’s resources')],
          },
        ],
      },
    },
    reporting: {
      invoke: {
        id: 'resizeContainer',
        src: 'cri.updateContainerResources',
        input: ({ context }) => {
          const { name, resources } = stepOf(context, 'container');
          return { containerId: factsOf(context.runtime, name)?.id ?? '', linux: resources };
        },
        onDone: { target: 'stepping', actions: noteStep },
        onError: failing,
      },
    },
    /** Waits for the restarted containers; an observation shows the state of the others. */
    settling: {
      entry: observeNow,
      always: [
        { guard: 'isKilled', target: 'idle' },
        { guard: 'isResizeChanged', target: 'awaiting' },
        { guard: 'isResized', target: 'idle', actions: complete },
      ],
    },
    failing: {
      after: { wait: 'awaiting' },
      always: [
        { guard: 'isKilled', target: 'idle' },
        { guard: 'isResizeChanged', target: 'awaiting' },
      ],
    },
  },
});
