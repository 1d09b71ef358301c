/** The verbs on stored objects: what a write changes for each kind, and when it is rejected. */
import type { Refusal } from './errors.ts';
import { alreadyExists, badRequest, conflict, forbidden, invalid, MODIFIED, notFound, unknownPath } from './errors.ts';
import type { ApiObject, Fields, Kind, Metadata, User } from './kinds.ts';
import { apiVersionOf, fieldsIn, isFields, knownKind, same, textOf, timestamp } from './kinds.ts';
import { boundPod, createdPod, evictedPod, graceOf, terminatingPod, updatedPod } from './pods.ts';
import type { Origin, Store } from './store.ts';
import { applyPatch } from './strategic-merge.ts';

/** The API server itself, which needs no permission. */
const SYSTEM: User = { name: 'system:apiserver', groups: ['system:masters'] };
const NAME = /^[a-z0-9]([-a-z0-9.:]*[a-z0-9])?$/;

export interface Place {
  readonly kind: Kind;
  readonly namespace: string | undefined;
  readonly name: string;
  readonly subresource?: string | undefined;
}

export interface DeleteOptions {
  readonly gracePeriodSeconds?: number;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

/** Rules that depend on the client. */
export interface RegistryRules {
  /** Rejects an object that this user may not write. `old` is the existing object, if any. */
  readonly restrict?: (
    user: User,
    place: Pick<Place, 'kind' | 'subresource'> & { readonly name?: string },
    body: ApiObject,
    old?: ApiObject,
  ) => void;
  /** The stored form of a CertificateSigningRequest. */
  readonly createdCsr?: (csr: ApiObject, user: User) => ApiObject;
}

export class Registry {
  private readonly store: Store;
  private readonly rules: RegistryRules;

  constructor(store: Store, rules: RegistryRules = {}) {
    this.store = store;
    this.rules = rules;
  }

  get({ kind, namespace, name }: Place): ApiObject {
    const object = this.store.find(kind, namespace, name);
    if (!object) throw notFound(kind, name);
    return object;
  }

  create(kind: Kind, namespace: string | undefined, body: ApiObject, user: User): ApiObject {
    checkType(kind, body);
    this.rules.restrict?.(user, { kind, subresource: undefined }, body);
    const metadata = createdMetadata(kind, namespace, body.metadata ?? {}, this.store.origin);
    if (kind.namespaced) this.checkNamespace(kind, metadata);
    if (this.store.find(kind, metadata.namespace, metadata.name)) throw alreadyExists(kind, metadata.name);
    return this.store.put(kind, this.prepared(kind, { ...body, metadata }, user));
  }

  /** Replaces a whole object (PUT); never creates one. */
  update(place: Place, body: ApiObject, user: User = SYSTEM): ApiObject {
    checkType(place.kind, body);
    if (body.metadata?.name !== place.name) {
      throw badRequest('the name of the object does not match the name on the URL');
    }
    const old = this.get(place);
    return this.write(place, old, body, user);
  }

  patch(place: Place, contentType: string, patch: unknown, user: User = SYSTEM): ApiObject {
    const old = this.get(place);
    return this.write(place, old, applyPatch(contentType, old, patch, place.kind.kind), user);
  }

  bind(place: Place, body: ApiObject): void {
    this.store.put(place.kind, boundPod(this.get(place), body, this.store.origin.nowMs()));
  }

  evict(place: Place, body: ApiObject): void {
    const options = (body as { deleteOptions?: DeleteOptions }).deleteOptions ?? {};
    const pod = this.get(place);
    checkPreconditions(place.kind, pod, options);
    this.store.put(place.kind, evictedPod(pod, this.store.origin.nowMs()));
    this.delete(place, options);
  }

  /** The object before its removal (or its state while it terminates), and whether it was removed. */
  delete(place: Place, options: DeleteOptions): { object: ApiObject; gone: boolean } {
    const { kind } = place;
    const object = this.get(place);
    checkPreconditions(kind, object, options);
    if (kind.resource === 'pods') {
      const graceSeconds = graceOf(object, options.gracePeriodSeconds);
      if (graceSeconds > 0) return { object: this.terminate(kind, object, graceSeconds), gone: false };
    }
    if ((object.metadata.finalizers ?? []).length > 0) {
      return { object: this.terminate(kind, object, 0), gone: false };
    }
    const removed = this.store.remove(kind, object);
    if (kind.resource === 'namespaces') this.emptyNamespace(place.name);
    return { object: removed, gone: true };
  }

  private terminate(kind: Kind, object: ApiObject, graceSeconds: number): ApiObject {
    const ending = terminatingPod(object, graceSeconds, this.store.origin.nowMs());
    return ending ? this.store.put(kind, ending) : object;
  }

  private emptyNamespace(namespace: string): void {
    for (const { kind, object } of this.store.inNamespace(namespace)) this.store.remove(kind, object);
  }

