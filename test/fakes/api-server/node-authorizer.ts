/**
 * The rights of nodes by the API server's node authorizer and its admission plugin NodeRestriction: for their own Node,
 * Lease and CSINode, the pods that are bound to them, and the objects that those pods refer to. Other users may do
 * everything here.
 */
import { isDeepStrictEqual } from 'node:util';
import { forbidden } from '../../../src/simulation/api-server/errors.ts';
import {
  type ApiObject,
  apiVersionOf,
  type Fields,
  isFields,
  type User,
} from '../../../src/simulation/api-server/kinds.ts';
import type { Store } from '../../../src/simulation/api-server/store.ts';
import { nodeReferences } from './node-references.ts';
import type { Target } from './router.ts';

interface Asked {
  readonly user: User;
  readonly target: Target;
  readonly verb: Verb;
  readonly query: URLSearchParams;
}

type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection';

const READING: readonly Verb[] = ['get', 'list', 'watch'];
const OWNING: readonly Verb[] = ['get', 'create', 'update', 'patch', 'delete'];

/** The verb of a request by its method. */
export function verbOf(method: string, { name }: Target, isWatch: boolean): Verb {
  if (method === 'GET') return isWatch ? 'watch' : name === undefined ? 'list' : 'get';
  if (method === 'DELETE') return name === undefined ? 'deletecollection' : 'delete';
  return ({ PUT: 'update', PATCH: 'patch' } as const)[method] ?? 'create';
}

/** Rejects a request that this user, if it is a node, may not send. */
export function authorize(asked: Asked, store: Store): void {
  const node = nodeOf(asked.user);
  if (node === undefined) return;
  const why = refusalFor(node, asked, store);
  if (why === '') return;
  const { target, verb, user } = asked;
  const resource = [target.kind.resource, ...(target.subresource ? [target.subresource] : [])].join('/');
  const object = target.name === undefined ? resource : `${target.kind.resource} "${target.name}"`;
  const place = target.namespace === undefined ? 'at the cluster scope' : `in the namespace "${target.namespace}"`;
  throw forbidden(
    `${object} is forbidden: User "${user.name}" cannot ${verb} resource "${resource}" in API group ` +
      `"${target.kind.group}" ${place}: ${why}`,
  );
}

function nodeOf({ name, groups }: User): string | undefined {
  return groups.includes('system:nodes') ? /^system:node:(.+)$/.exec(name)?.[1] : undefined;
}

type Rule = (node: string, asked: Asked, store: Store) => string;

const rule = (isAllowed: boolean, why: string): string => (isAllowed ? '' : why);

/** The name of the requested object; lists and watches may name one by their field selector. */
const nameIn = ({ target, query }: Asked): string =>
  target.name ?? selected(query).find(([field]) => field === 'metadata.name')?.[1] ?? '';

const selected = (query: URLSearchParams): (readonly [string, string])[] =>
  (query.get('fieldSelector') ?? '').split(',').flatMap((term) => {
    const match = /^([\w.]+)==?([^=].*)$/.exec(term);
    return match ? [[match[1]!, match[2]!] as const] : [];
  });

const selects = ({ query }: Asked, field: string, value: string): boolean =>
  selected(query).some(([name, wanted]) => name === field && wanted === value);

const related =
  (verbs: readonly Verb[]): Rule =>
  (node, asked, store) => {
    const { target, verb } = asked;
    if (!verbs.includes(verb) || target.subresource !== undefined) return `can only ${verbs.join(', ')} this type`;
    const key = `${target.kind.resource}/${target.namespace ?? ''}/${nameIn(asked)}`;
    const isRelated = nodeReferences(store, node).has(key);
    return rule(isRelated, `no relationship found between node '${node}' and this object`);
  };

const withoutSubresource = (asked: Asked): Asked => ({ ...asked, target: { ...asked.target, subresource: undefined } });

/** The node's own object; the admission checks the name of a created one. */
const own: Rule = (node, asked) =>
  rule(
    OWNING.includes(asked.verb) && (asked.verb === 'create' || asked.target.name === node),
    'can only access the one with the same name as the requesting node',
  );

const forNode =
  (field: string, verbs: readonly Verb[]): Rule =>
  (node, asked, store) => {
    const { target, verb } = asked;
    if (verb === 'get') return related(['get'])(node, asked, store);
    if (!verbs.includes(verb) && !READING.includes(verb)) return 'not of a node';
    if (verb !== 'list' && verb !== 'watch' && verb !== 'deletecollection') return '';
    return rule(
      selects(asked, field, node),
      `can only list/watch/deletecollection ${target.kind.resource} with ${field} field selector`,
    );
  };

const statusOnly: Rule = (_node, { verb }) => rule(verb === 'update' || verb === 'patch', 'can only update its status');
const verbs =
  (...allowed: readonly Verb[]): Rule =>
  (_node, { verb }) =>
    rule(allowed.includes(verb), `can only ${allowed.join(', ')} this type`);

