/**
 * Reads one watch: a line of JSON for each change, with bookmarks in between.
 *
 * Decides: when the watch ends. Invariants: an incomplete line is ignored; the returned version is the newest of a
 * complete line, so that nothing is lost between this watch and the next.
 */
import { setImmediate } from 'node:timers/promises';
import { isObject, type Json, memberOf, OperationError } from '../../kernel/json.ts';
import type { KubeObject } from '../../machines/model/operations/kube.ts';
import { chunksOf, GrowingBytes } from '../byte-stream.ts';
import { decodedObject, parseExactly } from './decode.ts';
import { refusal } from './errors.ts';
import type { TransportAnswer } from './transport.ts';
import { type Change, WaitingChanges } from './waiting-changes.ts';

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
 * turn. Not a time: on a busy machine hardly more would be read than is reported meanwhile.
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
