/** Outcomes of image requests: present, pulled, verified credentials, and garbage collection. */

import type { Registry } from 'prom-client';
import type { Kernel } from '../../../../kernel/kernel.ts';
import { type ImageGcKnowledge, isTooOld } from '../../../../machines/model/images/image-choice.ts';
import type { VerificationSettings } from '../../../../machines/model/images/verification.ts';
import {
  admission,
  admittedByRecord,
  type KnownImage,
  mustVerify,
  recordName,
} from '../../../../machines/model/images/verification.ts';
import type { PullRecord } from '../../../../machines/model/operations/image.ts';
import type { ImageWanted } from '../../../../machines/model/pods/image-messages.ts';
import { valueIn } from '../../../../machines/model/values/tables.ts';
import { recordCounts } from '../../../image/pull-records.ts';
import type { NodeEffect, NodeMessageRecord, NodeRecord, NodeResult } from '../../../node-records.ts';
import { contextOf } from '../../../node-records.ts';
import type { Family, Projection, RecordContext, UnderWay } from '../instruments.ts';
import { counter, gaugeOf, histogram, Instruments, isPodActor, MS_PER_SECOND, one } from '../instruments.ts';

const IMAGE_ACTOR = /^kubelet\/images\/image-[^/]+/;
const COLLECTOR = 'kubelet/imageGC';
const POLICIES: Readonly<Record<ImageWanted['policy'], string>> = {
  Always: 'always',
  IfNotPresent: 'ifnotpresent',
  Never: 'never',
};
/** Upstream's buckets in seconds. */
const PULL_BUCKETS = [1, 5, 10, 20, 30, 60, 180, 300, 600, 900, 1_200, 1_800, 2_700, 3_600];
const MEBIBYTE = 1_024 ** 2;
/** Upstream's labels, from the largest size: each is for images with more than these bytes. */
const SIZES = [
  [100 * 1_024, 'GT100GB'],
  [60 * 1_024, '60GB-100GB'],
  [40 * 1_024, '40GB-60GB'],
  [30 * 1_024, '30GB-40GB'],
  [20 * 1_024, '20GB-30GB'],
  [10 * 1_024, '10GB-20GB'],
  [5 * 1_024, '5GB-10GB'],
  [1_024, '1GB-5GB'],
  [500, '500MB-1GB'],
  [100, '100MB-500MB'],
  [10, '10MB-100MB'],
  [0, '0-10MB'],
] as const;

const sizeLabel = (bytes: number): string => SIZES.find(([mebibytes]) => bytes > mebibytes * MEBIBYTE)?.[1] ?? 'N/A';

type ResultOf<Name> = NodeResult & { readonly name: Name };

interface ImageRequest {
  readonly uid: string;
  /** The address of the image's actor; empty if there is none. */
  readonly actor: string;
  readonly policy: ImageWanted['policy'];
  isPresent: boolean | null;
  isPulled: boolean;
}

const labelOf = (known: boolean | null): string => (known === null ? 'unknown' : String(known));

/**
 * Whether the image needs a pull; `null` if this was not determined, because the image's name is invalid, the image
 * could not be inspected, or it must not be pulled.
 */
function needsPull({ policy, actor, isPresent, isPulled }: ImageRequest, isReady: boolean): boolean | null {
  if (actor === '') return null;
  if (policy === 'Always') return true;
  if (isPresent === true) return isPulled || !isReady;
  return isPresent === null || policy === 'Never' ? null : true;
}

interface ImageContext extends KnownImage {
  readonly verification: VerificationSettings | null;
  readonly record: PullRecord | null;
}

export class ImageWork extends Instruments implements Projection {
  readonly recordKinds = ['message', 'effect', 'result'] as const;
  /** By pod and container, the open requests. */
  readonly #requests = new Map<string, ImageRequest>();
  /** By the actor of an image, the start of its pull, and whether the runtime has pulled it since. */
  readonly #pulls = new Map<string, { readonly beganMs: number; readonly isPulled: boolean }>();
  /** By id, why an image is being removed. */
  readonly #removals = new Map<string, 'age' | 'space'>();
  readonly #families = families(this.registry);

