/**
 * Faults on demand: what an API server does to its clients on a bad day.
 *
 * A fault meets the requests that it matches, as often as `times` says, and then is over.
 */
import type { WatchEnd } from './watches.ts';

interface RequestMatch {
  /** `GET`, `PATCH`, ... */
  readonly method?: string;
  /** Is part of the path with its query, or matches it. */
  readonly path?: string | RegExp;
  readonly user?: string;
  /** True: watches only; false: all but watches. */
  readonly watch?: boolean;
}

export type FaultKind =
  /** A Status of this code; `reason` and `message` as the server would say them. */
  | {
      readonly kind: 'status';
      readonly code: number;
      readonly reason?: string;
      readonly message?: string;
      readonly retryAfterSeconds?: number;
    }
  /** The first half of the answer, then its end, as if it were whole. */
  | { readonly kind: 'halfJson' }
  /** The first half of the answer, then the connection breaks. */
  | { readonly kind: 'brokenJson' }
  /** Never answers. */
  | { readonly kind: 'hang' }
  /** The connection is closed without an answer. */
  | { readonly kind: 'drop' }
  /** Answers a few bytes at a time. */
  | { readonly kind: 'slow'; readonly bytes: number; readonly everyMs: number }
  /** Carries the request out and then does not say so: the connection breaks. */
  | { readonly kind: 'loseAnswer' }
  /** Answers with success and this text, without carrying anything out. */
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
  /** Watches say no bookmarks, whatever was asked for. */
  noBookmarks = false;
  private pending: { readonly fault: Fault; left: number }[] = [];
  private readonly breakWatches: (how: WatchEnd) => void;

  constructor(breakWatches: (how: WatchEnd) => void) {
    this.breakWatches = breakWatches;
  }

  /** `times` is 1 where the fault does not say; `Infinity` lasts until `clear()`. */
  add(fault: Fault): void {
    this.pending.push({ fault, left: fault.times ?? 1 });
  }

  clear(): void {
    this.pending = [];
    this.noBookmarks = false;
  }

  /** Ends every open watch: in order (`close`), in the middle of a line (`break`), or with a 410 (`expire`); or garbles it. */
  dropWatches(how: WatchEnd = 'break'): void {
    this.breakWatches(how);
  }

  /** The fault that this request meets, used up by one. */
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
