/**
 * The event recorder: writes events about pods and the node as log lines and, on a node with an API server, as Event
 * objects (`kubectl describe`).
 *
 * Decides: which events are combined, counted or dropped (`event-correlator.ts`).
 * Owns: small counters by object, the writers that run.
 * Hears: `event.recorded` of every actor.
 * Asks: nothing; its writers do (`event-writer.ts`).
 * Invariants:
 *   R1 an object gets at most 25 events of one type at once, then one every five minutes.
 *   R2 equal events are one with a count; similar ones within ten minutes become `(combined from similar events)`.
 *   R3 an API server that does not answer delays no actor; beyond {@link WRITERS_MAX} events are log lines only.
 */

import type { Ended } from '../../../../kernel/xstate.ts';
import { type AnyActorRef, line, now, setup, typed } from '../../../../kernel/xstate.ts';
import type { EventRecorded } from '../../../model/pods/event-messages.ts';
import { rfc3339 } from '../../../model/values/time.ts';
import { type Correlation, correlate, nameOf, nothingRecorded } from './event-correlator.ts';
import { type EventSeries, eventWriterMachine } from './event-writer.ts';

/** Events that may wait for the API server; as many as upstream's queue holds. */
const WRITERS_MAX = 1_000;

export interface EventRecorderInput {
  readonly nodeName: string;
  /** There is an API server. */
  readonly publishes: boolean;
  /** Tokens are counted for each type of event: behavior `eventsOfEachType`. */
  readonly ofEachType: boolean;
  /** Events carry their annotations: behavior `evictionAsKubelet`. */
  readonly annotates: boolean;
}

interface Context extends Correlation, EventRecorderInput {
  /** Keys of the series that are being written. */
  readonly writing: readonly string[];
}

const s = setup({
  types: typed<{ input: EventRecorderInput; context: Context; events: EventRecorded | Ended }>(),
  actors: { writer: eventWriterMachine },
});

type Enqueue = Parameters<Parameters<typeof s.enqueueActions>[0]>[0]['enqueue'];

const handleEvent = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'event.recorded') return;
  const nowMs = now(args);
  const correlated = correlate(context, event, nowMs, context.ofEachType);
  const { correlation, key, isSpam, count, firstMs, serial, message, isCombined } = correlated;
  enqueue.assign(correlation);
  if (isSpam) return;
  const { ref, eventType, reason } = event;
  const fields = {
    object: ref.namespace === '' ? ref.name : `${ref.namespace}/${ref.name}`,
    kind: ref.kind,
    ...(ref.fieldPath === undefined ? {} : { fieldPath: ref.fieldPath }),
    type: eventType,
    reason,
    message,
    ...(count > 1 ? { count } : {}),
  };
  enqueue(line('info', ['Event occurred', fields]));
  if (!context.publishes) return;
  const [firstTimestamp, lastTimestamp] = [rfc3339(firstMs), rfc3339(nowMs)];
  const name = nameOf(ref.name, firstMs, serial);
  const series = { name, ref, eventType, reason, message, firstTimestamp, lastTimestamp, count };
  const annotations = context.annotates && event.annotations ? { annotations: event.annotations } : {};
  write(enqueue, context, key, isCombined ? { ...series, isCombined } : { ...series, ...annotations });
});

function write(enqueue: Enqueue, context: Context, key: string, series: EventSeries): void {
  const { writing, nodeName } = context;
  if (writing.includes(key)) {
    enqueue.sendTo<AnyActorRef>(idOf(key), { type: 'event.counted', series });
  } else if (writing.length < WRITERS_MAX) {
    enqueue.spawnChild('writer', { id: idOf(key), input: { nodeName, series } });
    enqueue.assign({ writing: [...writing, key] });
  } else {
    enqueue(
      line('warn', ['Unable to record event: too many wait for the API server, dropped', { reason: series.reason }]),
    );
  }
}

const idOf = (key: string): string => `event-${key}`;

/** A writer has finished, or crashed. */
const reap = s.enqueueActions(({ context, event, enqueue }) => {
  const key = event.type.replace(/^xstate\.(done|error)\.actor\.event-/, '');
  enqueue.stopChild(idOf(key));
  enqueue.assign({ writing: context.writing.filter((each) => each !== key) });
});

export const eventRecorderMachine = s.createMachine({
  id: 'eventRecorder',
  context: ({ input }) => ({
    ...nothingRecorded,
    ...input,
    writing: [],
  }),
  on: {
    'event.recorded': { actions: handleEvent },
    'xstate.done.actor.*': { actions: reap },
    'xstate.error.actor.*': { actions: reap },
  },
});
