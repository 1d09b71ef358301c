/**
 * Caches the ids of a pod's sandboxes and containers where they are certain: the pod was listed, or missing in a list
 * of all pods, and since then only the agent's own calls created more. Inspecting such a pod needs no lists, whose cost
 * grows with the number of pods.
 *
 * Invariants: the next inspection lists again after a create call that overlapped a list, after a failed create call,
 * and after a relist that shows unknown ids; before the first full list, nothing is certain about a pod that was not
 * listed.
 */
export interface Ids {
  readonly sandboxIds: readonly string[];
  readonly containerIds: readonly string[];
}

const NO_IDS: Ids = { sandboxIds: [], containerIds: [] };

export class PodIds {
  readonly #known = new Map<string, Ids>();
  /** The newest list of a pod in progress, if nothing was created in the pod since it began. */
  readonly #listings = new Map<string, symbol>();
  /** Pods whose ids only a list of their own can provide; `true`: a list of all pods ended since. */
  readonly #invalidated = new Map<string, boolean>();
  /** A list of all pods was read: pods missing in it have nothing. */
  #complete = false;

  /** `undefined`: only a list can provide them. */
  of(uid: string): Ids | undefined {
    return this.#known.get(uid) ?? (this.#complete && !this.#invalidated.has(uid) ? NO_IDS : undefined);
  }

  /** Lists a pod; the result is certain from then on, unless something happened in the meantime. */
  async listing(uid: string, list: () => Promise<Ids>): Promise<Ids> {
    const listing = Symbol(uid);
    this.#listings.set(uid, listing);
    try {
      const ids = await list();
      if (this.#listings.get(uid) === listing) {
        this.#known.set(uid, ids);
        this.#invalidated.delete(uid);
      }
      return ids;
    } finally {
      if (this.#listings.get(uid) === listing) this.#listings.delete(uid);
    }
  }

  /** An own call created this sandbox or container. */
  made(uid: string, kind: keyof Ids, id: string): void {
    const known = this.of(uid);
    if (!known) return this.invalidate(uid);
    this.#listings.delete(uid);
    if (!known[kind].includes(id)) this.#known.set(uid, { ...known, [kind]: [...known[kind], id] });
  }

  /** The ids of the pod are no longer certain. */
  invalidate(uid: string): void {
    this.#listings.delete(uid);
    this.#known.delete(uid);
    this.#invalidated.set(uid, false);
  }

  /** A list of all pods shows these; an id that was not created here may not be the only one. */
  shown(uid: string, { sandboxIds, containerIds }: Ids): void {
    const known = this.of(uid);
    const ids = new Set([...(known?.sandboxIds ?? []), ...(known?.containerIds ?? [])]);
    if (!known || ![...sandboxIds, ...containerIds].every((id) => ids.has(id))) this.invalidate(uid);
  }

  /** The runtime no longer knows these ids. */
  gone(uid: string, ids: ReadonlySet<string>): void {
    const known = this.#known.get(uid);
    if (!known || ids.size === 0) return;
    const left = (all: readonly string[]) => all.filter((id) => !ids.has(id));
    this.#known.set(uid, { sandboxIds: left(known.sandboxIds), containerIds: left(known.containerIds) });
  }

  /** A list of all pods has these. Pods that have nothing are forgotten, and so are doubts older than the list. */
  retain(listed: { has(uid: string): boolean }): void {
    this.#complete = true;
    for (const [uid, { sandboxIds, containerIds }] of this.#known) {
      if (sandboxIds.length + containerIds.length === 0 && !listed.has(uid)) this.#known.delete(uid);
    }
    for (const [uid, isOlder] of this.#invalidated) {
      if (isOlder && !listed.has(uid)) this.#invalidated.delete(uid);
      else this.#invalidated.set(uid, true);
    }
  }
}
