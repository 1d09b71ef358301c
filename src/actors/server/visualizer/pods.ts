/**
 * The pods of a node for the page: when each was first observed, its status, when it first ran, when it ended.
 *
 * Hears: the lines in which `status` reports a changed status, and the ends of the actors of pods. Invariants: at most
 * PODS_MAX are kept; removed pods are dropped first.
 */
import type { Address } from '../../../kernel/address.ts';
import { keepNewest } from '../../../kernel/keep-newest.ts';
import type { KernelRecord } from '../../../kernel/records.ts';
import type { PodView } from './protocol.ts';

/** Ten times a node's pods. */
const PODS_MAX = 1_100;

interface StatusLine {
  readonly pod: string;
  readonly uid: string;
  readonly phase: string;
  readonly ready: boolean;
  readonly restarts: number;
}

export class Pods {
  private readonly pods = new Map<string, PodView>();

  /** `t` is the time of the record's turn. */
  take(record: KernelRecord, t: number, root: Address): void {
    if (record.k === 'log' && record.at === `${root}/status` && record.text === 'Pod status')
      this.changed(record.fields as unknown as StatusLine, record.n, t);
    else if (record.k === 'state' && record.status !== undefined) this.ended(record.at, root, t);
  }

  /** The pods in order of first observation. */
  list(): readonly PodView[] {
    return [...this.pods.values()];
  }

  private changed({ pod, uid, phase, ready, restarts }: StatusLine, n: number, t: number): void {
    const known = this.pods.get(uid);
    const running = known?.running ?? (phase === 'Running' ? t : undefined);
    const runs = running === undefined ? {} : { running };
    this.pods.set(uid, { uid, pod, phase, ready, restarts, n, seen: known?.seen ?? t, ...runs });
    if (this.pods.size > PODS_MAX) this.drop();
  }

  private ended(address: Address, root: Address, t: number): void {
    const prefix = `${root}/pods/pod-`;
    if (!address.startsWith(prefix)) return;
    const uid = address.slice(prefix.length);
    const pod = this.pods.get(uid);
    if (pod) this.pods.set(uid, { ...pod, gone: t });
  }

  private drop(): void {
    const gone = [...this.pods.values()].find((pod) => pod.gone !== undefined);
    if (gone) this.pods.delete(gone.uid);
    else keepNewest(this.pods, this.pods.size - 1);
  }
}
