/**
 * The sources of hints that something changed: the runtime's container events, or containerd's own event service.
 *
 * A hint names an id and what should have become of it. It is never the truth, may come twice, late or not at all; the
 * watcher only relists. The stream is kept open with a jittered back-off for as long as the signal lasts.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { OperationError } from '../../kernel/json.ts';
import type { ContainerEventType } from '../../machines/model/api/cri.ts';
import { type ContainerEvent, decodeEvent, type Envelope, type RuntimeClient, type StreamName } from './client.ts';
import type { Outcome } from './expectations.ts';
import { POD_UID_LABEL } from './relist.ts';
import type { OnRuntime } from './seen.ts';

export interface Hint {
  /** Of a sandbox or a container. */
  readonly id: string;
  /** Where the event names its pod. */
  readonly uid?: string;
  readonly outcome: Outcome;
}

/** First wait after a stream broke. */
const MIN_BACKOFF_MS = 100;
/** Longest wait: the relist is fast meanwhile. */
const MAX_BACKOFF_MS = 10_000;
/** A runtime that has no event stream is called again after this time: it may have been upgraded. */
const UNSUPPORTED_RETRY_MS = 300_000;
/** A stream that lived this long was good: the back-off starts anew. */
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
/** As for containerd's own events, that something was made is no hint: the call that starts it or removes it gives the next. */
const OUTCOME_OF_EVENT: Readonly<Record<ContainerEventType, Outcome | null>> = {
  CONTAINER_CREATED_EVENT: null,
  CONTAINER_STARTED_EVENT: 'running',
  CONTAINER_STOPPED_EVENT: 'exited',
  CONTAINER_DELETED_EVENT: 'gone',
};
const FILTERS = Object.keys(OUTCOME_OF_TOPIC).map((topic) => `namespace=="${CRI_NAMESPACE}",topic=="${topic}"`);

/** The hint in an event of CRI; `null` for what is none. */
export function hintOfContainerEvent(event: ContainerEvent): Hint | null {
  const { container_id: id, container_event_type: type } = event;
  const outcome = type in OUTCOME_OF_EVENT ? OUTCOME_OF_EVENT[type] : 'changed';
  const uid = event.pod_sandbox_status?.labels[POD_UID_LABEL];
  return outcome === null ? null : { id, outcome, ...(uid === undefined ? {} : { uid }) };
}

/** The hint in an event of containerd; `null` for what is none (an exec that ended, an event of a later release). */
export function hintOfEnvelope({ namespace, topic, event }: Envelope): Hint | null {
  const outcome = OUTCOME_OF_TOPIC[topic];
  if (!outcome || namespace !== CRI_NAMESPACE || !event) return null;
  const payload = decodeEvent(event.type_url, event.value);
  const container = payload?.['container_id'];
  const own = payload?.['id'];
  const id = typeof container === 'string' ? container : own;
  if (typeof id !== 'string' || id === '') return null;
  const isExec = typeof container === 'string' && typeof own === 'string' && own !== '' && own !== container;
  return isExec ? null : { id, outcome };
}

export interface HintListener {
  onHint(hint: Hint): void;
  /** The stream broke or was refused; what happens meanwhile is lost. `reason` is absent where that is no fault. */
  onLost(reason?: string): void;
  /** A stream was requested. Whether it works shows in what it delivers. */
  onOpen(): void;
  readonly onSeen?: OnRuntime;
}

const NANOS_PER_MILLI = 1_000_000n;

async function listenToEvents(client: RuntimeClient, to: HintListener, signal: AbortSignal): Promise<void> {
  const onEvent = (event: ContainerEvent) => {
    const createdAtMs = Number(BigInt(event.created_at) / NANOS_PER_MILLI);
    if (createdAtMs > 0) to.onSeen?.({ kind: 'heard', lateMs: Math.max(0, Date.now() - createdAtMs) });
    const hint = hintOfContainerEvent(event);
    if (hint) to.onHint(hint);
  };
  to.onSeen?.({ kind: 'listening' });
  try {
    await client.stream('GetContainerEvents', {}, onEvent, signal);
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
  await client.stream(source, { filters: FILTERS }, onEnvelope, signal);
}

/** Keeps one source open until the signal ends or the runtime says that it does not have it. */
async function keepListening(client: RuntimeClient, source: StreamName, to: HintListener, signal: AbortSignal) {
  let backoffMs = MIN_BACKOFF_MS;
  while (!signal.aborted) {
    const openedAt = performance.now();
    try {
      await listen(client, source, to, signal);
      to.onLost();
    } catch (error) {
      if (error instanceof OperationError && error.code === 'UNIMPLEMENTED') return to.onLost();
      to.onLost(`${source}: ${error instanceof Error ? error.message : String(error)}`);
    }
    backoffMs = performance.now() - openedAt > GOOD_STREAM_MS ? MIN_BACKOFF_MS : backoffMs * 2;
    await pause(Math.min(backoffMs, MAX_BACKOFF_MS) * (0.5 + Math.random() / 2), signal);
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { signal }).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });

/** Listens to the best source that the runtime has; resolves when the signal ends. */
export async function listenForHints(client: RuntimeClient, to: HintListener, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await keepListening(client, 'GetContainerEvents', to, signal);
    if (!signal.aborted) await keepListening(client, 'Subscribe', to, signal);
    if (!signal.aborted) await pause(UNSUPPORTED_RETRY_MS, signal);
  }
}
