/**
 * Faults on request: what an API server with problems does to its clients.
 *
 * A fault affects the requests that it matches, as often as `times` says.
 */
import type { WatchEnd } from './watches.ts';

interface RequestMatch {
  /** `GET`, `PATCH`, ... */
  readonly method?: string;
  /** The text is a part of the path with its query, or the expression matches it. */
  readonly path?: string | RegExp;
  readonly user?: string;
  /** True: only watches; false: everything except watches. */
  readonly watch?: boolean;
}

export type FaultKind =
  /** A Status with this code; `reason` and `message` as the server would send them. */
  | {
      readonly kind: 'status';
      readonly code: number;
      readonly reason?: string;
      readonly message?: string;
      readonly retryAfterSeconds?: number;
    }
  /** The first half of the answer, and then a regular end. */
  | { readonly kind: 'halfJson' }
  /** The first half of the answer, then the connection breaks. */
  | { readonly kind: 'brokenJson' }
  /** There is no answer. */
  | { readonly kind: 'hang' }
  /** The connection is closed without an answer. */
  | { readonly kind: 'drop' }
  /** The answer comes in pieces of a few bytes. */
  | { readonly kind: 'slow'; readonly bytes: number; readonly everyMs: number }
  /** The request is performed, and then the connection breaks without an answer. */
  | { readonly kind: 'loseAnswer' }
  /** The answer is success with this text, and nothing is performed. */
  | { readonly kind: 'body'; readonly text: string }
  | { readonly kind: 'delay'; readonly ms: number };

export type Fault = RequestMatch & FaultKind & { readonly times?: number };

interface Question {
  readonly method: string;
  readonly path: string;
  readonly user: string;
  readonly watch: boolean;
}

export class Faults {
  /** Watches send no bookmarks, even if they are requested. */
  noBookmarks = false;
  private pending: { readonly fault: Fault; left: number }[] = [];
  private readonly breakWatches: (how: WatchEnd) => void;

  constructor(breakWatches: (how: WatchEnd) => void) {
    this.breakWatches = breakWatches;
  }

  /** `times` is 1 by default; `Infinity` lasts until `clear()`. */
  add(fault: Fault): void {
    this.pending.push({ fault, left: fault.times ?? 1 });
  }

  clear(): void {
    this.pending = [];
    this.noBookmarks = false;
  }

  /**
   * Ends every open watch: regularly (`close`), inside a line (`break`), with a 410 (`expire`), or after an invalid
   * line.
   */
  dropWatches(how: WatchEnd = 'break'): void {
    this.breakWatches(how);
  }

  /** The fault for this request, which is then used once. */
  meet(question: Question): Fault | undefined {
    const met = this.pending.find(({ fault }) => matches(fault, question));
    if (!met) return undefined;
    met.left -= 1;
    if (met.left <= 0) this.pending = this.pending.filter((each) => each !== met);
    return met.fault;
  }
}

function matches(fault: RequestMatch, { method, path, user, watch }: Question): boolean {
  if (fault.method !== undefined && fault.method !== method) return false;
  if (fault.user !== undefined && fault.user !== user) return false;
  if (fault.watch !== undefined && fault.watch !== watch) return false;
  if (fault.path === undefined) return true;
  return typeof fault.path === 'string' ? path.includes(fault.path) : fault.path.test(path);
}
