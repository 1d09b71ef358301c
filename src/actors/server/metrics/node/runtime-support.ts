/** Whether this runtime will do for the next release of Kubernetes. */
import type { Gauge, Registry } from 'prom-client';
import type { KernelRecord } from '../../../../kernel/records.ts';
import { gauge } from '../instruments.ts';
import type { Projection, Seen } from '../projection.ts';

/** From this release on upstream needs a runtime that says by which driver it makes control groups. */
const SUPPORT_ENDS = '1.37.0';

export class RuntimeSupport implements Projection {
  readonly hears = ['result'] as const;
  readonly #losing: Gauge<'version'>;

  constructor(registry: Registry) {
    this.#losing = gauge(
      registry,
      'kubelet_cri_losing_support',
      '[ALPHA] the Kubernetes version that the currently running CRI implementation will lose support on if not upgraded.',
      ['version'],
    );
  }

  on(record: KernelRecord, { request }: Seen): void {
    if (record.k !== 'result' || record.error || request?.name !== 'cri.runtimeConfig') return;
    const { cgroupDriver } = record.output as { readonly cgroupDriver: string | null };
    if (cgroupDriver === null) this.#losing.set({ version: SUPPORT_ENDS }, 1);
    else this.#losing.reset();
  }
}
