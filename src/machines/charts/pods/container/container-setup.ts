/** Types, guards and actions of a container's machine. The chart is in `container.ts`. */

import type { Ended, SecretHandle } from '../../../../kernel/xstate.ts';
import {
  errorOf,
  now,
  outputOf,
  pick,
  random,
  sendParent,
  sendTo,
  setup,
  to,
  typed,
} from '../../../../kernel/xstate.ts';
import type { ContainerConfig, PodSandboxConfig } from '../../../model/api/cri.ts';
import { operations } from '../../../model/operations/index.ts';
import type { ImageReport } from '../../../model/pods/image-messages.ts';
import type { ContainerReport, ContainerWanted, Hook, SoftStateMessage } from '../../../model/pods/pod-messages.ts';
import { eventRecorded } from '../../../model/pods/pod-messages.ts';
import { type EventText, killMessages, startErrorText } from '../../../model/reasons/reasons.ts';
import { hasBehavior } from '../../../model/settings/behaviors.ts';
import { type ContainerFacts, factsOfInstance } from '../../../model/status/runtime-facts.ts';
import {
  afterCall,
  type ContainerContext,
  type ContainerInput,
  type ContainerStop,
  hasExited,
  hasUnreadMessage,
  isAliveInstance,
  isAsWanted,
  isBetweenInstances,
  isCreated,
  isLost,
  isStillCreated,
  mayRestart,
  nextInstance as nextInstanceOf,
  type Report,
  refOf,
  refusalDelay,
  remainingGrace,
  requestOf,
  requestsRestartAll,
  resetForRestartAll,
  retryDelay,
  retryStart as retryStartOf,
  runsInOrder,
  shownIn,
  startsAtOnce,
  viewOf,
  wasRefused,
  withOtherResources,
  withoutBackoff,
} from './container-policy.ts';

/** How long an abandoned start may still be in progress in the runtime. */
const GIVEN_UP_MS = 10_000;

/** Messages of the pod to its container. */
export type ContainerOrder =
  | { readonly type: 'container.observed'; readonly facts: ContainerFacts | null }
  | { readonly type: 'container.configured'; readonly wanted: ContainerWanted }
  | {
      readonly type: 'container.permitted';
      readonly podSandboxId: string;
      readonly podIP: string;
      readonly config: ContainerConfig;
      readonly sandboxConfig: PodSandboxConfig;
      readonly secrets: readonly SecretHandle[];
      readonly written: readonly SecretHandle[];
      readonly words?: readonly SecretHandle[];
    }
  | { readonly type: 'container.refused'; readonly reason: string; readonly message: string }
  | ({ readonly type: 'container.stop' } & ContainerStop)
  | { readonly type: 'container.turn' }
  /** The maximum of back-offs changed. */
  | { readonly type: 'container.limited'; readonly maxBackoffMs: number }
  /** Its logs have the numbers below this one, and the runtime does not know it. */
  | { readonly type: 'container.counted'; readonly restartCount: number }
  /** Its pod was granted other resources for it. */
  | { readonly type: 'container.resized' }
  /** An object or another container of its pod changed: an impossible configuration may be possible now. */
  | { readonly type: 'container.retry' }
  | { readonly type: 'images.started' };

const sleepMs = (hook: Hook | null): number => (hook?.kind === 'sleep' ? hook.seconds * 1_000 : 0);

