/**
 * Reads one watch (a line of JSON for each change, with bookmarks in between), and merges changes that wait for the
 * decisions about earlier ones.
 *
 * Decides: when the watch ends, and which waiting changes become one. A change is reported with the state of its object
 * at that time, so that objects that change faster than the agent decides, such as pods that are created and deleted a
 * hundred times a second, do not delay all others.
 *
 * Invariants:
 *   C1 of one object only the newest state is reported; its deletion is always reported, and nothing is merged into it.
 *      Of an object that was reported before, the state with its time of deletion is reported as well: it has the grace
 *      period, which no deletion has.
 *   C2 one change is reported at a time, and other work of the process has its turn before the next one.
 *   C3 changes are reported in the order of the versions of their objects: a watch that continues after the last
 *      reported one misses none of the others.
 *   C4 at most {@link CHANGES_MAX} changes of {@link WAITING_MAX_BYTES} wait; the others stay in the server.
 *   C5 an incomplete line is ignored; the returned version is the newest of a complete line, so that no change is lost
 *      between this watch and the next.
 */
import { setImmediate } from 'node:timers/promises';
import { isObject, type Json, memberOf, OperationError } from '../../kernel/json.ts';
import type { KubeObject } from '../../machines/model/operations/kube.ts';
import { chunksOf, GrowingBytes } from '../byte-stream.ts';
import { decodedObject, parseExactly } from './decode.ts';
import { refusal } from './errors.ts';
import type { TransportAnswer } from './transport.ts';

/**
 * The limit of a line, which has one object with its event: etcd's limit of an object is 1.5 MiB, and escapes of JSON
 * lengthen it at most six times.
 */
const LINE_MAX_BYTES = 16 * 1_048_576;
const GONE = 410;
const NEWLINE = 0x0a;

export interface WatchEnd {
  readonly reason: 'closed' | 'expired';
  readonly resourceVersion: string;
}

const TYPES = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'] as const;

interface WatchLine {
  readonly type: (typeof TYPES)[number];
  readonly object: KubeObject;
}

/**
 * Lines of so many characters are read back to back, which takes a millisecond or two; then everything else has its
 * turn. The limit is not a time: a busy machine would hardly read more in it than it reports meanwhile.
 */
const SLICE_CHARS = 128 * 1_024;

/** Reads until the server, the network or the reader ends it. Throws the server's own errors. */
export async function readWatch(
  answer: TransportAnswer,
  from: string,
  onChange: (change: Change, object: KubeObject) => void,
): Promise<WatchEnd> {
  const changes = new WaitingChanges(onChange);
  try {
    return await readInto(changes, answer, from);
  } finally {
    await changes.reported();
  }
}

async function readInto(changes: WaitingChanges, answer: TransportAnswer, from: string): Promise<WatchEnd> {
  let resourceVersion = from;
  let read = 0;
  for await (const text of lines(answer)) {
    const line = parsed(text);
    if (line === undefined) {
      // If no newer version was read, the next watch would begin with the same line.
      if (resourceVersion === from) throw new OperationError('a change is no JSON', { code: 'MALFORMED' });
      break;
    }
    if (line.type === 'ERROR') return ended(line.object, resourceVersion);
    if (line.type !== 'BOOKMARK') await changes.add(line.type, line.object, text.length);
    resourceVersion = line.object.metadata.resourceVersion ?? resourceVersion;
    read += text.length;
    if (read >= SLICE_CHARS) {
      await setImmediate();
      read = 0;
    }
  }
  return { reason: 'closed', resourceVersion };
}

function ended(status: KubeObject, resourceVersion: string): WatchEnd {
  const [code, reason] = [memberOf(status, 'code'), memberOf(status, 'reason')];
  if (code === GONE || reason === 'Expired') return { reason: 'expired', resourceVersion };
  throw refusal(typeof code === 'number' ? code : 500, JSON.stringify({ ...status, kind: 'Status' }), undefined);
}

function parsed(text: string): WatchLine | undefined {
  let line: Json;
  try {
    line = parseExactly(text);
  } catch {
    return undefined;
  }
  const { type, object } = isObject(line) ? line : {};
  const known = TYPES.find((each) => each === type);
  return known && { type: known, object: decodedObject(object, 'watch.object') };
}

