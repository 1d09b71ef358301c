/** Which images are removed, by the room that is needed and by their age. Pure. Part of the chart of `image-gc.ts`. */
import type { Image } from '../api/cri.ts';
import { type Decider, hasBehavior } from '../settings/behaviors.ts';
import type { NodeSettings } from '../settings/node-settings.ts';

type Policy = NodeSettings['imageGc'];

export interface Candidate {
  readonly id: string;
  readonly sizeBytes: number;
  /** It is removed at any disk usage. */
  readonly isTooOld: boolean;
}

export const usedPercentOf = (capacityBytes: number, availableBytes: number): number =>
  100 - Math.floor((availableBytes * 100) / capacityBytes);

/** Bytes to free to reach the low threshold; 0 below the high one. */
export function bytesToFree(capacityBytes: number, availableBytes: number, policy: Policy): number {
  if (usedPercentOf(capacityBytes, availableBytes) < policy.highThresholdPercent) return 0;
  return Math.floor((capacityBytes * (100 - policy.lowThresholdPercent)) / 100) - availableBytes;
}

/** The facts by which images are chosen for removal. */
export interface ImageGcKnowledge extends Decider {
  readonly policy: Policy;
  readonly startedAtMs: number;
  /** The assumed last use of an image that no pod has used; 0 without `imagesAsKubelet`. */
  readonly unusedSinceMs: number;
  /**
   * By id or another name of an image, the last use; an image that no pod used since the agent started counts as the
   * oldest.
   */
  readonly usedAtMs: Readonly<Record<string, number>>;
  /** By image id, the first use; `null` without `imagesAsKubelet`: the last use decides which image is young. */
  readonly firstUsedAtMs: Readonly<Record<string, number>> | null;
  /** Image ids by pod uid. */
  readonly inUse: Readonly<Record<string, readonly string[]>>;
  readonly toFreeBytes: number;
}

/** Whether an image, by any of its names, was unused for longer than the maximum age: it goes at any disk usage. */
export function isTooOld(known: ImageGcKnowledge, names: readonly string[], nowMs: number): boolean {
  const { policy, startedAtMs } = known;
  const knowsAge = policy.maxAgeMs > 0 && nowMs - startedAtMs > policy.maxAgeMs;
  return knowsAge && nowMs - (lastUse(known, names) ?? 0) > policy.maxAgeMs;
}

/** Containers name their image by its id, or by its digest (containerd 1.6). */
function lastUse({ usedAtMs }: ImageGcKnowledge, names: readonly string[]): number | undefined {
  const uses = names.flatMap((name) => usedAtMs[name] ?? []);
  return uses.length === 0 ? undefined : Math.max(...uses);
}

export const namesOf = ({ id, repo_tags, repo_digests }: Image): string[] => [id, ...repo_tags, ...repo_digests];

/** Whether all images that may be removed are candidates, so that one takes the place of another. */
export const hasSubstitutes = (known: Decider): boolean => hasBehavior(known, 'imageDetailsAsKubelet');

/**
 * The images to remove: too old ones, then the least recently used. With {@link hasSubstitutes} the caller stops when
 * enough bytes are freed.
 */
export function imagesToRemove(known: ImageGcKnowledge, images: readonly Image[], nowMs: number): Candidate[] {
  const { policy } = known;
  const refs = new Set(Object.values(known.inUse).flat());
  const usedAt = (image: Image): number => lastUse(known, namesOf(image)) ?? known.unusedSinceMs;
  const isUsed = (image: Image): boolean => namesOf(image).some((ref) => refs.has(ref));
  let rest = known.toFreeBytes;
  const chosen: Candidate[] = [];
  const unused = images.filter((image) => !image.pinned && !isUsed(image)).sort((a, b) => usedAt(a) - usedAt(b));
  const knownSince = (image: Image): number =>
    known.firstUsedAtMs === null ? usedAt(image) : (known.firstUsedAtMs[image.id] ?? known.unusedSinceMs);
  for (const image of unused) {
    const isYoung = nowMs - knownSince(image) < policy.minAgeMs;
    const isOld = isTooOld(known, namesOf(image), nowMs);
    if (!isOld && (rest <= 0 || isYoung)) continue;
    chosen.push({ id: image.id, sizeBytes: Number(image.size), isTooOld: isOld });
    if (!hasSubstitutes(known)) rest -= Number(image.size);
  }
  return chosen;
}
