/** One endpoint of the node's API, and a request for it. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Answer } from './answer.ts';

/** A subresource of nodes in authorization; `proxy` covers all paths without their own. */
export type Subresource =
  | 'healthz'
  | 'pods'
  | 'configz'
  | 'stats'
  | 'metrics'
  | 'log'
  | 'checkpoint'
  | 'statusz'
  | 'proxy';

/** The authenticated user. */
export interface User {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

export interface Upgrade {
  /** Takes the connection, with the bytes after the request. May be called once. */
  take(): { readonly socket: Duplex; readonly head: Buffer };
}

export interface ApiRequest {
  readonly method: string;
  /** The decoded path. */
  readonly path: string;
  /** Path parameters by name, decoded. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: ReadonlyMap<string, readonly string[]>;
  /** The raw query including its question mark; empty without a query. */
  readonly search: string;
  readonly raw: IncomingMessage;
  /** The upgrade that the client requested. An endpoint that takes it returns {@link import('./answer.ts').TAKEN}. */
  readonly upgrade: Upgrade | null;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
}

export interface Endpoint {
  /** `:name` stands for one segment, `*` at the end for the rest. */
  readonly path: string;
  /** `any`: the outer router accepts every method. */
  readonly methods: readonly string[] | 'any';
  /** The content types that the inner router checks; empty: only clients that accept any type. Absent: no check. */
  readonly produces?: readonly string[];
  /** The rights, each of which is sufficient, in the order of the checks. */
  readonly subresources: readonly Subresource[];
  readonly answer: (request: ApiRequest) => Answer | Promise<Answer>;
}

/** The first value of a parameter, as Go's `Get`. */
export const first = ({ query }: ApiRequest, name: string): string | undefined => query.get(name)?.[0];
