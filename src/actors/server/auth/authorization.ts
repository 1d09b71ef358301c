/** Authorizes users: the verb of a method, the rights of an endpoint, and upstream's text of a denial. */
import { type Answer, text } from '../http/answer.ts';
import type { Subresource, User } from '../http/endpoint.ts';

/** The attributes of a SubjectAccessReview. */
interface Attributes {
  readonly user: User;
  readonly verb: string;
  readonly subresource: Subresource;
}

/** Whether the request is allowed. A rejection means that the review failed. */
export type Authorize = (attributes: Attributes) => Promise<boolean>;

export const alwaysAllow: Authorize = async () => true;

const VERBS: Readonly<Record<string, string>> = {
  POST: 'create',
  GET: 'get',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};

/** Methods without a Kubernetes verb have the empty one: rights to a named verb never cover it. */
const verbOf = (method: string): string => VERBS[method] ?? '';

/** `null` allows the request. One of the listed rights is sufficient; the more specific is checked first. */
export async function authorize(
  user: User,
  method: string,
  subresources: readonly Subresource[],
  isAllowed: Authorize,
): Promise<Answer | null> {
  const verb = verbOf(method);
  const asked = `user=${user.name}, verb=${verb}, resource=nodes`;
  for (const subresource of subresources) {
    try {
      if (await isAllowed({ user, verb, subresource })) return null;
    } catch {
      return text(500, `Authorization error (${asked}, subresource=${subresource})`);
    }
  }
  return text(403, `Forbidden (${asked}, subresource(s)=[${subresources.join(' ')}])\n`);
}

export const unauthorized = (): Answer => text(401, 'Unauthorized');