const RULES: Readonly<Record<string, Rule>> = {
  'v1/secrets': related(READING),
  'v1/configmaps': related(READING),
  'v1/persistentvolumeclaims': related(['get']),
  'v1/persistentvolumeclaims/status': (node, asked, store) =>
    related(['update', 'patch'])(node, withoutSubresource(asked), store),
  'v1/persistentvolumes': related(['get']),
  'storage.k8s.io/v1/volumeattachments': related(['get']),
  'v1/serviceaccounts': related(['get']),
  'v1/serviceaccounts/token': (node, asked, store) => related(['create'])(node, withoutSubresource(asked), store),
  'v1/nodes': (node, asked, store) =>
    READING.includes(asked.verb)
      ? rule(nameIn(asked) === node, `node '${node}' cannot read all nodes, only its own Node object`)
      : verbs('create', 'update', 'patch')(node, asked, store),
  'v1/nodes/status': statusOnly,
  'v1/pods': forNode('spec.nodeName', ['create', 'delete']),
  'v1/pods/status': statusOnly,
  'v1/pods/eviction': verbs('create'),
  'coordination.k8s.io/v1/leases': own,
  'storage.k8s.io/v1/csinodes': own,
  'resource.k8s.io/v1/resourceclaims': related(['get']),
  'resource.k8s.io/v1/resourceslices': forNode('spec.nodeName', [
    'create',
    'update',
    'patch',
    'delete',
    'deletecollection',
  ]),
  'certificates.k8s.io/v1beta1/podcertificaterequests': forNode('spec.nodeName', ['create']),
  'certificates.k8s.io/v1/certificatesigningrequests': verbs('create', 'get', 'list', 'watch'),
  'certificates.k8s.io/v1beta1/clustertrustbundles': verbs(...READING),
  'v1/services': verbs(...READING),
  'v1/events': verbs('create', 'update', 'patch'),
  'node.k8s.io/v1/runtimeclasses': verbs(...READING),
  'storage.k8s.io/v1/csidrivers': verbs(...READING),
  'authentication.k8s.io/v1/tokenreviews': verbs('create'),
  'authorization.k8s.io/v1/subjectaccessreviews': verbs('create'),
};

function refusalFor(node: string, asked: Asked, store: Store): string {
  const { kind, subresource } = asked.target;
  const key = [apiVersionOf(kind), kind.resource, ...(subresource ? [subresource] : [])].join('/');
  return RULES[key]?.(node, asked, store) ?? 'no rule for nodes allows it';
}

type Written = Pick<Target, 'kind'> & { readonly name?: string | undefined; readonly subresource?: string | undefined };

/** Rejects an object that a node may not write. `old` is the existing object, if any. */
export function restrict(user: User, { kind, subresource, name }: Written, body: ApiObject, old?: ApiObject): void {
  const node = nodeOf(user);
  if (node === undefined) return;
  const why = RESTRICTIONS[[kind.resource, ...(subresource ? [subresource] : [])].join('/')]?.(node, body, old) ?? '';
  if (why === '') return;
  throw forbidden(`${kind.resource} "${name ?? body.metadata?.name ?? ''}" is forbidden: ${why}`);
}

type Restriction = (node: string, body: ApiObject, old: ApiObject | undefined) => string;

const named: Restriction = (node, body, old) =>
  rule((old ?? body).metadata.name === node, 'can only access the one with the same name as the requesting node');

const RESTRICTIONS: Readonly<Record<string, Restriction>> = {
  pods: (node, body, old) =>
    old === undefined ? mirrorRefusal(node, body) : 'a node can only create and delete mirror pods',
  'pods/status': (node, body, old) => {
    if (old?.spec?.['nodeName'] !== node) {
      return `node "${node}" can only update pod status for pods with spec.nodeName set to itself`;
    }
    return rule(
      isDeepStrictEqual(body.metadata.labels ?? {}, old.metadata.labels ?? {}),
      `node "${node}" cannot update labels through pod status`,
    );
  },
  nodes: (node, body, old) => {
    if ((old ?? body).metadata.name !== node) return `node "${node}" is not allowed to modify another node`;
    const taints = (of: ApiObject) => of.spec?.['taints'] ?? [];
    const isSame = old === undefined || isDeepStrictEqual(taints(old), taints(body));
    return rule(isSame, `node "${node}" is not allowed to modify taints`);
  },
  'nodes/status': named,
  leases: (node, body, old) =>
    body.metadata.namespace === undefined || body.metadata.namespace === 'kube-node-lease'
      ? named(node, body, old)
      : 'can only access leases in the "kube-node-lease" system namespace',
  csinodes: named,
  'serviceaccounts/token': (_node, body) => {
    const { apiVersion, kind, name, uid } = fieldsOf(body.spec?.['boundObjectRef']);
    if (apiVersion !== 'v1' || kind !== 'Pod' || !name) return 'node requested token not bound to a pod';
    return rule(Boolean(uid), 'node requested token with a pod binding without a uid');
  },
};

function mirrorRefusal(node: string, { metadata, spec = {} }: ApiObject): string {
  if (metadata.annotations?.['kubernetes.io/config.mirror'] === undefined) {
    return `pod does not have "kubernetes.io/config.mirror" annotation, node "${node}" can only create mirror pods`;
  }
  if (spec['nodeName'] !== node) return `node "${node}" can only create pods with spec.nodeName set to itself`;
  const owners = (metadata as unknown as { ownerReferences?: Fields[] }).ownerReferences ?? [];
  const [owner = {}] = owners;
  const isOwned = owners.length === 1 && owner['kind'] === 'Node' && owner['name'] === node;
  if (!isOwned || owner['controller'] !== true || owner['blockOwnerDeletion'] === true) {
    return `node "${node}" can only create pods with a controller owner reference set to itself`;
  }
  return rule(!spec['serviceAccountName'], `node "${node}" can not create pods that reference a service account`);
}

const fieldsOf = (value: unknown): Fields => (isFields(value) ? value : {});