  on(record: NodeRecord, { kernel, request }: RecordContext): void {
    if (record.k === 'message') this.#readMessage(record);
    else if (record.k === 'effect' && record.name === 'cri.pullImage') this.#pulling(record.at, kernel.now);
    else if (record.k === 'effect' && record.name === 'cri.removeImage' && record.at.startsWith(`${COLLECTOR}/`))
      this.#removing(record, kernel);
    else if (record.k === 'result' && request) this.#done(record, request, kernel);
  }

  #readMessage({ to, event }: NodeMessageRecord): void {
    if (event.type === 'image.wanted') this.#imageRequested(event, '');
    else if (event.type === 'image.asked') this.#imageRequested(event.request, to);
    else if (isPodActor(to) && (event.type === 'image.ready' || event.type === 'image.failed')) {
      this.#answered(`${event.uid} ${event.container}`, event.type === 'image.ready');
    } else if (to === 'kubelet/status' && event.type === 'status.removed') {
      for (const [key, request] of this.#requests) if (request.uid === event.uid) this.#requests.delete(key);
    }
  }

  #of(actor: string | undefined): ImageRequest[] {
    return [...this.#requests.values()].filter((request) => request.actor === actor);
  }

  #imageRequested({ uid, container, policy }: ImageWanted, actor: string): void {
    this.#requests.set(`${uid} ${container}`, { uid, actor, policy, isPresent: null, isPulled: false });
  }

  #answered(key: string, isReady: boolean): void {
    const request = this.#requests.get(key);
    this.#requests.delete(key);
    if (!request) return;
    // Without an inspection the image is known from the one before another pod's pull.
    request.isPresent ??= isReady && !request.isPulled ? true : null;
    const present_locally = labelOf(request.policy === 'Always' ? null : request.isPresent);
    const pull_required = labelOf(needsPull(request, isReady));
    this.#families.ensured.inc({ present_locally, pull_policy: POLICIES[request.policy], pull_required });
  }

  #pulling(address: string, nowMs: number): void {
    const actor = IMAGE_ACTOR.exec(address)?.[0];
    if (actor === undefined) return;
    for (const request of this.#of(actor)) request.isPulled = true;
    this.#pulls.set(actor, this.#pulls.get(actor) ?? { beganMs: nowMs, isPulled: false });
  }

  #removing({ input: { image } }: NodeEffect & { readonly name: 'cri.removeImage' }, kernel: Kernel): void {
    const context = contextOf<ImageGcKnowledge>(kernel, COLLECTOR);
    if (context) this.#removals.set(image, isTooOld(context, [image], kernel.now) ? 'age' : 'space');
  }

  #done(record: NodeResult, request: UnderWay, kernel: Kernel): void {
    const actor = IMAGE_ACTOR.exec(request.address)?.[0];
    if (request.name === 'cri.removeImage') this.#removed(record, request.input);
    else if (actor === undefined) return;
    else if (record.name === 'cri.pullImage') this.#pulled(record, actor);
    else if (record.name === 'cri.imageStatus') this.#inspected(record, actor, kernel.now);
    else if (record.name === 'images.pullRecord') this.#checked(record, actor, kernel);
    else if (record.name === 'images.credentials') this.#compared(record, actor, kernel);
  }

  #removed({ error }: NodeResult, { image }: { readonly image: string }): void {
    const reason = this.#removals.get(image);
    this.#removals.delete(image);
    if (!error && reason !== undefined) this.#families.removed.inc({ reason });
  }

  /** After a failed pull an older image may be present: it was not pulled now. */
  #pulled({ error }: NodeResult, actor: string): void {
    const pull = this.#pulls.get(actor);
    if (pull && !error) this.#pulls.set(actor, { ...pull, isPulled: true });
  }

  /** Observes the duration of a pull under the size that the image's status gives. */
  #inspected({ output, error }: ResultOf<'cri.imageStatus'>, actor: string, nowMs: number): void {
    const image = error ? null : output.image;
    if (!error) for (const request of this.#of(actor)) request.isPresent ??= image !== null;
    const pull = this.#pulls.get(actor);
    this.#pulls.delete(actor);
    if (!pull?.isPulled || image === null) return;
    const seconds = (nowMs - pull.beganMs) / MS_PER_SECOND;
    this.#families.pulls.observe({ image_size_in_bytes: sizeLabel(Number(image.size)) }, seconds);
  }

  /** Counts the pods that requested a present image, and whose policy allows its use without a pull. */
  #checked({ output: known, error }: ResultOf<'images.pullRecord'>, actor: string, kernel: Kernel): void {
    const waiting = this.#of(actor).filter(({ policy }) => policy !== 'Always').length;
    const image = imageContext(actor, kernel);
    if (!image?.verification || waiting === 0) return;
    if (error) return this.#families.checks.inc({ result: 'error' }, waiting);
    const name = recordName(image);
    const admitted = admittedByRecord(image.verification, name, known);
    if (admitted === null) return;
    const found = mustVerify(image.verification, name, known) ? 'credentialRecordFound' : 'credentialPolicyAllowed';
    this.#families.checks.inc({ result: admitted ? found : 'mustAuthenticate' }, waiting);
  }

  /** Counts the pods for which credentials decided. */
  #compared({ output, error }: ResultOf<'images.credentials'>, actor: string, kernel: Kernel): void {
    const image = imageContext(actor, kernel);
    if (error || !image?.verification || !image.record) return;
    const name = recordName(image);
    const pulled = valueIn(image.record.record, name);
    if (!pulled || admittedByRecord(image.verification, name, image.record) !== null) return;
    const { admitted } = admission(pulled, output.credentials);
    this.#families.checks.inc({ result: admitted ? 'credentialRecordFound' : 'mustAuthenticate' });
  }
}