/** Complete lines; an incomplete rest is dropped. A broken connection only ends the watch. */
async function* lines({ body }: TransportAnswer): AsyncGenerator<string> {
  const line = new GrowingBytes();
  for await (const chunk of chunks(body)) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      line.add(chunk.subarray(start, end));
      yield line.take().toString('utf8');
      start = end + 1;
    }
    line.add(chunk.subarray(start));
    if (line.length > LINE_MAX_BYTES) {
      throw new OperationError(`a change has more than ${LINE_MAX_BYTES} bytes`, { code: 'TooLarge', retriable: true });
    }
  }
}

/** Yields chunks until the server, the network, or the reader ends the stream, which is always closed. */
async function* chunks(body: TransportAnswer['body']): AsyncGenerator<Buffer> {
  body.on('error', () => undefined);
  try {
    yield* chunksOf(body);
  } catch {
    // The connection broke: all complete changes were reported.
  } finally {
    body.destroy();
  }
}

export type Change = 'ADDED' | 'MODIFIED' | 'DELETED';

/** The limit of waiting changes: enough for those that arrive during the longest decision. */
const CHANGES_MAX = 1_000;
/** The limit of their length as text: in memory an object takes several times as much. */
const WAITING_MAX_BYTES = 4 * 1_048_576;

interface Waiting {
  readonly key: string;
  readonly change: Change;
  readonly object: KubeObject;
  readonly bytes: number;
}

/** The object was reported before, and now has the time of its deletion. */
const hasTimeOfDeletion = ({ change, object }: Waiting): boolean =>
  change === 'MODIFIED' && object.metadata['deletionTimestamp'] !== undefined;

const keyOf = ({ metadata: { namespace, name, uid } }: KubeObject): string => JSON.stringify([namespace, name, uid]);

export class WaitingChanges {
  private readonly onChange: (change: Change, object: KubeObject) => void;
  /** In the order in which they are reported. */
  private readonly waiting = new Set<Waiting>();
  /** By object, the change that the next one is merged into. */
  private readonly open = new Map<string, Waiting>();
  private bytes = 0;
  private reporting: Promise<void> = Promise.resolve();
  private isReporting = false;
  private failure: { readonly error: unknown } | undefined;

  constructor(onChange: (change: Change, object: KubeObject) => void) {
    this.onChange = onChange;
  }

  /** Resolves when the next change may be read. Throws what reporting threw. */
  async add(change: Change, object: KubeObject, bytes: number): Promise<void> {
    this.put(change, object, bytes);
    if (!this.isReporting) this.reporting = this.report();
    while (this.waiting.size >= CHANGES_MAX || this.bytes > WAITING_MAX_BYTES) await setImmediate();
    this.throwFailure();
  }

  /** Resolves when nothing waits any more. Throws what reporting threw. */
  async reported(): Promise<void> {
    await this.reporting;
    this.throwFailure();
  }

  private put(change: Change, object: KubeObject, bytes: number): void {
    const key = keyOf(object);
    const earlier = this.open.get(key);
    const before = earlier && change === 'DELETED' && hasTimeOfDeletion(earlier) ? undefined : earlier;
    this.bytes += bytes - (before?.bytes ?? 0);
    if (before !== undefined) this.waiting.delete(before);
    const next = { key, change: before && change === 'MODIFIED' ? before.change : change, object, bytes };
    this.waiting.add(next);
    if (change === 'DELETED') this.open.delete(key);
    else this.open.set(key, next);
  }

  private async report(): Promise<void> {
    this.isReporting = true;
    try {
      for (const next of this.waiting) {
        this.waiting.delete(next);
        this.bytes -= next.bytes;
        if (this.open.get(next.key) === next) this.open.delete(next.key);
        this.onChange(next.change, next.object);
        await setImmediate();
      }
    } catch (error) {
      this.failure = { error };
      this.waiting.clear();
      this.bytes = 0;
    } finally {
      this.isReporting = false;
    }
  }

  private throwFailure(): void {
    if (this.failure) throw this.failure.error;
  }
}
