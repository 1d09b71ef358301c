/** Watches: one line of JSON for each change after a version, bookmarks, and their end. */
import type { ServerResponse } from 'node:http';
import { Refusal } from '../../../src/simulation/api-server/errors.ts';
import { type ApiObject, apiVersionOf, type Kind } from '../../../src/simulation/api-server/kinds.ts';
import { type Selector, type Store, type StoreEvent, selectorOf } from '../../../src/simulation/api-server/store.ts';

/** A response of HTTP/1.1, or one of HTTP/2 by its compatibility interface, which has a stream. */
export type Response = ServerResponse & { readonly stream?: { close(code: number): void } };

/** As the real server: between half an hour and an hour; the clients here set their own. */
const TIMEOUT_DEFAULT_SECONDS = 1_800;
const BOOKMARK_PERIOD_MS = 60_000;
const INITIAL_EVENTS_END = 'k8s.io/initial-events-end';

interface WatchScope {
  readonly kind: Kind;
  readonly namespace: string | undefined;
  readonly query: URLSearchParams;
  /** The written form of an object, such as a Table. */
  readonly render: (object: ApiObject) => unknown;
}

export interface WatchOptions {
  readonly bookmarkPeriodMs?: number;
  /** False: no bookmarks, even if they are requested. */
  readonly bookmarks: () => boolean;
}

/** Regularly, inside a line, with a 410, or only after an invalid line. */
export type WatchEnd = 'close' | 'break' | 'expire' | 'garble';

interface OpenWatch {
  end(how: WatchEnd): void;
}

export class Watches {
  private readonly open = new Set<OpenWatch>();
  private readonly store: Store;
  private readonly options: WatchOptions;

  constructor(store: Store, options: WatchOptions) {
    this.store = store;
    this.options = options;
  }

  get size(): number {
    return this.open.size;
  }

  endAll(how: WatchEnd): void {
    for (const watch of this.open) watch.end(how);
  }

  serve(response: Response, scope: WatchScope): void {
    const { query, kind, namespace } = scope;
    const selects = selectorOf(query);
    const version = query.get('resourceVersion') ?? '';
    const initial = version === '' || version === '0' || query.get('sendInitialEvents') === 'true';
    const missed = initial ? [] : this.store.since(Number(version));
    response.setHeader('content-type', 'application/json;stream=watch');
    response.writeHead(200);
    const line = (type: string, object: unknown) => void write(response, `${JSON.stringify({ type, object })}\n`);
    const send = (event: StoreEvent) => {
      if (event.kind !== kind || (namespace !== undefined && event.object.metadata.namespace !== namespace)) return;
      const type = typeFor(event, selects);
      if (type) line(type, scope.render(event.object));
    };
    if (initial) {
      for (const object of this.store.all(kind, namespace).filter(selects)) line('ADDED', scope.render(object));
      if (query.get('sendInitialEvents') === 'true') this.bookmark(line, kind, { [INITIAL_EVENTS_END]: 'true' });
    }
    for (const event of missed) send(event);
    if (!initial && missed.length === 0) response.flushHeaders();
    this.follow(response, scope, send, line);
  }

  private follow(
    response: Response,
    { query, kind }: WatchScope,
    send: (event: StoreEvent) => void,
    line: (type: string, object: unknown) => void,
  ): void {
    const bookmarks = query.get('allowWatchBookmarks') === 'true';
    const seconds = Number(query.get('timeoutSeconds') ?? TIMEOUT_DEFAULT_SECONDS);
    const watch: OpenWatch = {
      end: (how) => {
        if (how === 'expire')
          line('ERROR', new Refusal('too old resource version', { code: 410, reason: 'Expired' }).status());
        if (how === 'garble') write(response, '{"type":"MODIFIED",\n');
        else if (how === 'break') {
          write(response, '{"type":"MODIFIED","object":{"apiVersion":"v1","meta');
          setImmediate(() => destroy(response));
        } else response.end();
      },
    };
    this.store.changes.on('event', send);
    const timeout = setTimeout(() => {
      if (bookmarks && this.options.bookmarks()) this.bookmark(line, kind);
      response.end();
    }, seconds * 1_000);
    const ticking = setInterval(
      () => bookmarks && this.options.bookmarks() && this.bookmark(line, kind),
      this.options.bookmarkPeriodMs ?? BOOKMARK_PERIOD_MS,
    );
    this.open.add(watch);
    response.once('close', () => {
      this.store.changes.off('event', send);
      clearTimeout(timeout);
      clearInterval(ticking);
      this.open.delete(watch);
    });
  }

  private bookmark(
    line: (type: string, object: unknown) => void,
    kind: Kind,
    annotations?: Record<string, string>,
  ): void {
    line('BOOKMARK', {
      kind: kind.kind,
      apiVersion: apiVersionOf(kind),
      metadata: {
        resourceVersion: this.store.resourceVersion,
        creationTimestamp: null,
        ...(annotations ? { annotations } : {}),
      },
    });
  }
}

/** An object that leaves the selection is deleted for this watch, one that enters it is added. */
function typeFor({ type, object, previous }: StoreEvent, selects: Selector): StoreEvent['type'] | undefined {
  const now = type !== 'DELETED' && selects(object);
  const before = previous !== undefined && selects(previous);
  if (now) return before ? 'MODIFIED' : 'ADDED';
  return before ? 'DELETED' : undefined;
}

export const write = (response: Response, text: string): boolean => response.write(text);

/** The code of RFC 9113 for resetting a stream. */
const HTTP2_INTERNAL_ERROR = 2;

/** Ends the stream so that the client gets an error. */
export function destroy(response: Response): void {
  if (response.stream) response.stream.close(HTTP2_INTERNAL_ERROR);
  else response.socket?.destroy();
}
