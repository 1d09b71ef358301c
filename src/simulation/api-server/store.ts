/**
 * The objects, their versions and their history: the etcd of a simulated API server. Also selectors of labels and
 * fields.
 *
 * All kinds share one version counter. Each write is an event; a watch reads the events after its version, as long as
 * the store has them.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { memberOf } from '../../kernel/json.ts';
import { badRequest, expired } from './errors.ts';
import { type ApiObject, apiVersionOf, KINDS, type Kind, knownKind } from './kinds.ts';

/** More events than are written between two watches of one client. */
const HISTORY_MAX_EVENTS = 50_000;
/** Pages are fetched one after another; older listings belong to clients that stopped reading. */
const LISTINGS_MAX = 50;

export interface StoreEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly version: number;
  readonly kind: Kind;
  readonly object: ApiObject;
  /** The object before the change, for selectors that do not match any more. */
  readonly previous: ApiObject | undefined;
}

interface Listing {
  readonly version: number;
  readonly objects: readonly ApiObject[];
}

/** The source of the times and names that the server assigns. */
export interface Origin {
  nowMs(): number;
  uid(name: string): string;
  /** The suffix of a generated name. */
  suffix(): string;
}

const SUFFIX_LENGTH = 5;
/** The alphabet of generated names, without vowels as upstream. */
const SUFFIX_LETTERS = 'bcdfghjklmnpqrstvwxz2456789';

const HOST: Origin = {
  nowMs: () => Date.now(),
  uid: () => randomUUID(),
  suffix: () => [...randomBytes(SUFFIX_LENGTH)].map((byte) => SUFFIX_LETTERS[byte % SUFFIX_LETTERS.length]).join(''),
};

const keyOf = (kind: Kind, namespace: string | undefined, name: string): string =>
  `${apiVersionOf(kind)}/${kind.resource}/${kind.namespaced ? namespace : ''}/${name}`;

export class Store {
  /** `event` for each write, `compacted` when history is removed. */
  readonly changes = new EventEmitter<{ event: [StoreEvent]; compacted: [] }>();
  private version = 1;
  private compactedBelow = 1;
  private readonly objects = new Map<string, ApiObject>();
  private history: StoreEvent[] = [];
  private readonly listings = new Map<number, Listing>();

  readonly origin: Origin;

  constructor(origin = HOST) {
    this.origin = origin;
    this.changes.setMaxListeners(0);
  }

  get resourceVersion(): string {
    return String(this.version);
  }

  /** The current object. `namespace` is ignored for cluster-scoped kinds. */
  get(apiVersion: string, resource: string, name: string, namespace?: string): ApiObject | undefined {
    return this.find(knownKind(apiVersion, resource), namespace, name);
  }

  find(kind: Kind, namespace: string | undefined, name: string): ApiObject | undefined {
    return this.objects.get(keyOf(kind, namespace, name));
  }

  list(apiVersion: string, resource: string, namespace?: string): ApiObject[] {
    return this.all(knownKind(apiVersion, resource), namespace);
  }

