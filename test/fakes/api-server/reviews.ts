/** TokenReview and SubjectAccessReview, which a kubelet's own server requests. */
import { unknownPath } from '../../../src/simulation/api-server/errors.ts';
import {
  type ApiObject,
  type Fields,
  isFields,
  type Kind,
  textOf,
  type User,
} from '../../../src/simulation/api-server/kinds.ts';
import type { Users } from './users.ts';

export interface AccessRule {
  /** `*` for all users. */
  readonly user?: string;
  readonly group?: string;
  readonly verbs: readonly string[];
  /** `nodes`, `nodes/proxy`, `*`. Paths that are not resources begin with `/`. */
  readonly resources: readonly string[];
}

/** The attributes of one request, as in SubjectAccessReview. */
interface AccessQuestion {
  readonly user: string;
  readonly groups: readonly string[];
  readonly verb: string;
  /** `nodes/proxy`, `pods`, or the path. */
  readonly resource: string;
}

export function review(kind: Kind, body: ApiObject, user: User, users: Users, rules: readonly AccessRule[]): ApiObject {
  switch (kind.resource) {
    case 'tokenreviews':
      return { ...body, status: tokenStatus(body.spec ?? {}, users) };
    case 'subjectaccessreviews':
      return { ...body, status: accessStatus(question(body.spec ?? {}), rules) };
    case 'selfsubjectaccessreviews':
      return {
        ...body,
        status: accessStatus({ ...question(body.spec ?? {}), user: user.name, groups: user.groups }, rules),
      };
    default:
      throw unknownPath();
  }
}

function tokenStatus(spec: Fields, users: Users): Fields {
  const audiences = Array.isArray(spec['audiences']) ? spec['audiences'].map(String) : undefined;
  const user = users.tokenUser(textOf(spec['token']), audiences);
  if (!user) return { user: {}, error: '[invalid bearer token, token lookup failed]' };
  const { name: username, uid, groups, extra } = user;
  return {
    authenticated: true,
    user: {
      username,
      ...(uid === undefined ? {} : { uid }),
      groups: [...new Set([...groups, 'system:authenticated'])],
      ...(extra === undefined ? {} : { extra: extra as unknown as Fields }),
    },
    ...(audiences === undefined ? {} : { audiences }),
  };
}

function question(spec: Fields): AccessQuestion {
  const { user, groups, resourceAttributes, nonResourceAttributes } = spec;
  const attributes = isFields(resourceAttributes) ? resourceAttributes : undefined;
  const { resource = '', subresource } = attributes ?? {};
  const path = isFields(nonResourceAttributes) ? nonResourceAttributes['path'] : '';
  const verb = attributes?.['verb'] ?? (isFields(nonResourceAttributes) ? nonResourceAttributes['verb'] : '');
  return {
    user: textOf(user),
    groups: Array.isArray(groups) ? groups.map(String) : [],
    verb: textOf(verb),
    resource: attributes ? `${textOf(resource)}${subresource ? `/${textOf(subresource)}` : ''}` : textOf(path),
  };
}

function accessStatus(asked: AccessQuestion, rules: readonly AccessRule[]): Fields {
  const allowed = asked.groups.includes('system:masters') || rules.some((rule) => permits(rule, asked));
  return allowed ? { allowed: true, reason: 'allowed by a rule of the test API server' } : { allowed: false };
}

function permits(rule: AccessRule, { user, groups, verb, resource }: AccessQuestion): boolean {
  const person = rule.user === '*' || rule.user === user || (rule.group !== undefined && groups.includes(rule.group));
  const has = (list: readonly string[], value: string) => list.includes('*') || list.includes(value);
  return person && has(rule.verbs, verb) && has(rule.resources, resource);
}
