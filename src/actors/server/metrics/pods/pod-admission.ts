/** Pods that this node refused, each once, and those that had to go for others. */
import type { Counter, Registry } from 'prom-client';
import type { NodeRecord } from '../../../node-records.ts';
import { counter } from '../instruments.ts';
import { isPodActor, type Projection } from '../projection.ts';

/** What upstream names; every other resource of which there is not enough is an extended one. */
const RESOURCES = ['OutOfcpu', 'OutOfmemory', 'OutOfephemeral-storage', 'OutOfpods'];

export class PodAdmission implements Projection {
  readonly hears = ['message'] as const;
  readonly #refused = new Set<string>();
  readonly #rejections: Counter<'reason'>;
  readonly #preemptions: Counter<'preemption_signal'>;

  constructor(registry: Registry) {
    this.#rejections = counter(
      registry,
      'kubelet_admission_rejections_total',
      '[ALPHA] Cumulative number pod admission rejections by the Kubelet.',
      ['reason'],
    );
    this.#preemptions = counter(
      registry,
      'kubelet_preemptions',
      '[ALPHA] Cumulative number of pod preemptions by preemption resource',
      ['preemption_signal'],
    );
  }

  on(record: NodeRecord): void {
    if (record.k !== 'message') return;
    const { to, event } = record;
    if (event.type === 'allocation.refused' && isPodActor(to)) {
      const { uid, rejection } = event;
      if (this.#refused.has(uid)) return;
      this.#refused.add(uid);
      this.#rejections.inc({ reason: reasonOf(rejection.reason) });
    } else if (event.type === 'pods.kill' && to === 'kubelet/pods') {
      const { shortOf } = event;
      if (shortOf !== undefined) this.#preemptions.inc({ preemption_signal: shortOf });
    } else if (to === 'kubelet/status' && event.type === 'status.removed') {
      this.#refused.delete(event.uid);
    }
  }
}

function reasonOf(reason: string): string {
  if (!reason.startsWith('OutOf') || RESOURCES.includes(reason)) return reason;
  return 'OutOfExtendedResources';
}
