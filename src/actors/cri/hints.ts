/**
 * The sources of hints that something changed: the runtime's container events, or containerd's own event service.
 *
 * A hint names an id and its expected outcome. It may be duplicated, late or lost, and is never trusted alone. The
 * stream is reopened with a jittered back-off until the signal aborts.
 *
 * A CRI event has the statuses of the whole pod. The status of the sandbox or container that the event is about is
 * trusted if it shows the announced outcome: the runtime reads this status after the change, and an ended instance
 * never runs again. The other statuses are not trusted: they may be older than events that arrived before.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { OperationError } from '../../kernel/json.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { ContainerEventResponse, ContainerEventType } from '../../machines/model/api/cri.ts';
import { POD_UID_LABEL } from '../../machines/model/spec/sandbox.ts';
import { TokenBucket } from '../token-bucket.ts';
import type { OnRuntimeActivity } from './activity.ts';
import { isMet, type Outcome } from './calls-in-progress.ts';
import { decodeEvent, type Envelope, type RuntimeClient, type StreamName } from './client.ts';
import { containerInstance, type Instance, sandboxInstance, statusesOf } from './relist.ts';

export interface Hint {
  /** The id of the sandbox or container. */
  readonly id: string;
  /** The pod, if the event names it. */
  readonly uid?: string;
  readonly outcome: Outcome;
  /** The state of the sandbox or container in the event, if it shows the outcome. */
  readonly instance?: Instance;
  /** The sandbox or container was just created. */
  readonly isNew?: boolean;
}

/** First delay after a stream broke. */
const MIN_BACKOFF_MS = 100;
/** Longest delay: the relist is frequent in the meantime. */
const MAX_BACKOFF_MS = 10_000;
/** A runtime without event stream is asked again after this time: it may have been upgraded. */
const UNSUPPORTED_RETRY_MS = 300_000;
/** A stream that lasted this long resets the back-off. */
const GOOD_STREAM_MS = 10_000;
/** containerd keeps the containers of CRI in this namespace. */
const CRI_NAMESPACE = 'k8s.io';

const OUTCOME_OF_TOPIC: Readonly<Record<string, Outcome>> = {
  '/tasks/start': 'running',
  '/tasks/exit': 'exited',
  '/tasks/delete': 'exited',
  '/tasks/oom': 'changed',
  '/containers/delete': 'gone',
};
const OUTCOME_OF_EVENT: Readonly<Record<ContainerEventType, Outcome>> = {
  CONTAINER_CREATED_EVENT: 'changed',
  CONTAINER_STARTED_EVENT: 'running',
  CONTAINER_STOPPED_EVENT: 'exited',
  CONTAINER_DELETED_EVENT: 'gone',
};
const FILTERS = Object.keys(OUTCOME_OF_TOPIC).map((topic) => `namespace=="${CRI_NAMESPACE}",topic=="${topic}"`);

export function hintOfContainerEvent(event: ContainerEventResponse): Hint {
  const uid = event.pod_sandbox_status?.labels[POD_UID_LABEL];
  const outcome = OUTCOME_OF_EVENT[event.container_event_type] ?? 'changed';
  const instance = instanceIn(event, outcome);
  return {
    id: event.container_id,
    outcome,
    ...(uid === undefined ? {} : { uid }),
    ...(instance === undefined ? {} : { instance }),
    ...(event.container_event_type === 'CONTAINER_CREATED_EVENT' ? { isNew: true } : {}),
  };
}

function instanceIn(event: ContainerEventResponse, outcome: Outcome): Instance | undefined {
  if (outcome !== 'running' && outcome !== 'exited') return undefined;
  const { container_id: id, pod_sandbox_status: sandbox, containers_statuses: containers } = event;
  const ofContainer = containers.find((status) => status.id === id);
  const instance = sandbox?.id === id ? sandboxInstance(sandbox) : ofContainer && containerInstance(ofContainer);
  return instance && instance.uid !== '' && showsOutcome(outcome, instance) ? instance : undefined;
}

export function showsOutcome(outcome: Outcome, instance: Instance): boolean {
  const { kind, status } = instance;
  if (kind === 'sandbox' && outcome === 'running') return status.state === 'SANDBOX_READY';
  return isMet(outcome, status.id, statusesOf([instance]));
}