const imageContext = (actor: string, kernel: Kernel): ImageContext | undefined =>
  contextOf<ImageContext>(kernel, actor);

const families = (registry: Registry) => ({
  ensured: counter(
    registry,
    'kubelet_image_manager_ensure_image_requests_total',
    '[ALPHA] Number of ensure-image requests processed by the kubelet.',
    ['present_locally', 'pull_policy', 'pull_required'],
  ),
  checks: counter(
    registry,
    'kubelet_imagemanager_image_mustpull_checks_total',
    '[ALPHA] Counter for how many times kubelet checked whether credentials need to be re-verified to access an image',
    ['result'],
  ),
  pulls: histogram(
    registry,
    'kubelet_image_pull_duration_seconds',
    '[ALPHA] Duration in seconds to pull an image.',
    PULL_BUCKETS,
    ['image_size_in_bytes'],
  ),
  removed: counter(
    registry,
    'kubelet_image_garbage_collected_total',
    '[ALPHA] Total number of images garbage collected by the kubelet, whether through disk usage or image age.',
    ['reason'],
  ),
});

/**
 * The numbers of pull records on disk. No family if no records are kept.
 *
 * `rootDir` is `--root-dir`; `null` before it is known.
 */
export async function pullRecordCounts(rootDir: string | null): Promise<Family[]> {
  if (rootDir === null) return [];
  const { pulling, pulled } = await recordCounts(rootDir);
  const name = 'kubelet_imagemanager_ondisk_';
  return [
    gaugeOf(`${name}pullintents`, '[ALPHA] Number of ImagePullIntents stored on disk.', [one(pulling)]),
    gaugeOf(`${name}pulledrecords`, '[ALPHA] Number of ImagePulledRecords stored on disk.', [one(pulled)]),
  ];
}