export const containerSetup = setup({
  types: typed<{
    input: ContainerInput;
    context: ContainerContext;
    events: ContainerOrder | ImageReport | Ended;
  }>(),
  actors: pick(
    operations,
    'cri.createContainer',
    'cri.startContainer',
    'cri.stopContainer',
    'cri.execSync',
    'probe.httpHook',
    'host.terminationMessage',
  ),
  guards: {
    isDormant: ({ context }) => context.dormant && !isAliveInstance(context),
    isAsWanted: ({ context }) => isAsWanted(context),
    isAlive: ({ context }) => isAliveInstance(context),
    /** The start was abandoned before the runtime processed it: a runtime only ends instances that it has started. */
    neverRan: ({ context }) => isStillCreated(context),
    isCreated: ({ context }) => isCreated(context),
    isBetween: ({ context }) => isBetweenInstances(context),
    /** Another instance was decided before, and no order to stop came since. */
    isBetweenInstances: ({ context }) => isBetweenInstances(context) && context.stop === null,
    hasUnread: ({ context }) => isBetweenInstances(context) && hasUnreadMessage(context),
    isUnknown: ({ context }) => context.facts?.state === 'unknown',
    hasBecomeUnknown: ({ context }) => context.facts?.state === 'unknown' && context.facts.id === context.id,
    isOver: ({ context }) => context.facts?.state === 'exited',
    hasExited: ({ context }) => hasExited(context),
    isLost: ({ context, event }) => event.type === 'container.observed' && isLost(context, event.facts),
    /** The instance runs, but its definition is no longer the wanted one. */
    isReplaced: ({ context }) => isAliveInstance(context) && context.facts?.id === context.id && !isAsWanted(context),
    startsAtOnce: ({ context }) => startsAtOnce(context),
    requestsRestartAll: ({ context }) => requestsRestartAll(context),
    isReset: ({ event }) => event.type === 'container.stop' && event.after === 'reset',
    /** All containers restart, or the instance belongs to a replaced sandbox. */
    mustRestartFromScratch: ({ context, event }) =>
      event.type === 'container.stop' && (event.after === 'reset' || (event.after === 'restart' && isCreated(context))),
    hasPostStart: ({ context }) => context.wanted.postStart !== null,
    hasPreStop: ({ context }) => context.wanted.preStop !== null && (context.stop?.graceSeconds ?? 0) > 0,
    postStartExecs: ({ context }) => context.wanted.postStart?.kind === 'exec',
    postStartGets: ({ context }) => context.wanted.postStart?.kind === 'httpGet',
    postStartSleeps: ({ context }) => context.wanted.postStart?.kind === 'sleep',
    preStopExecs: ({ context }) => context.wanted.preStop?.kind === 'exec',
    preStopGets: ({ context }) => context.wanted.preStop?.kind === 'httpGet',
    /** The hook has used up the grace period. */
    isOverdue: ({ context }) => context.stop?.graceSeconds === 0,
    preStopSleeps: ({ context }) => context.wanted.preStop?.kind === 'sleep',
    mayRestart: ({ context }) => mayRestart(context),
    mayStartAgain: ({ context }) => context.facts?.cutOff === true && mayRestart(context),
    mustStopAgain: ({ context, event }) =>
      event.type === 'container.observed' && event.facts?.state === 'running' && context.stop?.after === 'end',
    /** The sandbox is replaced, so containers that run in order run again; or all containers restart. */
    mustRunAgain: ({ context, event }) =>
      event.type === 'container.stop' &&
      (event.after === 'reset' || (event.after === 'restart' && runsInOrder(context))),
    /** A regular container that ended by itself while its sandbox is replaced follows its restart policy. */
    mustEndOrRunAgain: ({ context, event }) =>
      event.type === 'container.stop' && (['end', 'reset'].includes(event.after) || runsInOrder(context)),
    /** The grace of an order to stop can only become shorter. */
    isShorter: ({ context, event }) =>
      event.type === 'container.stop' && event.graceSeconds < (context.stop?.graceSeconds ?? 0),
    wasRefused: ({ context }) => wasRefused(context),
    isRedefined: ({ context, event }) =>
      event.type === 'container.configured' && event.wanted.hash !== context.wanted.hash,
    /** The pod ends, and waits for this container. */
    delaysEnd: ({ context }) => context.stop?.after === 'end' && hasBehavior(context, 'podLifeAsKubelet'),
    mayStopNow: ({ context }) => context.stop?.awaitsTurn !== true,
    hasUnreadMessage: ({ context }) => hasUnreadMessage(context),
  },
  delays: {
    givenUp: (args) => Math.max(0, args.context.knownAtMs + GIVEN_UP_MS - now(args)),
    wait: (args) => Math.max(0, args.context.untilMs - now(args)),
    postStart: ({ context }) => sleepMs(context.wanted.postStart),
    preStop: ({ context }) => Math.min(sleepMs(context.wanted.preStop), (context.stop?.graceSeconds ?? 0) * 1_000),
    grace: ({ context }) => (context.stop?.graceSeconds ?? 0) * 1_000,
  },
  actions: {
    report: sendParent(
      ({ context }, { phase, inspect = false, seen }: Report): ContainerReport => ({
        type: 'container.changed',
        name: context.name,
        view: viewOf(context, phase),
        inspect,
        ...(seen === undefined ? {} : { seen }),
      }),
    ),
    logUnseen: sendParent({ type: 'container.unseen' } satisfies ContainerReport),
    askTurn: sendParent(
      ({ context }): ContainerReport => ({ type: 'container.wanted', name: context.name, request: requestOf(context) }),
    ),
    askImage: sendParent(
      ({ context }): ContainerReport => ({
        type: 'container.imageWanted',
        name: context.name,
        image: context.wanted.image,
        policy: context.wanted.imagePolicy,
        ref: refOf(context),
      }),
    ),
    record: sendTo(to('eventRecorder'), ({ context }, text: EventText) => eventRecorded(refOf(context), text)),
    rememberStart: sendTo(
      to('softState'),
      ({ context: { uid, name, restartCount } }): SoftStateMessage => ({
        type: 'softState.begun',
        key: `${uid}/${name}`,
        restartCount,
      }),
    ),
    remember: sendTo(
      to('softState'),
      ({ context }): SoftStateMessage => ({
        type: 'softState.noted',
        key: `${context.uid}/${context.name}`,
        container: {
          restartCount: context.restartCount,
          backoffMs: context.backoffMs ?? 0,
          backoffUntilMs: context.untilMs,
        },
      }),
    ),
  },
});