/** The hint in a containerd event; `null` for other events (an exec that ended, events of later releases). */
export function hintOfEnvelope({ namespace, topic, event }: Envelope): Hint | null {
  const outcome = OUTCOME_OF_TOPIC[topic];
  if (!outcome || namespace !== CRI_NAMESPACE || !event) return null;
  const payload = decodeEvent(event.type_url, event.value);
  const container = payload?.['container_id'];
  const eventId = payload?.['id'];
  const id = typeof container === 'string' ? container : eventId;
  if (typeof id !== 'string' || id === '') return null;
  const isExec =
    typeof container === 'string' && typeof eventId === 'string' && eventId !== '' && eventId !== container;
  return isExec ? null : { id, outcome };
}

export interface HintListener {
  onHint(hint: Hint): void;
  /** Called when the stream broke or was refused: later events are lost. `reason` is absent if that is no fault. */
  onLost(reason?: string): void;
  /** Called when a stream was requested; only its events show that it works. */
  onOpen(): void;
  readonly onSeen?: OnRuntimeActivity;
}

/**
 * Events of one stream that are accepted at once: a hundred pods that start cause a thousand. A runtime that sends more
 * keeps the agent busy without news; its stream is closed and opened again, and the relist is frequent meanwhile.
 */
const EVENTS_MAX = 20_000;
/** By which the number grows again. */
const EVENTS_PER_SECOND = 2_000;
const TOO_MANY = `more than ${EVENTS_MAX} events at once: the stream is closed, and opened again later`;

/** Ends a stream of the runtime with an error when it sends too many events, or an unreadable one. */
const bounded =
  (client: RuntimeClient): RuntimeClient['stream'] =>
  async (name, request, onMessage, signal) => {
    const refused = new AbortController();
    const bucket = new TokenBucket(EVENTS_PER_SECOND, EVENTS_MAX);
    const take: typeof onMessage = (message) => {
      if (refused.signal.aborted) return;
      try {
        if (!bucket.takeNow()) throw new OperationError(TOO_MANY, { code: 'RESOURCE_EXHAUSTED' });
        onMessage(message);
      } catch (error) {
        refused.abort(error);
      }
    };
    await client.stream(name, request, take, AbortSignal.any([signal, refused.signal]));
    if (refused.signal.aborted) throw refused.signal.reason;
  };

const NANOS_PER_MILLI = 1_000_000n;

async function listenToEvents(client: RuntimeClient, to: HintListener, signal: AbortSignal): Promise<void> {
  const onEvent = (event: ContainerEventResponse) => {
    const createdAtMs = Number(BigInt(event.created_at) / NANOS_PER_MILLI);
    if (createdAtMs > 0) to.onSeen?.({ kind: 'heard', lateMs: Math.max(0, Date.now() - createdAtMs) });
    to.onHint(hintOfContainerEvent(event));
  };
  to.onSeen?.({ kind: 'listening' });
  try {
    await bounded(client)('GetContainerEvents', {}, onEvent, signal);
  } catch (error) {
    to.onSeen?.({ kind: 'lost' });
    throw error;
  }
}

async function listen(client: RuntimeClient, source: StreamName, to: HintListener, signal: AbortSignal): Promise<void> {
  to.onOpen();
  if (source === 'GetContainerEvents') return await listenToEvents(client, to, signal);
  const onEnvelope = (envelope: Envelope) => {
    const hint = hintOfEnvelope(envelope);
    if (hint) to.onHint(hint);
  };
  await bounded(client)(source, { filters: FILTERS }, onEnvelope, signal);
}

/** Keeps one source open until the signal aborts or the runtime reports that it lacks the source. */
async function keepListening(client: RuntimeClient, source: StreamName, to: HintListener, signal: AbortSignal) {
  let backoffMs = MIN_BACKOFF_MS;
  while (!signal.aborted) {
    const openedAt = performance.now();
    try {
      await listen(client, source, to, signal);
      to.onLost();
    } catch (error) {
      if (error instanceof OperationError && error.code === 'UNIMPLEMENTED') return to.onLost();
      to.onLost(`${source}: ${messageOf(error)}`);
    }
    backoffMs = performance.now() - openedAt > GOOD_STREAM_MS ? MIN_BACKOFF_MS : backoffMs * 2;
    await pause(Math.min(backoffMs, MAX_BACKOFF_MS) * (0.5 + Math.random() / 2), signal);
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { signal }).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });

/** Listens to the best source of the runtime; resolves when the signal aborts. */
export async function listenForHints(client: RuntimeClient, to: HintListener, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await keepListening(client, 'GetContainerEvents', to, signal);
    if (!signal.aborted) await keepListening(client, 'Subscribe', to, signal);
    if (!signal.aborted) await pause(UNSUPPORTED_RETRY_MS, signal);
  }
}
