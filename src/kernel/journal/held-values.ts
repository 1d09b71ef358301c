/**
 * The values of secrets in memory, and which of them are forgotten when there are too many.
 *
 * A value belongs to the documents that have it, such as a pod or a Secret, as long as they exist: pods that come and
 * go, and pods of other namespaces, never take a value from a pod that runs.
 *
 * Invariants:
 *   V1 the value of a document that exists is held, unless documents have more than {@link HoldingLimits.heldBytes};
 *      then the namespace with most of them loses those of the document that was sealed least recently.
 *   V2 the values of documents that are gone, which hooks of a pod that ends may still need, and values without a
 *      document each have a limit of their own; the least recently used are forgotten first.
 */

export interface Document {
  /** Empty: of the node. */
  readonly namespace: string;
  /** Unique among all kinds. Ids of parts continue it after a slash. */
  readonly id: string;
  /** Of what is sealed: while it stays the same, nothing is sealed again. */
  readonly digest?: string;
}

export interface HoldingLimits {
  /** Of all values of documents; a value counts for each document that has it. */
  readonly heldBytes: number;
  readonly releasedBytes: number;
  /** Of values without a document. */
  readonly looseBytes: number;
}

/** Far more than the variables and Secrets of 250 pods; in memory beside the objects themselves. */
const HELD_MAX_BYTES = 512 * 1024 * 1024;
/** Some forty of the largest pods that end at once. */
const RELEASED_MAX_BYTES = 64 * 1024 * 1024;
/** Logins, keys of requested certificates, variables from files: some hundred thousand. */
const LOOSE_MAX_BYTES = 64 * 1024 * 1024;
/** What a value takes in memory beside its text. */
const OVERHEAD_BYTES = 200;

const costOf = (value: string): number => value.length + OVERHEAD_BYTES;

interface Holding {
  readonly namespace: string;
  readonly digest: string | undefined;
  readonly sealed: unknown;
  readonly names: readonly string[];
  readonly bytes: number;
}

export class HeldValues {
  private readonly held = new Map<string, { readonly value: string; readonly holders: number }>();
  /** By id, in the order of their last sealing. */
  private readonly documents = new Map<string, Holding>();
  private readonly bytesByNamespace = new Map<string, number>();
  private heldBytes = 0;
  private readonly heldMaxBytes: number;
  private readonly released: RecentValues;
  private readonly loose: RecentValues;
  private sealing: Map<string, string> | undefined;

  constructor({
    heldBytes = HELD_MAX_BYTES,
    releasedBytes = RELEASED_MAX_BYTES,
    looseBytes = LOOSE_MAX_BYTES,
  }: Partial<HoldingLimits> = {}) {
    this.heldMaxBytes = heldBytes;
    this.released = new RecentValues(releasedBytes);
    this.loose = new RecentValues(looseBytes);
  }

  add(name: string, value: string): void {
    if (this.sealing) this.sealing.set(name, value);
    else this.loose.add(name, value);
  }

  get(name: string): string | undefined {
    return this.held.get(name)?.value ?? this.released.get(name) ?? this.loose.get(name);
  }

  /** See `Vault.hold`. If `sealing` throws, the document keeps the values that it had. */
  hold<Sealed>(document: Document, sealing: () => Sealed): Sealed {
    const { id, digest } = document;
    const earlier = this.documents.get(id);
    if (earlier !== undefined && digest !== undefined && earlier.digest === digest) {
      this.documents.delete(id);
      this.documents.set(id, earlier);
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same content was sealed in the same way
      return earlier.sealed as Sealed;
    }
    const values = new Map<string, string>();
    this.sealing = values;
    try {
      const sealed = sealing();
      this.replace(document, sealed, values);
      return sealed;
    } finally {
      this.sealing = undefined;
    }
  }

  /** The values of the document and its parts count as released. */
  release(id: string): void {
    for (const each of [id, ...this.ids(`${id}/`)]) this.drop(each);
  }

  ids(prefix: string): readonly string[] {
    return [...this.documents.keys()].filter((id) => id.startsWith(prefix));
  }

  private replace({ namespace, id, digest }: Document, sealed: unknown, values: ReadonlyMap<string, string>): void {
    let bytes = 0;
    for (const [name, value] of values) {
      bytes += costOf(value);
      this.held.set(name, { value, holders: (this.held.get(name)?.holders ?? 0) + 1 });
    }
    this.drop(id);
    if (values.size === 0 && digest === undefined) return;
    this.documents.set(id, { namespace, digest, sealed, names: [...values.keys()], bytes });
    this.count(namespace, bytes);
    while (this.heldBytes > this.heldMaxBytes) this.dropOfLargest();
  }

  private drop(id: string): void {
    const holding = this.documents.get(id);
    if (holding === undefined) return;
    this.documents.delete(id);
    this.count(holding.namespace, -holding.bytes);
    for (const name of holding.names) {
      const { value, holders } = this.held.get(name)!;
      if (holders > 1) this.held.set(name, { value, holders: holders - 1 });
      else {
        this.held.delete(name);
        this.released.add(name, value);
      }
    }
  }

  private dropOfLargest(): void {
    const [largest] = [...this.bytesByNamespace].reduce((most, each) => (each[1] > most[1] ? each : most));
    for (const [id, { namespace }] of this.documents) if (namespace === largest) return this.drop(id);
  }

  private count(namespace: string, bytes: number): void {
    const ofNamespace = (this.bytesByNamespace.get(namespace) ?? 0) + bytes;
    if (ofNamespace === 0) this.bytesByNamespace.delete(namespace);
    else this.bytesByNamespace.set(namespace, ofNamespace);
    this.heldBytes += bytes;
  }
}

/** Values up to so many bytes; the least recently used are forgotten first. */
class RecentValues {
  private readonly values = new Map<string, string>();
  private readonly maxBytes: number;
  private bytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  add(name: string, value: string): void {
    this.remove(name);
    this.values.set(name, value);
    this.bytes += costOf(value);
    for (const oldest of this.values.keys()) {
      if (this.bytes <= this.maxBytes) return;
      this.remove(oldest);
    }
  }

  get(name: string): string | undefined {
    const value = this.values.get(name);
    if (value !== undefined) this.add(name, value);
    return value;
  }

  private remove(name: string): void {
    const value = this.values.get(name);
    if (value === undefined) return;
    this.values.delete(name);
    this.bytes -= costOf(value);
  }
}