const s = containerSetup;

export const observe = s.assign({
  facts: ({ context, event }) => (event.type === 'container.observed' ? event.facts : context.facts),
});

/** Stores the instance that the answer to a call shows; the end of an instance is never undone. */
export const updateFromAnswer = s.assign({
  facts: ({ context: { facts }, event }) => {
    const shown = shownIn(event);
    if (shown === null || (facts?.id === shown.id && facts.state === 'exited')) return facts;
    return factsOfInstance(shown);
  },
});

/** Stores the instance that the runtime shows. An unknown instance, whose reply was lost, is adopted. */
export const updateInstance = s.assign((args) => {
  const { context, event } = args;
  const facts = event.type === 'container.observed' ? event.facts : context.facts;
  if (facts === null) return {};
  const { id, restartCount } = facts;
  return { facts, id, restartCount, reason: '', message: '', failures: 0, knownAtMs: now(args) };
});

export const noteStart = s.assign({ knownAtMs: (args) => now(args) });

export const configure = s.assign({
  wanted: ({ context, event }) => (event.type === 'container.configured' ? event.wanted : context.wanted),
});

export const noteMaxBackoff = s.assign({
  maxBackoffMs: ({ context, event }) =>
    event.type === 'container.limited' ? event.maxBackoffMs : context.maxBackoffMs,
});

export const noteStop = s.assign({
  stop: ({ context, event }) =>
    event.type === 'container.stop'
      ? {
          graceSeconds: event.graceSeconds,
          message: event.message,
          after: event.after,
          awaitsTurn: event.awaitsTurn ?? context.stop?.awaitsTurn ?? false,
        }
      : context.stop,
});

/** The containers that stop first have stopped. */
export const noteTurnToStop = s.assign({ stop: ({ context: { stop } }) => stop && { ...stop, awaitsTurn: false } });

