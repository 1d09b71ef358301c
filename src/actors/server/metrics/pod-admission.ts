/** Pods that this node refused, and what became of the images that pods asked for. Of each pod and question once. */
import { Counter, type Registry } from 'prom-client';
import type { KernelRecord, MessageRecord } from '../../../kernel/records.ts';
import type { Image } from '../../../machines/api/cri.ts';
import type { ImageWanted } from '../../../machines/pods/messages.ts';
import type { Projection, Seen } from './projection.ts';

/** What upstream names; every other resource of which there is not enough is an extended one. */
const RESOURCES = ['OutOfcpu', 'OutOfmemory', 'OutOfephemeral-storage', 'OutOfpods'];
const IMAGE_ACTOR = /^kubelet\/images\/image-[^/]+/;
const POLICIES: Readonly<Record<ImageWanted['policy'], string>> = {
  Always: 'always',
  IfNotPresent: 'ifnotpresent',
  Never: 'never',
};

interface Wish {
  readonly uid: string;
  readonly actor: string;
  readonly policy: ImageWanted['policy'];
  isPresent: boolean | null;
  isPulled: boolean;
}

export class PodAdmission implements Projection {
  readonly #refused = new Set<string>();
  /** By pod and container, what is asked and not answered. */
  readonly #wishes = new Map<string, Wish>();
  readonly #rejections: Counter;
  readonly #images: Counter;

  constructor(registry: Registry) {
    this.#rejections = new Counter({
      name: 'kubelet_admission_rejections_total',
      help: '[ALPHA] Cumulative number pod admission rejections by the Kubelet.',
      labelNames: ['reason'],
      registers: [registry],
    });
    this.#images = new Counter({
      name: 'kubelet_image_manager_ensure_image_requests_total',
      help: '[ALPHA] Number of ensure-image requests processed by the kubelet.',
      labelNames: ['present_locally', 'pull_policy', 'pull_required'],
      registers: [registry],
    });
  }

  on(record: KernelRecord, { request }: Seen): void {
    if (record.k === 'message') this.#told(record);
    else if (record.k === 'effect' && record.name === 'cri.pullImage') {
      for (const wish of this.#of(record.at)) wish.isPulled = true;
    } else if (record.k === 'result' && request?.name === 'cri.imageStatus' && !record.error) {
      const isPresent = (record.output as { readonly image: Image | null }).image !== null;
      for (const wish of this.#of(request.address)) wish.isPresent ??= isPresent;
    }
  }

  #told({ to, event }: MessageRecord): void {
    if (event.type === 'allocation.refused' && to === 'kubelet/pods') {
      const { uid, rejection } = event as unknown as { uid: string; rejection: { reason: string } };
      if (this.#refused.has(uid)) return;
      this.#refused.add(uid);
      this.#rejections.inc({ reason: reasonOf(rejection.reason) });
    } else if (event.type === 'image.asked') {
      const { uid, container, policy } = (event as unknown as { request: ImageWanted }).request;
      this.#wishes.set(`${uid} ${container}`, { uid, actor: to, policy, isPresent: null, isPulled: false });
    } else if (to === 'kubelet/pods' && (event.type === 'image.ready' || event.type === 'image.failed')) {
      const { uid, container } = event as unknown as ImageWanted;
      this.#answered(`${uid} ${container}`);
    } else if (to === 'kubelet/status' && event.type === 'status.removed') {
      const { uid } = event as unknown as { uid: string };
      this.#refused.delete(uid);
      for (const [key, wish] of this.#wishes) if (wish.uid === uid) this.#wishes.delete(key);
    }
  }

  #of(address: string): Wish[] {
    const actor = IMAGE_ACTOR.exec(address)?.[0];
    return [...this.#wishes.values()].filter((wish) => wish.actor === actor);
  }

  #answered(key: string): void {
    const wish = this.#wishes.get(key);
    this.#wishes.delete(key);
    if (!wish) return;
    const { isPresent, isPulled, policy } = wish;
    const present_locally = isPresent === null ? 'unknown' : String(isPresent);
    this.#images.inc({ present_locally, pull_policy: POLICIES[policy], pull_required: String(isPulled) });
  }
}

function reasonOf(reason: string): string {
  if (!reason.startsWith('OutOf') || RESOURCES.includes(reason)) return reason;
  return 'OutOfExtendedResources';
}
