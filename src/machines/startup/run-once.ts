/**
 * Run once: the pods of one listing of the manifests, each until it is ready or has ended.
 *
 * Replaces the sync loop, under its name, in a node started by `statelet run-once`.
 *
 * Decides: the result of each pod, and when all have one.
 * Owns: the pods of the first complete list of manifests, and the verdict on each.
 * Hears: `config.*` of `podConfig`, `runtime.*` of `pleg`, `status.changed` of `status`, `pods.started`.
 * Asks: `podConfig` and `pleg` to publish everything again when it begins, or when `pods` lost it. Both publish to it
 *   instead of to `pods`; it forwards messages about the pods of the first list.
 * Sends the supervisor: `runOnce.finished`, once.
 * Invariants:
 *   O1 a pod that is not in the first list is not run. O2 other pods are neither touched nor ended.
 *   O3 it ends with a verdict on every pod, or when upstream's retries would be over.
 * Seeds: S112, S131. Upstream, until 1.23: pkg/kubelet/runonce.go.
 */

import { line, now, sendParent, setup, to, typed } from '../../kernel/xstate.ts';
import type { Pod, PodRef, PodStatus } from '../model/api/pod.ts';
import type { PodsMessage, RuntimeMessage, StatusMessage } from '../model/pods/pod-messages.ts';
import type { ConfigMessage, ObjectsReported, SourceReady, SourcesMessage } from '../model/pods/source-messages.ts';
import type { ContainerResult, PodResult, RunOnceFinished } from './context/types.ts';

/** Upstream's number of syncs of a pod after the first. */
export const RUN_ONCE_RETRIES = 10;
/** Upstream's wait before the second sync; it doubles with each later one. */
const RETRY_DELAY_MS = 1_000;
/** The largest number: more would be a wait of weeks. */
export const RUN_ONCE_RETRIES_MAX = 20;
/** Upstream's wait for the first list if no source is configured, so that none can arrive. */
const NO_SOURCE_MS = 1_000;
/** The wait with a configured source: a busy disk may take long. */
const SOURCE_MS = 30_000;

/** The total waiting time of all of upstream's syncs, in milliseconds. */
export const deadlineOf = (retries: number): number => RETRY_DELAY_MS * (2 ** retries - 1);

export interface RunOnceInput {
  readonly staticPodPath: string;
  readonly retries: number;
}

interface Awaited extends PodRef {
  /** With `Always` a pod runs until it is ready; otherwise until it ends. */
  readonly restartPolicy: string;
  readonly status: PodStatus | null;
  readonly result: PodResult | null;
}

interface Context extends RunOnceInput {
  readonly pods: Readonly<Record<string, Awaited>>;
  readonly sinceMs: number;
}

type Event =
  | SourcesMessage
  | ConfigMessage
  | ObjectsReported
  | SourceReady
  | RuntimeMessage
  | PodsMessage
  | StatusMessage;

/** The result of a pod with this status; `null` while undecided. */
export function verdictOf(restartPolicy: string, status: PodStatus): 'Ready' | 'Succeeded' | 'Failed' | null {
  if (status.phase === 'Succeeded' || status.phase === 'Failed') return status.phase;
  const isReady = status.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') ?? false;
  return restartPolicy === 'Always' && isReady ? 'Ready' : null;
}

const containersOf = (status: PodStatus | null): ContainerResult[] =>
  [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])].map(
    ({ name, state, restartCount }) => ({
      name,
      state: state?.running ? 'running' : state?.terminated ? 'terminated' : 'waiting',
      reason: state?.terminated?.reason ?? state?.waiting?.reason ?? '',
      exitCode: state?.terminated?.exitCode ?? null,
      restarts: restartCount,
    }),
  );

/** Upstream's notation of a pod in a sentence. */
const formatPod = ({ name, namespace, uid }: PodRef): string => `${name}_${namespace}(${uid})`;

const failedOf = (results: readonly PodResult[]): PodResult[] =>
  results.filter(({ result }) => result === 'Failed' || result === 'TimedOut');

const resultsOf = ({ pods }: Context): PodResult[] => Object.values(pods).flatMap(({ result }) => result ?? []);

/** Why a pod failed: the message of its status, or the failed container. */
function failureOf(status: PodStatus): string {
  if (status.message) return `${status.reason ? `${status.reason}: ` : ''}${status.message}`;
  const failed = containersOf(status).filter(({ exitCode }) => exitCode !== null && exitCode !== 0);
  return failed.map(({ name, exitCode, reason }) => `container ${name}: ${reason}, exit code ${exitCode}`).join('; ');
}

const { createMachine, enqueueActions } = setup({
  types: typed<{ input: RunOnceInput; context: Context; events: Event }>(),
  guards: {
    hasSource: ({ context }) => context.staticPodPath !== '',
    isOver: ({ context }) => Object.values(context.pods).every(({ result }) => result !== null),
    isAwaited: ({ context, event }) => {
      const uid = event.type === 'runtime.podChanged' ? event.status.uid : 'uid' in event ? event.uid : '';
      return context.pods[uid] !== undefined;
    },
  },
  delays: {
    sourceWait: ({ context }) => (context.staticPodPath === '' ? NO_SOURCE_MS : SOURCE_MS),
    deadline: ({ context }) => deadlineOf(context.retries),
  },
});

const askSources = enqueueActions(({ enqueue }) => enqueue.sendTo(to('podConfig'), { type: 'sources.wanted' }));

