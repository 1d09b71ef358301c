/**
 * The recorded streams, with this server and a real containerd: exec, attach and port forward by WebSocket in every
 * subprotocol, the heads of SPDY upgrades, refusals, and the rights to streams. Each difference is listed with its
 * reason in `test/golden/http-streams-excused.ts`.
 */
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connect, parseReply, type Reply } from '../actors/server/exchange.ts';
import { type FrameKind, type Recorded, type RecordedFrame, recordings } from '../actors/server/golden-records.ts';
import { EXCUSED, MAY_LOSE_OUTPUT } from '../golden/http-streams-excused.ts';
import { containerdAvailable } from '../support/containerd.ts';
import { requirement } from '../support/require.ts';
import { clientFrame, Received, serverFrames } from '../support/websocket-client.ts';
import { StreamsNode } from './streams-node.ts';

/** The key of RFC 6455: the corpus has the answer to it, but not the key of most requests. */
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const HEADERS = [
  'content-type',
  'allow',
  'x-content-type-options',
  'www-authenticate',
  'upgrade',
  'x-stream-protocol-version',
  'x-accepted-stream-protocol-versions',
  'sec-websocket-accept',
  'sec-websocket-protocol',
  'sec-websocket-version',
];
/** Longer than every exchange that ends by itself. */
const END_MS = 60_000;
/** How long a stream that stayed open in the recording must stay open here after its last message. */
const OPEN_MS = 700;
/** Half a minute; a busy machine may take many times that. */
const TIMEOUT_MS = 480_000;
const HEAD_END = '\r\n\r\n';

const judged = recordings().filter(({ group }) => /^(ws-|spdy-head|upgrade-plain|upgrade-method)/.test(group));
/** They attach to the same container, so one client would see the input of another. */
const oneByOne = judged.filter(({ group }) => group === 'ws-attach');
const atOnce = judged.filter(({ group }) => group !== 'ws-attach');

describe.skipIf(requirement('containerd', containerdAvailable()).skip)('the recorded streams', () => {
  const node = new StreamsNode();
  beforeAll(() => node.start());
  afterAll(() => node.close());

  it(`${judged.length} of them`, { timeout: TIMEOUT_MS }, async () => {
    const wrong = new Map<string, string>();
    const work = async (queue: Recorded[]) => {
      for (let next = queue.shift(); next; next = queue.shift()) {
        const found = differences(next, await play(node, next));
        if (found.length > 0) wrong.set(next.id, found.join('; '));
      }
    };
    const queue = atOnce.slice();
    await Promise.all([work(oneByOne.slice()), ...Array.from({ length: 5 }, () => work(queue))]);
    const unexcused = [...wrong].filter(([id, why]) => !(id in EXCUSED || hasOnlyLostOutput(id, why)));
    process.stdout.write(
      `recorded streams: ${judged.length - wrong.size} of ${judged.length} equal, ` +
        `${wrong.size - unexcused.length} excused, wrong=${unexcused.length}\n`,
    );
    expect(unexcused.map(([id, why]) => `${id} ${why}`)).toEqual([]);
    expect(Object.keys(EXCUSED).filter((id) => !wrong.has(id))).toEqual([]);
  });
});

const hasOnlyLostOutput = (id: string, why: string): boolean =>
  MAY_LOSE_OUTPUT.has(id) && /^(binary|text) 1: "[^"]*" but "[^"]*"$/.test(why);

interface Played {
  readonly reply: Reply;
  /** By channel, everything that was received. */
  readonly frames: readonly RecordedFrame[];
  readonly isClosed: boolean;
}

/** A command of the corpus waits a second for the second size of its terminal; here it waits until it has that size. */
const SECOND = 'stty+size%3Bsleep+1%3Bstty+size';
const UNTIL_SIZED = encodeURIComponent(
  'stty size; until stty size 2>/dev/null | grep -q "30 90"; do sleep 0.1; done; stty size',
);

function requestOf({ request, note }: Recorded, uid: string, authorization: string | undefined): string {
  const { method = 'GET', path, headers = [], body } = request;
  const hasConnection = headers.some((header) => /^connection:/i.test(header));
  /** The token in the name of a subprotocol is one of the two that the note names. */
  const token = `the-token-of-token-nodes/proxy-${note?.includes('proxy create') ? 'create' : 'get'}`;
  const encoded = Buffer.from(token).toString('base64url');
  return [
    `${method} ${path.replaceAll('<uid>', uid).replace(SECOND, UNTIL_SIZED)} HTTP/1.1`,
    'Host: node1',
    ...(authorization === undefined ? [] : [`Authorization: ${authorization}`]),
    ...(hasConnection ? [] : ['Connection: close']),
    ...headers.map((header) => header.replace('…', KEY).replace('<token>', encoded)),
    ...(body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]),
    `\r\n${body ?? ''}`,
  ].join('\r\n');
}