  all(kind: Kind, namespace?: string): ApiObject[] {
    const prefix = `${apiVersionOf(kind)}/${kind.resource}/${namespace === undefined ? '' : `${namespace}/`}`;
    return [...this.objects]
      .filter(([key]) => key.startsWith(prefix))
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, object]) => object);
  }

  inNamespace(namespace: string): { kind: Kind; object: ApiObject }[] {
    return KINDS.filter((kind) => kind.namespaced).flatMap((kind) =>
      this.all(kind, namespace).map((object) => ({ kind, object })),
    );
  }

  /** Stores the object under the next version; every watch receives the event. */
  put(kind: Kind, object: ApiObject): ApiObject {
    const key = keyOf(kind, object.metadata.namespace, object.metadata.name);
    const previous = this.objects.get(key);
    const version = ++this.version;
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
    this.objects.set(key, stored);
    this.record({ type: previous ? 'MODIFIED' : 'ADDED', version, kind, object: stored, previous });
    return stored;
  }

  remove(kind: Kind, object: ApiObject): ApiObject {
    const version = ++this.version;
    const last = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
    const key = keyOf(kind, object.metadata.namespace, object.metadata.name);
    const previous = this.objects.get(key);
    this.objects.delete(key);
    this.record({ type: 'DELETED', version, kind, object: last, previous });
    return last;
  }

  /** The events after `version`; fails if some of them were removed. */
  since(version: number): readonly StoreEvent[] {
    if (version + 1 < this.compactedBelow) {
      throw expired(`too old resource version: ${version} (${this.compactedBelow - 1})`);
    }
    return this.history.filter((event) => event.version > version);
  }

  /** Removes the history: watches and pages of older versions must start again (410). */
  compact(): void {
    this.compactedBelow = this.version + 1;
    this.history = [];
    this.listings.clear();
    this.changes.emit('compacted');
  }

  /** Keeps a listing for its next pages. */
  keep(listing: Listing): void {
    this.listings.set(listing.version, listing);
    const oldest = this.listings.keys().next().value;
    if (this.listings.size > LISTINGS_MAX && oldest !== undefined) this.listings.delete(oldest);
  }

  kept(version: number): Listing {
    const listing = this.listings.get(version);
    if (listing) return listing;
    throw expired(
      'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.',
    );
  }

  private record(event: StoreEvent): void {
    this.history.push(event);
    const oldest = this.history.length > HISTORY_MAX_EVENTS ? this.history.shift() : undefined;
    if (oldest) this.compactedBelow = oldest.version + 1;
    this.changes.emit('event', event);
  }
}

/** Label and field selectors of lists and watches. */
export type Selector = (object: ApiObject) => boolean;

export function selectorOf(query: URLSearchParams): Selector {
  const tests = [
    ...split(query.get('fieldSelector') ?? '').map(fieldTest),
    ...split(query.get('labelSelector') ?? '').map(labelTest),
  ];
  return (object) => tests.every((test) => test(object));
}

/** Splits by commas that are not inside parentheses; empty terms are dropped. */
function split(text: string): string[] {
  const terms: string[] = [];
  let depth = 0;
  let from = 0;
  for (let at = 0; at <= text.length; at++) {
    const character = text[at];
    if (character === '(') depth++;
    else if (character === ')') depth--;
    else if (at === text.length || (character === ',' && depth === 0)) {
      if (at > from) terms.push(text.slice(from, at));
      from = at + 1;
    }
  }
  return terms;
}

function fieldTest(term: string): Selector {
  const match = /^([\w.-]+)(==|!=|=)(.*)$/.exec(term.trim());
  if (!match) throw badRequest(`invalid selector: '${term}'; can't understand '${term}'`);
  const [, path = '', operator, wanted] = match;
  return (object) => (fieldValue(object, path) === wanted) === (operator !== '!=');
}

function fieldValue(object: ApiObject, path: string): string {
  let value: unknown = object;
  for (const step of path.split('.')) {
    value = memberOf(value, step);
  }
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : '';
}

function labelTest(text: string): Selector {
  const term = text.trim();
  const label = (object: ApiObject, key: string) => object.metadata.labels?.[key];
  const set = /^(\S+)\s+(in|notin)\s*\(([^)]*)\)$/.exec(term);
  if (set) {
    const [, key = '', operator, list = ''] = set;
    const values = list.split(',').map((value) => value.trim());
    return (object) => values.includes(label(object, key) ?? '\0') === (operator === 'in');
  }
  const equality = /^([^!=\s]+)\s*(==|!=|=)\s*(\S*)$/.exec(term);
  if (equality) {
    const [, key = '', operator, wanted] = equality;
    return (object) => (label(object, key) === wanted) === (operator !== '!=');
  }
  if (/^![^\s=!]+$/.test(term)) return (object) => label(object, term.slice(1)) === undefined;
  if (/^[^\s=!]+$/.test(term)) return (object) => label(object, term) !== undefined;
  throw badRequest(`unable to parse requirement: found '${term}'`);
}
