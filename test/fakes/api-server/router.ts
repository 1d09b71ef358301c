/** From a request to a verb on a target, and from its result to an answer. */

import { badRequest, notAllowed, Refusal, unknownPath } from '../../../src/simulation/api-server/errors.ts';
import {
  type ApiObject,
  apiVersionOf,
  type Kind,
  kindOf,
  parseJson,
  type User,
} from '../../../src/simulation/api-server/kinds.ts';
import type { DeleteOptions, Place, Registry } from '../../../src/simulation/api-server/registry.ts';
import { type Store, selectorOf } from '../../../src/simulation/api-server/store.ts';
import type { Answer } from './answers.ts';
import { restrict } from './node-authorizer.ts';
import { type AccessRule, review } from './reviews.ts';
import type { ServiceAccountTokens } from './service-account-tokens.ts';
import { tableOf } from './table.ts';
import type { Users } from './users.ts';

export interface Target {
  readonly kind: Kind;
  readonly namespace: string | undefined;
  /** Absent for a collection. */
  readonly name: string | undefined;
  readonly subresource: string | undefined;
  /** The path after the subresource `proxy`. */
  readonly rest: string;
}

export interface Call {
  readonly method: string;
  readonly target: Target;
  readonly query: URLSearchParams;
  readonly user: User;
  readonly contentType: string;
  readonly accept: string;
  readonly body: string;
}

/** The target of a path of the REST API. Rejects unknown paths. */
export function targetOf(path: string): Target {
  const parts = path.split('/').filter(Boolean).map(decodeURIComponent);
  const apiVersion = parts[0] === 'api' ? parts[1] : parts[0] === 'apis' ? `${parts[1]}/${parts[2]}` : undefined;
  const steps = parts.slice(parts[0] === 'api' ? 2 : 3);
  if (apiVersion === undefined) throw unknownPath();
  const inNamespace = steps[0] === 'namespaces' && steps.length > 2 && !['status', 'finalize'].includes(steps[2]!);
  const namespace = inNamespace ? steps[1] : undefined;
  const [resource = '', name, subresource, ...rest] = inNamespace ? steps.slice(2) : steps;
  const kind = kindOf(apiVersion, resource);
  if (!kind) throw unknownPath();
  if (subresource !== undefined && !kind.subresources.includes(subresource)) throw unknownPath();
  if (kind.namespaced && name !== undefined && namespace === undefined) throw unknownPath();
  const end = rest.length > 0 && path.endsWith('/') ? '/' : '';
  return { kind, namespace, name, subresource, rest: rest.join('/') + end };
}

interface RouterParts {
  readonly store: Store;
  readonly registry: Registry;
  readonly users: Users;
  readonly tokens: ServiceAccountTokens;
  /** What SubjectAccessReview allows; may change while the server runs. */
  readonly accessRules: readonly AccessRule[];
}

export class Router {
  private readonly parts: RouterParts;

  constructor(parts: RouterParts) {
    this.parts = parts;
  }

  answer(call: Call): Answer {
    if (call.query.has('dryRun')) throw badRequest('the test API server has no dryRun');
    const { method, target } = call;
    if (method === 'POST') return this.post(call);
    if (method === 'GET') return this.read(call);
    if (target.name === undefined) {
      if (method === 'DELETE') return this.deleteAll(call);
      throw notAllowed();
    }
    return this.change(call, placeOf(target));
  }

  private read(call: Call): Answer {
    const { target } = call;
    if (target.kind.review) throw notAllowed();
    if (target.name === undefined) return this.list(call);
    return this.one(call, this.parts.registry.get(placeOf(target)));
  }

  private change(call: Call, place: Place): Answer {
    const { registry } = this.parts;
    switch (call.method) {
      case 'PUT':
        return this.one(call, registry.update(place, objectOf(call), call.user));
      case 'PATCH':
        return this.one(call, registry.patch(place, call.contentType, parsed(call), call.user));
      case 'DELETE':
        return this.delete(call, place);
      default:
        throw notAllowed();
    }
  }

  private post(call: Call): Answer {
    const { kind, namespace, name, subresource } = call.target;
    const { registry, tokens, users, accessRules } = this.parts;
    const body = objectOf(call);
    if (kind.review) return { code: 201, body: review(kind, body, call.user, users, accessRules) };
    if (name === undefined) return { code: 201, body: registry.create(kind, namespace, body, call.user) };
    const place = placeOf(call.target);
    switch (subresource) {
      case 'binding':
        registry.bind(place, body);
        return { code: 201, body: SUCCESS };
      case 'eviction':
        registry.evict(place, body);
        return { code: 201, body: SUCCESS };
      case 'token':
        restrict(call.user, call.target, body);
        return { code: 201, body: tokens.request(registry.get(place), body) };
      default:
        throw notAllowed();
    }
  }

