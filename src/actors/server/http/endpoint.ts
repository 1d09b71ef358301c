/** One endpoint of the node's API, and a request for it. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Answer } from './answer.ts';

/** Part of a node that a user may have rights on; `proxy` covers all paths without a part of their own. */
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

/** The user, as the authenticator found. */
export interface User {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

export interface Upgrade {
  /** The connection, and what the client sent on it after the request. Once. */
  take(): { readonly socket: Duplex; readonly head: Buffer };
}

export interface ApiRequest {
  readonly method: string;
  /** Decoded. */
  readonly path: string;
  /** Parts of the path by name, decoded. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: ReadonlyMap<string, readonly string[]>;
  /** The query as it was sent, with its question mark; empty without a query. */
  readonly search: string;
  readonly raw: IncomingMessage;
  /** The way out of HTTP, when the client asked for one. Who takes it answers {@link import('./answer.ts').TAKEN}. */
  readonly upgrade: Upgrade | null;
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal;
}

export interface Endpoint {
  /** `:name` stands for one segment, `*` at the end for the rest. */
  readonly path: string;
  /** `any`: the outer router passes every method on. */
  readonly methods: readonly string[] | 'any';
  /** The types that the inner router answers in; empty: only clients that accept any type. Absent: no check. */
  readonly produces?: readonly string[];
  /** Rights of which one is enough; tried in this order. */
  readonly subresources: readonly Subresource[];
  readonly answer: (request: ApiRequest) => Answer | Promise<Answer>;
}

/** The first value of a parameter, as Go's `Get`. */
export const first = ({ query }: ApiRequest, name: string): string | undefined => query.get(name)?.[0];