async function play(node: StreamsNode, recorded: Recorded): Promise<Played> {
  const shown = node.golden.shown(recorded.credential);
  const socket = await connect({ port: node.port, shown });
  try {
    const received = new Received(socket);
    socket.write(requestOf(recorded, node.uidOf('lines'), shown.authorization));
    await received.until((bytes) => bytes.includes(HEAD_END), END_MS);
    if (received.bytes.toString('latin1').startsWith('HTTP/1.1 101')) return await stream(recorded, socket, received);
    await received.until((bytes) => isWhole(recorded, bytes), END_MS);
    return { reply: parseReply(received.bytes), frames: [], isClosed: true };
  } finally {
    socket.destroy();
  }
}

async function stream(recorded: Recorded, socket: Socket, received: Received): Promise<Played> {
  const isWebSocket = recorded.frames !== undefined;
  const framesOf = (bytes: Buffer) => (isWebSocket ? serverFrames(bytes.subarray(bytes.indexOf(HEAD_END) + 4)) : []);
  for (const each of recorded.sent ?? []) {
    if (typeof each === 'number') await sleep(each * 1_000);
    else {
      // A runtime that reads the close before it has sent its first message does not send it any more.
      if (each.op === 'close') await received.until((bytes) => framesOf(bytes).length > 0, END_MS);
      socket.write(clientFrame(each.op, Buffer.from(each.payload, 'latin1')));
    }
  }
  const hasClosed = (bytes: Buffer) => framesOf(bytes).at(-1)?.op === 'close';
  const wanted = recorded.frames ?? [];
  const isReported = (bytes: Buffer) => frameDifferences(wanted, framesOf(bytes).map(described)).length === 0;
  await received.until((bytes) => hasClosed(bytes) || (staysOpen(recorded) && isReported(bytes)), END_MS);
  if (staysOpen(recorded)) await received.until(hasClosed, OPEN_MS);
  if (hasClosed(received.bytes)) {
    socket.write(clientFrame('close', Buffer.from([3, 232])));
    await received.until(() => false, END_MS);
  }
  const { bytes, isClosed } = received;
  const [reply, frames] = [parseReply(bytes), framesOf(bytes).map(described)];
  return { reply, frames: isOfTheRuntime(reply) ? closedOnce(frames) : frames, isClosed };
}

const staysOpen = ({ ended }: Recorded): boolean => ended === 'client-timeout';

/** The protocols that this node implements; other streams are the runtime's, byte for byte. */
const OWN_PROTOCOLS = ['v5.channel.k8s.io', 'SPDY/3.1+portforward.k8s.io'];
const isOfTheRuntime = (reply: Reply): boolean =>
  !headersOf(reply, 'sec-websocket-protocol').some((protocol) => OWN_PROTOCOLS.includes(protocol));

/**
 * containerd closes a WebSocket when the stream ends and when it reads the client's close. Each of them writes a close
 * frame before it closes the connection, so a client's close in between gets a second close frame (also without this
 * node, in one of some hundred runs).
 */
function closedOnce(frames: readonly RecordedFrame[]): readonly RecordedFrame[] {
  const [before, last] = frames.slice(-2);
  const isRepeated = last?.op === 'close' && JSON.stringify(before) === JSON.stringify(last);
  return isRepeated ? frames.slice(0, -1) : frames;
}

function isWhole({ request }: Recorded, bytes: Buffer): boolean {
  const { headers, body } = parseReply(bytes);
  if (request.method === 'HEAD') return true;
  const length = headers.find(([name]) => name.toLowerCase() === 'content-length')?.[1];
  return length !== undefined && body.length >= Number(length);
}