/** The container already stops soon enough: only the action after the stop changes. */
export const noteAfter = s.assign({
  stop: ({ context, event }) =>
    event.type === 'container.stop' && context.stop ? { ...context.stop, after: event.after } : context.stop,
});

/** A step towards the next instance failed: records the reason and the wait. */
export const noteFailure = (reason: string) =>
  s.assign((args) => {
    const error = errorOf(args.event);
    return {
      reason,
      message: startErrorText(error.message),
      failures: args.context.failures + 1,
      untilMs: now(args) + retryDelay(args.context.failures, random(args)),
    };
  });

export const noteRefusal = s.assign((args) => {
  const { event, context } = args;
  if (event.type !== 'container.refused') return {};
  const untilMs = now(args) + refusalDelay(context, random(args));
  return { reason: event.reason, message: event.message, failures: context.failures + 1, untilMs };
});

export const noteImageFailure = s.assign(({ event, ...args }) =>
  event.type === 'image.failed'
    ? { reason: event.reason, message: event.message, untilMs: now(args) + event.retryMs }
    : {},
);

export const noteImage = s.assign(({ event }) =>
  event.type === 'image.ready' ? { image: event.image, reason: '', message: '' } : {},
);

/** Records that the image exists already, at the time when the container uses it. */
export const logImage = s.enqueueActions(({ context: { image }, enqueue }) => {
  if (image?.event) enqueue({ type: 'record', params: image.event });
});

export const noteMessage = s.assign(({ context, event }) => {
  const { message } = outputOf<{ message: string }>(event);
  return { ended: { id: context.facts?.id ?? '', message } };
});

export const resetBackoff = s.assign(({ context }) => withoutBackoff(context));

export const noteCount = s.assign({
  restartCount: ({ context: { facts, restartCount }, event }) =>
    event.type === 'container.counted' && facts === null ? Math.max(restartCount, event.restartCount) : restartCount,
});

/** `startsNow`: the next start is decided and does not wait. */
export const noteResources = (startsNow: boolean) => s.assign(({ context }) => withOtherResources(context, startsNow));

export const restartFromScratch = s.assign(({ context }) => resetForRestartAll(context));

export const nextInstance = s.assign((args) => nextInstanceOf(args.context, now(args)));

export const retryStart = s.assign((args) => retryStartOf(args.context, now(args)));

export const stopToReplace = s.assign(({ context }) => ({
  stop: {
    graceSeconds: context.wanted.graceSeconds,
    message: killMessages.definitionChanged(context.name, context.kind === 'sidecar'),
    after: 'restart' as const,
  },
}));

export const stopUnknown = s.assign(({ context }) => ({
  id: context.facts?.id ?? '',
  stop: {
    graceSeconds: context.wanted.graceSeconds,
    message: killMessages.unknownState(runsInOrder(context)),
    after: 'restart' as const,
  },
}));

/** Reports a container that was stopped for good as ended; one with another instance to come is still restarting. */
export const reportStopped = s.enqueueActions(({ context, event, enqueue }) => {
  const isSeen = hasExited(context) && shownIn(event) === null;
  const phase = context.stop?.after === 'end' ? 'ended' : 'stopping';
  enqueue({ type: 'report', params: { phase, ...(isSeen ? {} : afterCall({ event })) } });
});

export const notePodIP = s.assign({
  podIP: ({ context, event }) => (event.type === 'container.permitted' ? event.podIP : context.podIP),
});

/** The start of a hook, or of the wait for its turn to stop. */
export const beginWait = s.assign({ hookBeganAtMs: (args) => now(args) });

/** Subtracts the time of the hook, or of the wait, from the grace period. */
export const endWait = s.assign((args) => {
  const { stop, hookBeganAtMs } = args.context;
  if (!stop) return {};
  return { stop: { ...stop, graceSeconds: remainingGrace(stop.graceSeconds, now(args) - hookBeganAtMs) } };
});
