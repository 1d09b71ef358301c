/**
 * Messages about images: requests of pods, the answers of `images`, which images are in use; and the messages to and
 * from the garbage collectors `containerGC` and `imageGC`.
 */
import type { Image, PodSandboxConfig } from '../api/cri.ts';
import type { ObjectReference } from '../api/pod.ts';
import type { ConfigObject } from '../operations/volume.ts';
import type { EventText } from '../reasons/reasons.ts';
import type { RememberedPull } from './pod-messages.ts';

export interface ImageWanted {
  readonly type: 'image.wanted';
  readonly uid: string;
  /** The name of a container, or `<container>/<volume>` for an image volume. The answer repeats it. */
  readonly container: string;
  readonly image: string;
  readonly policy: 'Always' | 'IfNotPresent' | 'Never';
  readonly ref: ObjectReference;
  /** The container that waits for the image of a volume; `null` if no container does, then `ref` is the pod. */
  readonly user?: ObjectReference | null;
  /** The existing pull secrets of its pod, in order. */
  readonly secrets: readonly ConfigObject[];
  /** The service account of the pod; empty for a static pod. */
  readonly serviceAccount: string;
  /** Annotations for the pull, which a runtime may read. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly sandboxConfig: PodSandboxConfig | null;
  /** Failed pulls in the soft state of an earlier agent. */
  readonly remembered: RememberedPull | null;
}

/** `of`: the image as requested. */
export type ImageReport = { readonly uid: string; readonly container: string; readonly of: string } & (
  | { readonly type: 'image.ready'; readonly image: ImageFacts }
  /** `retryMs`: until then a request gives the same answer. */
  | { readonly type: 'image.failed'; readonly reason: string; readonly message: string; readonly retryMs: number }
);

/** The part of an image that a container needs; `event` is recorded when the container uses the image. */
export interface ImageFacts {
  readonly ref: string;
  readonly uid: string | null;
  readonly username: string;
  readonly event?: EventText;
}

export const imageFacts = (image: Image): ImageFacts => ({
  ref: image.id,
  uid: image.uid?.value ?? null,
  username: image.username,
});

/** A container uses this image from now on. */
export interface ImageUsed {
  readonly type: 'image.used';
  readonly id: string;
}

/** A garbage collector has lost the pods' facts and needs them again. */
export interface GarbageWanted {
  readonly type: 'garbage.wanted';
}

/** The node is short of disk: everything unused is removed now. Answered by `garbage.purged`. */
export interface GarbagePurge {
  readonly type: 'garbage.purge';
}

export interface GarbagePurged {
  readonly type: 'garbage.purged';
}
