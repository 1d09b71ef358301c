/**
 * One series of equal events in the API server (`event-<key>` below `eventRecorder`): created once, then counted.
 *
 * Decides: POST or PATCH, and when an event that cannot be written is given up.
 * Owns: the newest count of the series until it is written.
 * Hears: `event.counted` when the same event occurred again.
 * Asks: `kube.create`, `kube.patch` of events, with the event client's own limits.
 * Invariants:
 *   E1 one call at a time; events during a call cause one more call, with the newest count.
 *   E2 an event that the server rejects is not sent again; one without an answer is sent twelve times, ten seconds
 *      apart.
 */

import type { Json } from '../../../../kernel/json.ts';
import { type Ended, errorOf, line, type PlainError, pick, random, setup, typed } from '../../../../kernel/xstate.ts';
import type { ObjectReference } from '../../../model/api/pod.ts';
import { kubeOperations } from '../../../model/operations/kube.ts';

/** As upstream's recorder. */
const TRIES_MAX = 12;
const RETRY_MS = 10_000;

export interface EventSeries {
  readonly name: string;
  readonly ref: ObjectReference;
  readonly eventType: string;
  readonly reason: string;
  readonly message: string;
  readonly firstTimestamp: string;
  readonly lastTimestamp: string;
  readonly count: number;
  /** The event combines different events: upstream then omits their reporter. */
  readonly isCombined?: boolean;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface EventCounted {
  readonly type: 'event.counted';
  readonly series: EventSeries;
}

export interface EventWriterInput {
  readonly nodeName: string;
  readonly series: EventSeries;
}

interface Context extends EventWriterInput {
  /** The count in the API server; 0 before the event exists there. */
  readonly written: number;
  /** The count that is being written. */
  readonly writing: number;
  readonly tries: number;
}

const s = setup({
  types: typed<{ input: EventWriterInput; context: Context; events: EventCounted | Ended }>(),
  actors: pick(kubeOperations, 'kube.create', 'kube.patch'),
  guards: {
    isWritten: ({ context }) => context.written >= context.series.count,
    isNew: ({ context }) => context.written === 0,
    isGone: ({ event }) => errorOf(event).code === 'NotFound',
    isSettled: ({ event }) => isSettled(errorOf(event)),
    mayRetry: ({ context, event }) => errorOf(event).retriable && context.tries < TRIES_MAX,
  },
  /** The first pause is shortened randomly, so that events that failed together are not retried together. */
  delays: { retry: (args) => (args.context.tries === 1 ? RETRY_MS * random(args) : RETRY_MS) },
});

/** The event is written, or a retry cannot help. */
const isSettled = ({ code, message }: PlainError): boolean =>
  code === 'AlreadyExists' || (code === 'Forbidden' && message.includes('because it is being terminated'));

const NAMESPACE_OF_NODES = 'default';

const eventTarget = ({ series: { ref } }: Context) => ({
  client: 'event' as const,
  apiVersion: 'v1',
  resource: 'events',
  namespace: ref.namespace || NAMESPACE_OF_NODES,
});

function eventObject({ nodeName, series }: Context): Json {
  const { ref, name, eventType, reason, message, firstTimestamp, lastTimestamp, count, isCombined = false } = series;
  const { annotations } = series;
  return {
    kind: 'Event',
    apiVersion: 'v1',
    metadata: { name, namespace: ref.namespace || NAMESPACE_OF_NODES, ...(annotations ? { annotations } : {}) },
    involvedObject: {
      kind: ref.kind,
      ...(ref.namespace === '' ? {} : { namespace: ref.namespace }),
      name: ref.name,
      ...(ref.uid === '' ? {} : { uid: ref.uid }),
      apiVersion: 'v1',
      ...(ref.resourceVersion === undefined ? {} : { resourceVersion: ref.resourceVersion }),
      ...(ref.fieldPath === undefined ? {} : { fieldPath: ref.fieldPath }),
    },
    reason,
    message,
    source: { component: 'kubelet', host: nodeName },
    firstTimestamp,
    lastTimestamp,
    count,
    type: eventType,
    eventTime: null,
    reportingComponent: isCombined ? '' : 'kubelet',
    reportingInstance: isCombined ? '' : nodeName,
  };
}

const begin = s.assign({ writing: ({ context }) => context.series.count });
const noteWritten = s.assign({ written: ({ context }) => context.writing, tries: 0 });
const countTry = s.assign({ tries: ({ context }) => context.tries + 1 });

const logRejected = line<Context, EventCounted | Ended, undefined, EventCounted | Ended>(
  'error',
  ({ context: { series }, event }) => [
    'Server rejected event (will not retry!)',
    { err: errorOf(event).message, reason: series.reason, object: `${series.ref.namespace}/${series.ref.name}` },
  ],
);

const failing = [
  { guard: 'isSettled', target: 'given', actions: noteWritten },
  { guard: 'mayRetry', target: 'backingOff', actions: countTry },
  { target: 'given', actions: [noteWritten, logRejected] },
] as const;

export const eventWriterMachine = s.createMachine({
  id: 'eventWriter',
  context: ({ input }) => ({
    ...input,
    written: input.series.count > 1 ? input.series.count - 1 : 0,
    writing: 0,
    tries: 0,
  }),
  initial: 'deciding',
  on: {
    'event.counted': { actions: s.assign(({ context, event }) => ({ series: seriesIn(event) ?? context.series })) },
  },
  states: {
    deciding: {
      always: [{ guard: 'isWritten', target: 'given' }, { guard: 'isNew', target: 'creating' }, { target: 'counting' }],
    },
    creating: {
      entry: begin,
      invoke: {
        id: 'create',
        src: 'kube.create',
        input: ({ context }) => ({ ...eventTarget(context), body: eventObject(context) }),
        onDone: { target: 'deciding', actions: noteWritten },
        onError: failing,
      },
    },
    counting: {
      entry: begin,
      invoke: {
        id: 'count',
        src: 'kube.patch',
        input: ({ context }) => ({
          ...eventTarget(context),
          name: context.series.name,
          patchType: 'application/strategic-merge-patch+json',
          body: {
            count: context.series.count,
            lastTimestamp: context.series.lastTimestamp,
            message: context.series.message,
          },
        }),
        onDone: { target: 'deciding', actions: noteWritten },
        onError: [{ guard: 'isGone', target: 'creating' }, ...failing],
      },
    },
    backingOff: { after: { retry: 'deciding' } },
    given: { type: 'final' },
  },
});

function seriesIn(event: EventCounted | Ended): EventSeries | null {
  return event.type === 'event.counted' ? event.series : null;
}
