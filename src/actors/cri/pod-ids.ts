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
  /** Whether a list of all pods was read: pods missing in that list have no sandboxes and containers. */
  #complete = false;

  /** The ids of the pod; `undefined` if only a list can provide them. */
  of(uid: string): Ids | undefined {
    return this.#known.get(uid) ?? (this.#complete && !this.#invalidated.has(uid) ? NO_IDS : undefined);
  }

  /**
   * Lists a pod; the result is certain from then on, unless a call created something, or the pod was invalidated, in
   * the meantime.
   */
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

  /** Records a sandbox or container that the agent's own call created. */
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

  /**
   * Takes the ids of the pod in a list of all pods. If an id was not created here, there may be further unknown ids.
   */
  shown(uid: string, { sandboxIds, containerIds }: Ids): void {
    const known = this.of(uid);
    const ids = new Set([...(known?.sandboxIds ?? []), ...(known?.containerIds ?? [])]);
    if (!known || ![...sandboxIds, ...containerIds].every((id) => ids.has(id))) this.invalidate(uid);
  }

  /** Forgets ids that the runtime no longer knows. */
  gone(uid: string, ids: ReadonlySet<string>): void {
    const known = this.#known.get(uid);
    if (!known || ids.size === 0) return;
    const remaining = (all: readonly string[]) => all.filter((id) => !ids.has(id));
    this.#known.set(uid, { sandboxIds: remaining(known.sandboxIds), containerIds: remaining(known.containerIds) });
  }

  /**
   * Takes the uids in a list of all pods. Forgets a pod that is missing in the list if it has no ids, or if it was
   * invalidated before the list.
   */
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