  private write(place: Place, old: ApiObject, body: ApiObject, user: User): ApiObject {
    const { kind, name } = place;
    const { resourceVersion, uid } = body.metadata;
    if (resourceVersion && resourceVersion !== old.metadata.resourceVersion) throw conflict(kind, name, MODIFIED);
    if (uid && uid !== old.metadata.uid) {
      const why = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${old.metadata.uid}`;
      throw conflict(kind, name, why);
    }
    const next = this.merged(place, old, body);
    this.rules.restrict?.(user, place, next, old);
    if (same(normal(next), normal(old))) return old;
    if (isReleased(next)) return this.store.remove(kind, next);
    return this.store.put(kind, next);
  }

  /** The part of the body that an update of this subresource uses. */
  private merged({ kind, subresource }: Place, old: ApiObject, body: ApiObject): ApiObject {
    const metadata = updatedMetadata(old.metadata, body.metadata);
    switch (subresource) {
      case undefined: {
        const kept = kind.subresources.includes('status')
          ? { ...body, metadata, ...statusOf(old) }
          : { ...body, metadata };
        const next = kind.resource === 'pods' ? updatedPod(kept, old) : kept;
        return hasGeneration(kind) && !same(next.spec, old.spec) ? nextGeneration(next) : next;
      }
      case 'status':
        return { ...old, metadata, ...statusOf(body) };
      case 'approval':
        return { ...old, status: { ...old.status, conditions: body.status?.['conditions'] ?? [] } };
      case 'ephemeralcontainers':
        return nextGeneration({
          ...old,
          spec: { ...old.spec, ephemeralContainers: body.spec?.['ephemeralContainers'] ?? [] },
        });
      case 'resize':
        return nextGeneration({ ...old, spec: resized(old.spec ?? {}, body.spec ?? {}) });
      default:
        throw unknownPath();
    }
  }

  private checkNamespace(kind: Kind, { namespace, name }: Metadata): void {
    const namespaces = knownKind('v1', 'namespaces');
    const found = this.store.find(namespaces, undefined, namespace ?? '');
    if (!found) throw notFound(namespaces, namespace ?? '');
    if (found.metadata.deletionTimestamp) {
      const why = 'unable to create new content in namespace';
      throw forbidden(`${kind.resource} "${name}" is forbidden: ${why} ${namespace} because it is being terminated`);
    }
  }

  private prepared(kind: Kind, object: ApiObject, user: User): ApiObject {
    switch (kind.resource) {
      case 'pods':
        return createdPod(object, this.store);
      case 'certificatesigningrequests':
        return this.rules.createdCsr?.(object, user) ?? object;
      case 'podcertificaterequests':
        return createdPodRequest(kind, object, this.store);
      case 'namespaces':
        return { ...object, spec: { finalizers: ['kubernetes'] }, status: { phase: 'Active' } };
      case 'secrets':
        return withStringData(object);
      default:
        return hasGeneration(kind) ? { ...object, metadata: { ...object.metadata, generation: 1 } } : object;
    }
  }
}

function checkType(kind: Kind, body: ApiObject): void {
  if (!isFields(body)) throw badRequest('the request has no object');
  if (body.kind === kind.kind && body.apiVersion === apiVersionOf(kind)) return;
  throw badRequest(
    `the object provided is unrecognized (must be of type ${kind.kind}): got ${body.apiVersion ?? ''}/${body.kind ?? ''}`,
  );
}

function createdMetadata(
  kind: Kind,
  namespace: string | undefined,
  given: Partial<Metadata>,
  origin: Origin,
): Metadata {
  const { generateName } = given;
  if (namespace !== undefined && given.namespace && given.namespace !== namespace) {
    throw badRequest(`the namespace of the provided object does not match the namespace sent on the request`);
  }
  const name = given.name || (generateName ? `${generateName}${origin.suffix()}` : '');
  if (name === '') throw invalid(kind, '', 'metadata.name', 'Required value: name or generateName is required');
  if (!NAME.test(name)) throw invalid(kind, name, 'metadata.name', `Invalid value: "${name}"`);
  const { deletionTimestamp: _end, deletionGracePeriodSeconds: _grace, ...kept } = given;
  return {
    ...kept,
    name,
    ...(kind.namespaced ? { namespace: namespace ?? 'default' } : {}),
    uid: origin.uid(name),
    resourceVersion: '',
    creationTimestamp: timestamp(origin.nowMs()),
  };
}

/** The new metadata; fields that only the server sets are unchanged. */
function updatedMetadata(old: Metadata, given: Metadata): Metadata {
  const {
    name,
    namespace,
    generateName,
    uid,
    creationTimestamp,
    deletionTimestamp,
    deletionGracePeriodSeconds,
    generation,
  } = old;
  // As Go encodes them: an empty map or list is left out.
  const filled = Object.entries(given).filter(([, value]) => !isEmpty(value));
  return {
    ...Object.fromEntries(filled),
    name,
    uid,
    creationTimestamp,
    resourceVersion: old.resourceVersion,
    ...(namespace === undefined ? {} : { namespace }),
    ...(generateName === undefined ? {} : { generateName }),
    ...(generation === undefined ? {} : { generation }),
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    ...(deletionGracePeriodSeconds === undefined ? {} : { deletionGracePeriodSeconds }),
  };
}

const isEmpty = (value: unknown): boolean =>
  typeof value === 'object' && (value === null || Object.keys(value).length === 0);

const statusOf = ({ status }: ApiObject) => (status === undefined ? {} : { status });

const hasGeneration = (kind: Kind): boolean =>
  ['apps', 'batch', 'policy'].includes(kind.group) || kind.resource === 'pods';

const nextGeneration = (object: ApiObject): ApiObject => ({
  ...object,
  metadata: { ...object.metadata, generation: (object.metadata.generation ?? 1) + 1 },
});

function resized(old: Fields, asked: Fields): Fields {
  const resourcesOf = new Map(
    ['containers', 'initContainers'].flatMap((list) =>
      fieldsIn(asked, list).map((each) => [`${list}/${textOf(each['name'])}`, each['resources']] as const),
    ),
  );
  const changed = (list: string) =>
    Array.isArray(old[list])
      ? {
          [list]: fieldsIn(old, list).map((each) => ({
            ...each,
            resources: resourcesOf.get(`${list}/${textOf(each['name'])}`) ?? each['resources'] ?? {},
          })),
        }
      : {};
  const whole = asked['resources'] === undefined ? {} : { resources: asked['resources'] };
  return { ...old, ...whole, ...changed('containers'), ...changed('initContainers') };
}

function withStringData(object: ApiObject): ApiObject {
  const { stringData, ...rest } = object;
  const type = rest['type'] ?? 'Opaque';
  if (!isFields(stringData)) return { ...rest, type };
  const encoded = Object.entries(stringData).map(([key, value]) => [
    key,
    Buffer.from(textOf(value)).toString('base64'),
  ]);
  return {
    ...rest,
    type,
    data: { ...(isFields(rest['data']) ? rest['data'] : {}), ...Object.fromEntries(encoded) },
  };
}

/** Whether an object can be removed: its deletion was requested, its grace period is over, and it has no finalizer. */
const isReleased = ({ metadata }: ApiObject): boolean =>
  metadata.deletionTimestamp !== undefined &&
  (metadata.deletionGracePeriodSeconds ?? 0) === 0 &&
  (metadata.finalizers ?? []).length === 0;

const normal = (object: ApiObject): unknown =>
  sorted({ ...object, metadata: { ...object.metadata, resourceVersion: '' } });

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isFields(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, part]) => [key, sorted(part)]),
  );
}

function checkPreconditions(kind: Kind, object: ApiObject, { preconditions }: DeleteOptions): void {
  const { uid, resourceVersion } = preconditions ?? {};
  const metadata = object.metadata;
  if (uid !== undefined && uid !== metadata.uid)
    throw outdated(kind, metadata.name, ['UID', uid, metadata.uid], 'deleted and then recreated');
  if (resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion) {
    throw outdated(kind, metadata.name, ['ResourceVersion', resourceVersion, metadata.resourceVersion], 'modified');
  }
}

function outdated(kind: Kind, name: string, [what, asked, own]: readonly string[], happened: string): Refusal {
  const why =
    `the ${what} in the precondition (${asked}) does not match the ${what} in record (${own}). ` +
    `The object might have been ${happened}`;
  return conflict({ ...kind, resource: kind.kind }, name, why);
}

/** A PodCertificateRequest must name the existing pod, service account and node, as NodeRestriction requires. */
function createdPodRequest(kind: Kind, request: ApiObject, store: Store): ApiObject {
  const spec = request.spec ?? {};
  const text = (field: string) => textOf(spec[field]);
  const { name, namespace } = request.metadata;
  const pod = store.get('v1', 'pods', text('podName'), namespace);
  const account = store.get('v1', 'serviceaccounts', text('serviceAccountName'), namespace);
  const node = store.get('v1', 'nodes', text('nodeName'));
  const requiredFields: readonly (readonly [field: string, value: unknown])[] = [
    ['podUID', pod?.metadata.uid],
    ['serviceAccountUID', account?.metadata.uid],
    ['serviceAccountName', pod?.spec?.['serviceAccountName']],
    ['nodeName', pod?.spec?.['nodeName']],
    ['nodeUID', node?.metadata.uid],
  ];
  const [wrong] = requiredFields.find(([field, value]) => value === undefined || spec[field] !== value) ?? [];
  if (wrong !== undefined) throw invalid(kind, name, `spec.${wrong}`, `Invalid value: "${text(wrong)}"`);
  if (text('stubPKCS10Request') === '') throw invalid(kind, name, 'spec.stubPKCS10Request', 'Required value');
  const { status: _, ...stored } = request;
  return stored;
}
