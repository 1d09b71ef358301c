/**
 * In-place resize: what was given is made so in the runtime and in the pod's cgroup, without a restart where the policy
 * of a container allows it. Part of the chart of `pod.ts`.
 *
 * Invariants: R1 the group of the pod has never less than its containers. R2 a step that fails is told and tried again;
 * nothing that runs is stopped for it. R3 what is half done survives the agent: `memory` knows what the running
 * instances have.
 */
import { now, type PlainError, to } from '../../../kernel/xstate.ts';
import { killMessages, podEvents } from '../../reasons.ts';
import { eventRecorded } from '../messages.ts';
import { factsOf, sandboxesOf } from '../runtime-facts.ts';
import { sandboxOverhead } from '../spec/resources.ts';
import { complain, failed } from './pod-actions.ts';
import { podGroup } from './pod-cgroup.ts';
import { type PodContext, refOf } from './pod-policy.ts';
import { lookNow, order, podSetup as s, settle } from './pod-setup.ts';
import { changesOf, memoryProblem, type ResizeStep, resizeSteps, resizeSummary } from './resize-policy.ts';

const isRunning = ({ runtime, containers }: PodContext, name: string): boolean =>
  factsOf(runtime, name)?.state === 'running' && containers[name]?.view.phase === 'running';

const DEFAULT_GRACE_SECONDS = 30;

const hasGroups = ({ node }: PodContext): boolean => node.makesPodCgroups === true;

/** Containers that begin anew are stopped; the others are told one after the other. */
const begin = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const { uid, pod, actuated, allocation, node } = context;
  if (pod === null || actuated === null || allocation === null) return;
  const changes = changesOf(pod, actuated).filter(({ name }) => isRunning(context, name));
  const steps = resizeSteps(pod, actuated, node, changes).filter(({ kind }) => kind !== 'group' || hasGroups(context));
  const anew = changes.filter(({ restarts }) => restarts).map(({ name }) => name);
  enqueue.sendTo(to('memory'), { type: 'memory.resized', uid, actuated });
  settle(
    enqueue,
    context,
    { resize: { target: allocation, steps, anew, error: context.resize?.error ?? '' } },
    now(args),
  );
  const graceSeconds = pod.spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
  for (const name of anew) {
    const message = killMessages.resizeRequiresRestart(name);
    order(enqueue, name, { type: 'container.stop', graceSeconds, message, after: 'restart' });
  }
});

const noteStep = s.assign({
  resize: ({ context }) => context.resize && { ...context.resize, steps: context.resize.steps.slice(1) },
});

const nextStep = ({ resize }: PodContext): ResizeStep | undefined => resize?.steps[0];
const isNext =
  (kind: ResizeStep['kind']) =>
  ({ context }: { readonly context: PodContext }): boolean =>
    nextStep(context)?.kind === kind;
/** Asked only where it is there. */
const stepOf = <Kind extends ResizeStep['kind']>(context: PodContext, kind: Kind) => {
  const step = nextStep(context);
  if (step?.kind !== kind) throw new Error(`the next step of the resize is not of kind ${kind}`);
  return step as Extract<ResizeStep, { kind: Kind }>;
};

/** Everything is as given but what begins anew; that is as given when it is created. */
const noteActuated = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const { resize, actuated } = context;
  if (resize === null || actuated === null) return;
  const { target, anew } = resize;
  const kept = Object.fromEntries(anew.flatMap((name) => (isActuated(context, name) ? [] : [[name, actuated[name]!]])));
  settle(enqueue, context, { actuated: { ...target, ...kept } }, now(args));
});

const isActuated = ({ actuated, resize }: PodContext, name: string): boolean =>
  JSON.stringify(actuated?.[name]) === JSON.stringify(resize?.target[name]);

const complete = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const { uid, pod } = context;
  enqueue.sendTo(to('memory'), { type: 'memory.resized', uid, actuated: null });
  if (pod !== null) {
    const text = podEvents.resizeCompleted(resizeSummary(pod));
    enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), text));
  }
  settle(enqueue, context, { resize: null }, now(args));
});

const noteProblem = (text: (event: unknown, context: PodContext) => string) =>
  s.enqueueActions((args) => {
    const { context, enqueue, event } = args;
    const { pod, resize } = context;
    const error = text(event, context);
    if (pod === null || resize === null) return;
    if (resize.error !== error) {
      const said = podEvents.resizeError(resizeSummary(pod, error));
      enqueue.sendTo(to('eventRecorder'), eventRecorded(refOf(context), said));
    }
    settle(enqueue, context, { resize: { ...resize, error } }, now(args));
  });

const fromCall = noteProblem((event) => (event as { error: PlainError }).error.message);
const problemOf = (event: unknown, { pod, node }: PodContext): string =>
  memoryProblem(podGroup(pod!, node), (event as { output: { bytes: string } }).output.bytes);

const failing = { target: 'failing', actions: [failed, fromCall, complain('Cannot resize the pod')] };

export const resizing = s.createStateConfig({
  initial: 'idle',
  states: {
    idle: { always: { guard: 'mustResize', target: 'beginning' } },
    beginning: {
      entry: begin,
      always: [{ guard: 'hasNoGroup', target: 'stepping' }, { target: 'measuring' }],
    },
    /** Waits to know how much memory the pod uses. */
    measuring: {
      invoke: {
        id: 'memoryUsage',
        src: 'cgroup.memoryUsage',
        input: ({ context }) => ({ path: podGroup(context.pod!, context.node).path }),
        onDone: [
          {
            guard: ({ context, event }) => problemOf(event, context) !== '',
            target: 'failing',
            actions: [failed, noteProblem(problemOf)],
          },
          { target: 'stepping' },
        ],
        onError: failing,
      },
    },
    /** One step after the other. */
    stepping: {
      always: [
        { guard: isNext('group'), target: 'holding' },
        { guard: isNext('sandbox'), target: 'sandbox' },
        { guard: isNext('container'), target: 'telling' },
        { target: 'settling', actions: noteActuated },
      ],
    },
    holding: {
      invoke: {
        id: 'holdGroup',
        src: 'cgroup.update',
        input: ({ context }) => ({
          ...podGroup(context.pod!, context.node),
          resources: stepOf(context, 'group').resources,
        }),
        onDone: { target: 'stepping', actions: noteStep },
        onError: failing,
      },
    },
    /** The runtime is told; whether it wants to know is its business. */
    sandbox: {
      invoke: {
        id: 'resizeSandbox',
        src: 'cri.updatePodSandboxResources',
        input: ({ context }) => ({
          podSandboxId: sandboxesOf(context.runtime)[0]?.id ?? '',
          overhead: sandboxOverhead(context.pod!, context.node),
          resources: stepOf(context, 'sandbox').resources,
        }),
        onDone: { target: 'stepping', actions: noteStep },
        onError: { target: 'stepping', actions: [noteStep, complain('The runtime did not take the pod’s resources')] },
      },
    },
    telling: {
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
    /** Waits for what begins anew; the runtime shows what became of the rest. */
    settling: {
      entry: lookNow,
      always: [
        { guard: 'isResizedAnew', target: 'beginning' },
        { guard: 'isResized', target: 'idle', actions: complete },
      ],
    },
    failing: {
      after: { wait: 'beginning' },
      always: { guard: ({ context }) => context.kill !== null, target: 'idle' },
    },
  },
});
