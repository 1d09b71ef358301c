/**
 * Synchronizes the node's pods between two threads: only changed pods are copied.
 *
 * Invariant: one answer has at most {@link PODS_MAX} pods, so that copying blocks the main thread only for
 * milliseconds; the other thread asks until it has all.
 */
import type { NodePod } from '../node-pods.ts';

/** Pods of one answer: about 10 KiB each with their status. */
const PODS_MAX = 32;
/** The copy is dropped when no request has used it for this long. */
const FORGET_MS = 60_000;

export interface PodsAnswer {
  /** The version that the next request names. */
  readonly version: number;
  readonly changed: readonly NodePod[];
  readonly uids: readonly string[];
  /** More pods have changed than fit in one answer. */
  readonly isPart: boolean;
}

/** A pod, with a value that changes identity whenever the pod changes. */
export interface PodSource {
  readonly uid: string;
  readonly state: object;
  read(): NodePod;
}

/** The providing side. */
export class PodVersions {
  readonly #reported = new Map<string, { readonly state: object; readonly version: number }>();
  #version = 0;

  changedSince(since: number, pods: readonly PodSource[]): PodsAnswer {
    const uids = pods.map(({ uid }) => uid);
    const later = this.#versions(pods)
      .filter(({ version }) => version > since)
      .toSorted((one, other) => one.version - other.version);
    this.#forgetOthers(new Set(uids));
    const part = later.slice(0, PODS_MAX);
    const isPart = part.length < later.length;
    const version = (isPart ? part.at(-1)?.version : undefined) ?? this.#version;
    return { version, changed: part.map(({ pod }) => pod.read()), uids, isPart };
  }

  #versions(pods: readonly PodSource[]): { readonly pod: PodSource; readonly version: number }[] {
    return pods.map((pod) => {
      const { uid, state } = pod;
      const before = this.#reported.get(uid);
      if (before?.state === state) return { pod, version: before.version };
      this.#reported.set(uid, { state, version: ++this.#version });
      return { pod, version: this.#version };
    });
  }

  #forgetOthers(uids: ReadonlySet<string>): void {
    for (const uid of this.#reported.keys()) if (!uids.has(uid)) this.#reported.delete(uid);
  }
}

/** The requesting side. One request at a time; later callers share the next one. */
export class KnownPods {
  readonly #ask: (since: number) => Promise<PodsAnswer>;
  #pods = new Map<string, NodePod>();
  #version = 0;
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<readonly NodePod[]> | undefined;
  #forgetting: NodeJS.Timeout | undefined;

  constructor(ask: (since: number) => Promise<PodsAnswer>) {
    this.#ask = ask;
  }

  all(): Promise<readonly NodePod[]> {
    this.#next ??= this.#after(this.#running);
    return this.#next;
  }

  #after(running: Promise<unknown>): Promise<readonly NodePod[]> {
    const answer = running.then(() => {
      this.#next = undefined;
      return this.#refresh();
    });
    this.#running = answer.catch(() => {});
    return answer;
  }

  async #refresh(): Promise<readonly NodePod[]> {
    for (;;) {
      const { version, changed, uids, isPart } = await this.#ask(this.#version);
      this.#version = version;
      for (const pod of changed) this.#pods.set(pod.uid, pod);
      if (isPart) continue;
      const all = uids.flatMap((uid) => this.#pods.get(uid) ?? []);
      this.#pods = new Map(all.map((pod) => [pod.uid, pod]));
      this.#forgetLater();
      return all;
    }
  }

  #forgetLater(): void {
    clearTimeout(this.#forgetting);
    this.#forgetting = setTimeout(() => {
      this.#running = this.#forgetAfter(this.#running);
    }, FORGET_MS).unref();
  }

  async #forgetAfter(running: Promise<unknown>): Promise<void> {
    await running;
    this.#pods.clear();
    this.#version = 0;
  }
}