const described = ({ op, payload }: { op: FrameKind; payload: Buffer }): RecordedFrame => {
  if (op === 'close') return { op, code: payload.readUInt16BE(0), reason: payload.toString('utf8', 2) };
  const text = payload.toString('latin1');
  return op === 'text'
    ? { op, payload: text, decoded: Buffer.from(text.slice(1), 'base64').toString('latin1') }
    : { op, payload: text };
};

function differences(recorded: Recorded, { reply, frames, isClosed }: Played): string[] {
  const found: string[] = [];
  const compare = (what: string, wanted: unknown, got: unknown) => {
    const [left, right] = [JSON.stringify(wanted), JSON.stringify(got)];
    if (left !== right) found.push(`${what} ${left} but ${right}`);
  };
  compare('status', recorded.status, reply.status);
  for (const name of HEADERS) compare(name, headersOf(recorded, name), headersOf(reply, name));
  if (recorded.frames === undefined || reply.status !== 101) {
    compare('body', recorded.body ?? '', reply.body.toString());
    return found;
  }
  compare('closed', !staysOpen(recorded), isClosed);
  return [...found, ...frameDifferences(recorded.frames, frames)];
}

const headersOf = ({ headers = [] }: Pick<Recorded, 'headers'>, name: string): string[] =>
  headers.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);

/** Compares the first frame, the order in which the channels ended, and the content of each. */
function frameDifferences(wanted: readonly RecordedFrame[], got: readonly RecordedFrame[]): string[] {
  const found: string[] = [];
  const [left, right] = [joined(wanted), joined(got)];
  for (const channel of new Set([...left.keys(), ...right.keys()])) {
    const [want, have] = [left.get(channel), right.get(channel)];
    const isCut = wanted.some((frame) => frame.truncated && channelOf(frame) === channel);
    const isSame = isCut ? have?.startsWith(want!) : have === want;
    if (!isSame) found.push(`${channel}: ${JSON.stringify(want)} but ${JSON.stringify(have)}`);
  }
  for (const at of [0, -1]) {
    const [want, have] = [wanted, got]
      .map((frames) => frames.filter(isOfAChannel).at(at))
      .map((f) => f && channelOf(f));
    // The last frame of a stream that stays open may be from any channel.
    if (want !== have && (at === 0 || want === 'close')) found.push(`frame ${at} is of ${have} instead of ${want}`);
  }
  const [before, after] = [wanted.at(-2), got.at(-2)].map((frame) => frame && channelOf(frame));
  if (wanted.at(-1)?.op === 'close' && before !== after) found.push(`before the close came ${after}, not ${before}`);
  return found;
}

/** A ping is answered at once; the runtime's first message may come earlier or later. */
const isOfAChannel = ({ op }: RecordedFrame) => op !== 'pong';

/** `binary 1`, `text 3`, `close`, `pong`. */
const channelOf = ({ op, payload = '' }: RecordedFrame): string => {
  if (op === 'binary') return `binary ${payload.charCodeAt(0)}`;
  return op === 'text' ? `text ${payload[0]}` : op;
};

function joined(frames: readonly RecordedFrame[]): Map<string, string> {
  const channels = new Map<string, string>();
  for (const frame of frames) {
    const channel = channelOf(frame);
    const { op, payload = '', decoded = '', code, reason } = frame;
    const content = {
      text: decoded,
      binary: payload.slice(1),
      close: `${code} ${reason}`,
      ping: payload,
      pong: payload,
    }[op];
    channels.set(channel, (channels.get(channel) ?? '') + content);
  }
  return new Map([...channels].map(([channel, text]) => [channel, normalized(text)]));
}

/**
 * Times, ids and places in the form of the corpus; the first size of a terminal is reported before or after it is set.
 */
const normalized = (text: string): string =>
  text
    .replace(/[0-9a-f]{64}/g, '<id>')
    .replace(/"[^"]*\/netns\/cni-[^"]*"/g, '"/var/run/netns/cni-<uid>"')
    .replace(/\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g, '<time>')
    .replace(/ETag: "[0-9a-f]+-f"/, 'ETag: "<etag>-f"')
    .replace(/^(stty: standard input|40 100|30 90)\r\n(?=.)/, '<size before>\r\n');
