/** The errors of an API server: a Status object with code, reason, message and details. */
import type { Kind } from './kinds.ts';

interface RefusalDetails {
  readonly code: number;
  readonly reason: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly retryAfterSeconds?: number;
}

export class Refusal extends Error {
  readonly code: number;
  readonly reason: string;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(message: string, { code, reason, details, retryAfterSeconds }: RefusalDetails) {
    super(message);
    this.name = 'Refusal';
    this.code = code;
    this.reason = reason;
    this.details = details;
    this.retryAfterSeconds = retryAfterSeconds;
  }

  status(): Record<string, unknown> {
    const details =
      this.retryAfterSeconds === undefined
        ? this.details
        : { ...this.details, retryAfterSeconds: this.retryAfterSeconds };
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: this.message,
      reason: this.reason,
      ...(details ? { details } : {}),
      code: this.code,
    };
  }
}

const named = (kind: Kind, name: string) => ({
  name,
  ...(kind.group === '' ? {} : { group: kind.group }),
  kind: kind.resource,
});
/** `pods` or `leases.coordination.k8s.io`. */
const qualified = (kind: Kind): string => (kind.group === '' ? kind.resource : `${kind.resource}.${kind.group}`);

export const notFound = (kind: Kind, name: string): Refusal =>
  new Refusal(`${qualified(kind)} "${name}" not found`, {
    code: 404,
    reason: 'NotFound',
    details: named(kind, name),
  });

export const alreadyExists = (kind: Kind, name: string): Refusal =>
  new Refusal(`${qualified(kind)} "${name}" already exists`, {
    code: 409,
    reason: 'AlreadyExists',
    details: named(kind, name),
  });

export const conflict = (kind: Kind, name: string, why: string): Refusal =>
  new Refusal(`Operation cannot be fulfilled on ${qualified(kind)} "${name}": ${why}`, {
    code: 409,
    reason: 'Conflict',
    details: named(kind, name),
  });

export const MODIFIED = 'the object has been modified; please apply your changes to the latest version and try again';

export const invalid = (kind: Kind, name: string, field: string, why: string): Refusal =>
  new Refusal(`${kind.kind}${kind.group === '' ? '' : `.${kind.group}`} "${name}" is invalid: ${field}: ${why}`, {
    code: 422,
    reason: 'Invalid',
    details: { ...named(kind, name), causes: [{ reason: 'FieldValueInvalid', message: why, field }] },
  });

export const badRequest = (message: string): Refusal => new Refusal(message, { code: 400, reason: 'BadRequest' });

export const forbidden = (message: string): Refusal => new Refusal(message, { code: 403, reason: 'Forbidden' });

export const unauthorized = (): Refusal => new Refusal('Unauthorized', { code: 401, reason: 'Unauthorized' });

export const unknownPath = (): Refusal =>
  new Refusal('the server could not find the requested resource', { code: 404, reason: 'NotFound', details: {} });

export const notAllowed = (): Refusal =>
  new Refusal('the server does not allow this method on the requested resource', {
    code: 405,
    reason: 'MethodNotAllowed',
    details: {},
  });

/** The version that a watch or the next page requests is no longer stored. */
export const expired = (message: string): Refusal => new Refusal(message, { code: 410, reason: 'Expired' });