const forward = enqueueActions(({ event, enqueue }) => enqueue.sendTo(to('pods'), event));

const awaited = (pod: Pod): Awaited => ({
  uid: pod.metadata.uid,
  namespace: pod.metadata.namespace,
  name: pod.metadata.name,
  restartPolicy: pod.spec.restartPolicy ?? 'Always',
  status: null,
  result: null,
});

const handlePods = enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'config.pods' || event.op === 'REMOVE') return;
  const known = event.pods.map((pod) => [pod.metadata.uid, context.pods[pod.metadata.uid] ?? awaited(pod)] as const);
  enqueue.assign({ pods: { ...context.pods, ...Object.fromEntries(known) } });
  enqueue.sendTo(to('pods'), event);
});

const begin = enqueueActions((args) => {
  const { context, enqueue } = args;
  const numPods = Object.keys(context.pods).length;
  enqueue.assign({ sinceMs: now(args) });
  enqueue(line('info', ['Processing manifest with pods', { numPods }]));
  enqueue.sendTo(to('pleg'), { type: 'runtime.wanted' });
  // Pods from before a crash of this actor publish no change by themselves.
  enqueue.sendTo(to('pods'), { type: 'status.wanted' });
});

const decideResult = enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'status.changed') return;
  const before = context.pods[event.pod.uid];
  if (!before || before.result !== null) return;
  const { status } = event;
  const verdict = verdictOf(before.restartPolicy, status);
  const message = verdict === 'Failed' ? failureOf(status) : '';
  const result = verdict === null ? null : resultOf(before, verdict, message, status, now(args) - context.sinceMs);
  enqueue.assign({ pods: { ...context.pods, [before.uid]: { ...before, status, result } } });
  if (result) logResult(enqueue, result);
});

function resultOf(
  { uid, namespace, name }: PodRef,
  result: PodResult['result'],
  message: string,
  status: PodStatus | null,
  tookMs: number,
): PodResult {
  return { uid, namespace, name, result, message, containers: containersOf(status), tookMs };
}

type Enqueue = Parameters<Parameters<typeof enqueueActions>[0]>[0]['enqueue'];

function logResult(enqueue: Enqueue, { namespace, name, result, message, containers }: PodResult): void {
  const pod = `${namespace}/${name}`;
  if (result === 'Ready' || result === 'Succeeded') return enqueue(line('info', ['Started pod', { pod, result }]));
  const containerName = containers.filter(({ state }) => state !== 'running').map((container) => container.name);
  const fields = { pod, containerName: containerName.join(','), err: message };
  enqueue(line('error', ['Unable to start pod because container failed', fields]));
}

const giveUp = enqueueActions((args) => {
  const { context, enqueue } = args;
  const completed = Object.values(context.pods).map((pod) => {
    if (pod.result) return pod;
    const message = `timeout error: pod "${formatPod(pod)}" containers not running after ${context.retries} retries`;
    const result = resultOf(pod, 'TimedOut', message, pod.status, now(args) - context.sinceMs);
    logResult(enqueue, result);
    return { ...pod, result };
  });
  enqueue.assign({ pods: Object.fromEntries(completed.map((pod) => [pod.uid, pod])) });
});

function finished(context: Context): RunOnceFinished {
  const results = resultsOf(context);
  const failed = failedOf(results).map(formatPod);
  const error = failed.length === 0 ? '' : `error running pods: [${failed.join(' ')}]`;
  return { type: 'runOnce.finished', results, error };
}

const withoutManifest = (context: Context): RunOnceFinished => ({
  type: 'runOnce.finished',
  results: [],
  error: `no pod manifest update after ${(context.staticPodPath === '' ? NO_SOURCE_MS : SOURCE_MS) / 1_000}s`,
});

export const runOnceMachine = createMachine({
  id: 'runOnce',
  context: ({ input }) => ({ ...input, pods: {}, sinceMs: 0 }),
  initial: 'gathering',
  states: {
    gathering: {
      meta: { waitsFor: 'the first complete list of manifests' },
      entry: askSources,
      on: {
        'sources.started': { actions: askSources },
        'config.objects': { actions: forward },
        'config.pods': { actions: handlePods },
        'config.sourceReady': { guard: 'hasSource', target: 'running', actions: begin },
      },
      after: { sourceWait: 'withoutManifest' },
    },
    running: {
      meta: { waitsFor: 'each pod to be ready or to end' },
      always: { guard: 'isOver', target: 'finished' },
      on: {
        'config.objects': { actions: forward },
        'runtime.podChanged': { guard: 'isAwaited', actions: forward },
        'runtime.sandboxChanged': { guard: 'isAwaited', actions: forward },
        'runtime.containerChanged': { guard: 'isAwaited', actions: forward },
        'runtime.podRemoved': { guard: 'isAwaited', actions: forward },
        'runtime.podStale': { guard: 'isAwaited', actions: forward },
        'runtime.relisted': { actions: forward },
        'status.changed': { actions: decideResult },
        'pods.started': 'gathering',
      },
      after: { deadline: { target: 'finished', actions: giveUp } },
    },
    finished: {
      entry: [
        line('info', ({ context }) => ['Finished processing pods', { numPods: Object.keys(context.pods).length }]),
        sendParent(({ context }) => finished(context)),
      ],
    },
    withoutManifest: { entry: sendParent(({ context }) => withoutManifest(context)) },
  },
});
