/** Results and durations of probes, in a registry of their own for `/metrics/probes`. */
import { Registry } from 'prom-client';
import type { PodContext } from '../../../../machines/charts/pods/pod/pod-context.ts';
import type { NodeRecord } from '../../../node-records.ts';
import { counter, histogram } from '../instruments.ts';
import { DEFAULT_BUCKETS, MS_PER_SECOND, type Projection } from '../projection.ts';

const LABELS = ['container', 'namespace', 'pod', 'probe_type'] as const;
type Labels = Readonly<Record<(typeof LABELS)[number], string>>;

const RESULTS: Readonly<Record<string, string>> = { success: 'successful', failure: 'failed' };

interface Attempt {
  readonly container: string;
  readonly kind: string;
  readonly result: string;
  readonly durationMs: number;
}

/** Invariant: series of a pod are removed when the pod has ended or is gone. */
export class ProbeWork implements Projection {
  readonly recordKinds = ['message'] as const;
  readonly registry = new Registry();
  readonly #total = counter(
    this.registry,
    'prober_probe_total',
    '[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.',
    [...LABELS, 'pod_uid', 'result'],
  );
  readonly #duration = histogram(
    this.registry,
    'prober_probe_duration_seconds',
    '[ALPHA] Duration in seconds for a probe response.',
    DEFAULT_BUCKETS,
    LABELS,
  );
  /** By pod uid, the probes that were counted. */
  readonly #counted = new Map<string, Map<string, Labels>>();

  on(record: NodeRecord): void {
    if (record.k !== 'message' || record.to !== 'kubelet/status') return;
    const { event } = record;
    if (event.type === 'status.removed') this.#forget(event.uid);
    if (event.type !== 'status.changed') return;
    const { phase } = event.status;
    if (phase === 'Succeeded' || phase === 'Failed') this.#forget(event.pod.uid);
  }

  /**
   * Counts an attempt. As upstream, the duration of a failed attempt is not observed, and an attempt without a result
   * does not count.
   */
  attempted({ namespace, name, uid }: PodContext, { container, kind, result, durationMs }: Attempt): void {
    if (RESULTS[result] === undefined) return;
    const labels = { container, namespace, pod: name, probe_type: kind.charAt(0).toUpperCase() + kind.slice(1) };
    const counted = this.#counted.get(uid) ?? new Map<string, Labels>();
    this.#counted.set(uid, counted.set(`${container}/${kind}`, labels));
    this.#total.inc({ ...labels, pod_uid: uid, result: RESULTS[result] });
    if (result !== 'failure') this.#duration.observe(labels, durationMs / MS_PER_SECOND);
  }

  #forget(uid: string): void {
    for (const labels of this.#counted.get(uid)?.values() ?? []) {
      for (const result of Object.values(RESULTS)) this.#total.remove({ ...labels, pod_uid: uid, result });
      this.#duration.remove(labels);
    }
    this.#counted.delete(uid);
  }
}
