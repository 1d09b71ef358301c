/** What an earlier agent left of volumes, found once after a start: whose pods are gone, and what it had set up. */
import type { Registry } from 'prom-client';
import type { KernelRecord, ResultRecord } from '../../../../kernel/records.ts';
import { counter, gauge } from '../instruments.ts';
import { type Projection, podContextAt, podUidAt, type Seen, type UnderWay } from '../projection.ts';

export class VolumeLeftovers implements Projection {
  readonly hears = ['result'] as const;
  /** Pods that had a folder when this agent looked, and that are not known to have given it up. */
  #left = new Set<string>();
  readonly #failing = new Set<string>();
  readonly #families: ReturnType<typeof families>;

  constructor(registry: Registry) {
    this.#families = families(registry);
  }

  on(record: KernelRecord, { kernel, request }: Seen): void {
    if (record.k !== 'result' || !request) return;
    if (request.name === 'volume.podFolders' && !record.error) this.#looked(record);
    else if (request.name === 'csi.inventory' && !record.error) this.#found(record);
    else if (request.name !== 'volume.tearDown') return;
    else if (podContextAt(request.address, kernel)?.pod === null) this.#tornDown(request, record);
  }

  #looked({ output }: ResultRecord): void {
    this.#left = new Set((output as { readonly uids: readonly string[] }).uids);
    this.#families.cleaned.set(0);
    this.#families.errors.set(0);
  }

  #tornDown({ address }: UnderWay, { error }: ResultRecord): void {
    const uid = podUidAt(address);
    if (!this.#left.has(uid)) return;
    if (error) this.#failing.add(uid);
    else {
      this.#failing.delete(uid);
      this.#left.delete(uid);
      this.#families.cleaned.inc();
    }
    this.#families.errors.set(this.#failing.size);
  }

  #found({ output }: ResultRecord): void {
    const { volumes, errors } = output as { readonly volumes: readonly unknown[]; readonly errors: readonly string[] };
    this.#families.reconstructed.inc(volumes.length + errors.length);
    this.#families.unreadable.inc(errors.length);
  }
}

const families = (registry: Registry) => ({
  cleaned: gauge(
    registry,
    'kubelet_orphan_pod_cleaned_volumes',
    '[ALPHA] The total number of orphaned Pods whose volumes were cleaned in the last periodic sweep.',
  ),
  errors: gauge(
    registry,
    'kubelet_orphan_pod_cleaned_volumes_errors',
    '[ALPHA] The number of orphaned Pods whose volumes failed to be cleaned in the last periodic sweep.',
  ),
  reconstructed: counter(
    registry,
    'reconstruct_volume_operations_total',
    '[ALPHA] The number of volumes that were attempted to be reconstructed from the operating system during kubelet startup. This includes both successful and failed reconstruction.',
  ),
  unreadable: counter(
    registry,
    'reconstruct_volume_operations_errors_total',
    '[ALPHA] The number of volumes that failed reconstruction from the operating system during kubelet startup.',
  ),
});
