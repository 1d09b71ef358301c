/**
 * What may cross the boundary between the machines and the world: plain JSON, nothing else.
 *
 * 64-bit integers travel as decimal strings, bytes as base64 or as the hash of a blob, times as RFC 3339 text or as
 * milliseconds of the kernel's clock, errors as {@link PlainError}.
 */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

export type JsonObject = { readonly [key: string]: Json | undefined };

/** Neither a list nor `null`. */
export function isObject(value: Json | undefined): value is JsonObject;
export function isObject(value: unknown): value is Readonly<Record<string, unknown>>;
export function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** An event as the journal keeps it. */
export interface JsonEvent {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** How an error looks inside machines and journal: never a stack, never an instance. */
export interface PlainError {
  readonly name: string;
  readonly message: string;
  /** gRPC code name (`NOT_FOUND`), errno name (`ENOENT`) or HTTP status (`409`), where the world gave one. */
  readonly code?: string;
  /** True when the same request may succeed later without any change. */
  readonly retriable: boolean;
  /** How long the server asked to be left alone, in milliseconds. */
  readonly retryAfterMs?: number;
}

/** An error of a port that already knows its code and whether trying again can help. */
export class OperationError extends Error {
  readonly code: string | undefined;
  readonly retriable: boolean;
  readonly retryAfterMs: number | undefined;
  constructor(
    message: string,
    details: { name?: string; code?: string; retriable?: boolean; retryAfterMs?: number | undefined } = {},
  ) {
    super(message);
    this.name = details.name ?? 'OperationError';
    this.code = details.code;
    this.retriable = details.retriable ?? false;
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** Turns anything that was thrown into the form that machines and journal hold. */
export function toPlainError(thrown: unknown): PlainError {
  if (!(thrown instanceof Error)) return { name: 'Error', message: String(thrown), retriable: false };
  const { code, retriable, retryAfterMs } = thrown as {
    code?: string | number;
    retriable?: unknown;
    retryAfterMs?: unknown;
  };
  return {
    name: thrown.name,
    message: thrown.message,
    ...(code === undefined ? {} : { code: String(code) }),
    retriable: retriable === true,
    ...(typeof retryAfterMs === 'number' ? { retryAfterMs } : {}),
  };
}