  private delete(call: Call, place: Place): Answer {
    const { object, gone } = this.parts.registry.delete(place, deleteOptions(call));
    if (!gone || place.kind.resource === 'pods') return { code: 200, body: object };
    const { name, uid } = object.metadata;
    const { group, resource } = place.kind;
    return { code: 200, body: { ...SUCCESS, details: { name, ...(group ? { group } : {}), kind: resource, uid } } };
  }

  private deleteAll(call: Call): Answer {
    const { kind, namespace } = call.target;
    const selects = selectorOf(call.query);
    const items = this.parts.store.all(kind, namespace).filter(selects);
    for (const { metadata } of items) {
      this.parts.registry.delete({ kind, namespace: metadata.namespace, name: metadata.name }, deleteOptions(call));
    }
    return { code: 200, body: listOf(kind, items, this.parts.store.resourceVersion) };
  }

  private list(call: Call): Answer {
    const { target, query } = call;
    const { kind } = target;
    const page = this.page(call);
    const body = isTable(call)
      ? tableOf(kind, page.items, query.get('includeObject'), page.resourceVersion)
      : listOf(kind, page.items, page.resourceVersion, page.metadata);
    return { code: 200, body };
  }

  /** One page of a listing, whose content stays that of the first page's time. */
  private page({ target, query }: Call) {
    const { store } = this.parts;
    const limit = Number(query.get('limit') ?? 0);
    const token = query.get('continue');
    const begun = token ? decodeToken(token) : undefined;
    const listing = begun
      ? store.kept(begun.version)
      : {
          version: Number(store.resourceVersion),
          objects: store.all(target.kind, target.namespace).filter(selectorOf(query)),
        };
    const start = begun?.start ?? 0;
    const end = limit > 0 ? Math.min(start + limit, listing.objects.length) : listing.objects.length;
    const remaining = listing.objects.length - end;
    if (remaining > 0) store.keep(listing);
    const more = { continue: encodeToken({ version: listing.version, start: end }), remainingItemCount: remaining };
    return {
      items: listing.objects.slice(start, end),
      resourceVersion: String(listing.version),
      metadata: remaining > 0 ? more : {},
    };
  }

  private one(call: Call, object: ApiObject): Answer {
    if (!isTable(call) || call.method !== 'GET') return { code: 200, body: object };
    const { resourceVersion } = object.metadata;
    return { code: 200, body: tableOf(call.target.kind, [object], call.query.get('includeObject'), resourceVersion) };
  }
}

const SUCCESS = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' };

/** True if the client prefers a Table to the objects. */
export const isTable = ({ accept }: Pick<Call, 'accept'>): boolean => accept.includes('as=Table');

function placeOf({ kind, namespace, name = '', subresource }: Target): Place {
  return { kind, namespace, name, subresource };
}

function listOf(kind: Kind, items: readonly ApiObject[], resourceVersion: string, more: object = {}): unknown {
  // As upstream, items of a list omit their kind.
  const bare = items.map(({ apiVersion: _version, kind: _kind, ...rest }) => rest);
  return {
    kind: `${kind.kind}List`,
    apiVersion: apiVersionOf(kind),
    metadata: { resourceVersion, ...more },
    items: bare,
  };
}

function parsed({ body, contentType }: Call): unknown {
  if (!/json|^$/.test(contentType)) {
    const message = 'the body of the request was in an unknown format - accepted media types include: application/json';
    throw new Refusal(message, { code: 415, reason: 'UnsupportedMediaType' });
  }
  try {
    return parseJson(body);
  } catch (error) {
    throw badRequest(`the object provided is unrecognized: ${(error as Error).message}`);
  }
}

const objectOf = (call: Call): ApiObject => parsed(call) as ApiObject;

function deleteOptions(call: Call): DeleteOptions {
  const options = call.body.trim() === '' ? {} : (parsed(call) as DeleteOptions);
  const grace = call.query.get('gracePeriodSeconds');
  return grace === null ? options : { ...options, gracePeriodSeconds: Number(grace) };
}

interface PageToken {
  readonly version: number;
  readonly start: number;
}

const encodeToken = (token: PageToken): string => Buffer.from(JSON.stringify(token)).toString('base64url');

function decodeToken(text: string): PageToken {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString()) as PageToken;
  } catch {
    throw badRequest('continue key is not valid');
  }
}
