/**
 * Durations of the node's work for one pod: from the first request of its actors to the answer of the last one, and
 * from a change of its status to the API server's confirmation. Streams and waiting retries do not count.
 */
import { isMirrorPod } from '../../../../machines/model/api/pod.ts';
import type { ConfigMessage } from '../../../../machines/model/pods/source-messages.ts';
import { contextOf, type NodeRecord } from '../../../node-records.ts';
import {
  DEFAULT_BUCKETS,
  histogram,
  Instruments,
  MS_PER_SECOND,
  type Projection,
  podContextAt,
  podUidAt,
  type RecordContext,
} from '../instruments.ts';

const STATUS_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 30, 45, 60];
const STATUS_PATCH = /^kubelet\/status\/pod-[^/]+(?=\/patch$)/;

/** `kill`: of a pod that only the runtime has. */
type Work = 'create' | 'update' | 'sync' | 'terminated' | 'kill';

interface Busy {
  readonly sinceMs: number;
  readonly work: Work;
  requests: number;
}

export class PodWork extends Instruments implements Projection {
  readonly recordKinds = ['message', 'effect', 'result', 'cancel', 'end'] as const;
  readonly #busy = new Map<string, Busy>();
  /** The cause of a pod's next work; `sync` without an entry. */
  readonly #next = new Map<string, Work>();
  /** Uids of pods that this node rejected: as upstream, they have no worker. */
  readonly #refused = new Set<string>();
  /** By the address of a request, since when the status that it writes was pending. */
  readonly #unwritten = new Map<string, number>();
  readonly #durations = histogram(
    this.registry,
    'kubelet_pod_worker_duration_seconds',
    '[ALPHA] Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync',
    DEFAULT_BUCKETS,
    ['operation_type'],
  );
  readonly #statuses = histogram(
    this.registry,
    'kubelet_pod_status_sync_duration_seconds',
    '[ALPHA] Duration in seconds to sync a pod status update. Measures time from detection of a change to pod status until the API is successfully updated for that pod, even if multiple intevening changes to pod status occur.',
    STATUS_BUCKETS,
  );

  on(record: NodeRecord, { kernel, request }: RecordContext): void {
    if (record.k === 'message') {
      const { to, event } = record;
      if (to === 'kubelet/pods' && event.type === 'config.pods') this.#configured(event);
      else if (event.type === 'pod.kill') {
        this.#next.set(podUidAt(to), podContextAt(to, kernel)?.pod === null ? 'kill' : 'terminated');
      } else if (event.type === 'allocation.refused') this.#refused.add(event.uid);
      else if (event.type === 'status.removed') {
        this.#next.delete(event.uid);
        this.#refused.delete(event.uid);
      }
    } else if (record.k === 'effect') {
      this.#statusWritten(record.at, kernel);
      if (record.class !== 'stream') this.#begun(podUidAt(record.at), kernel.now);
    } else if ((record.k === 'result' || record.k === 'cancel') && request) {
      if (record.k === 'result' && !record.error) this.#statusTaken(request.address, kernel.now);
      this.#unwritten.delete(request.address);
      const busy = request.class === 'stream' ? undefined : this.#busy.get(podUidAt(request.address));
      if (busy) busy.requests -= 1;
    } else if (record.k === 'end') this.#rest(kernel.now);
  }

  #configured(message: ConfigMessage): void {
    if (message.op !== 'ADD' && message.op !== 'UPDATE') return;
    for (const pod of message.pods) {
      if (!isMirrorPod(pod)) this.#next.set(pod.metadata.uid, message.op === 'ADD' ? 'create' : 'update');
    }
  }

  #begun(uid: string, nowMs: number): void {
    if (uid === '' || this.#refused.has(uid)) return;
    const busy = this.#busy.get(uid) ?? { sinceMs: nowMs, work: this.#next.get(uid) ?? 'sync', requests: 0 };
    busy.requests += 1;
    this.#busy.set(uid, busy);
    this.#next.delete(uid);
  }

  /** At the end of a turn, ends the work of pods that have no open request. */
  #rest(nowMs: number): void {
    for (const [uid, { requests, sinceMs, work }] of this.#busy) {
      if (requests > 0) continue;
      this.#busy.delete(uid);
      this.#durations.observe({ operation_type: work }, (nowMs - sinceMs) / MS_PER_SECOND);
    }
  }

  #statusWritten(address: string, kernel: RecordContext['kernel']): void {
    const publisher = STATUS_PATCH.exec(address)?.[0];
    if (publisher === undefined) return;
    const context = contextOf<{ readonly sinceMs: number | null }>(kernel, publisher);
    this.#unwritten.set(address, context?.sinceMs ?? kernel.now);
  }

  #statusTaken(address: string, nowMs: number): void {
    const sinceMs = this.#unwritten.get(address);
    if (sinceMs !== undefined) this.#statuses.observe((nowMs - sinceMs) / MS_PER_SECOND);
  }
}
