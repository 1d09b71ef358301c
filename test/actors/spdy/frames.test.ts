/** One side reads what the other side wrote, however the connection splits it. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { type Frame, FrameReader, FrameWriter } from '../../../src/actors/spdy/frames.ts';

const writer = new FrameWriter();
const SAID = Buffer.concat([
  writer.open(1, { streamType: 'stdout' }),
  ...writer.data(1, Buffer.from('hello')),
  writer.pong(Buffer.from([0, 0, 0, 7])),
  ...writer.data(3, Buffer.from('world')),
  writer.last(1),
  writer.reset(3),
]);

function read(...chunks: readonly Buffer[]): Frame[] {
  const reader = new FrameReader();
  return chunks.flatMap((chunk) => {
    reader.push(chunk);
    const frames: Frame[] = [];
    for (let frame = reader.next(); frame; frame = reader.next()) frames.push(frame);
    return frames;
  });
}

interface Received {
  readonly kind?: string;
  readonly stream?: number;
  readonly isLast?: boolean;
  text?: string;
}

/** Joins the parts of one stream's data. */
function whole(frames: readonly Frame[]): Received[] {
  const received: Received[] = [];
  for (const frame of frames) {
    const last = received.at(-1);
    if (frame.kind !== 'data')
      received.push({ kind: frame.kind, ...('stream' in frame ? { stream: frame.stream } : {}) });
    else if (last?.text !== undefined && last.stream === frame.stream && !frame.isLast)
      last.text += String(frame.payload);
    else
      received.push({ stream: frame.stream, text: String(frame.payload), ...(frame.isLast ? { isLast: true } : {}) });
  }
  return received;
}

const MEANT = [
  { kind: 'open', stream: 1 },
  { stream: 1, text: 'hello' },
  { kind: 'ping' },
  { stream: 3, text: 'world' },
  { stream: 1, text: '', isLast: true },
  { kind: 'reset', stream: 3 },
];

it('frames are the same wherever the connection cuts them', () => {
  expect(whole(read(SAID))).toEqual(MEANT);
  for (let at = 1; at < SAID.length; at++) expect(whole(read(SAID.subarray(0, at), SAID.subarray(at)))).toEqual(MEANT);
  expect(whole(read(...Array.from(SAID, (byte) => Buffer.from([byte]))))).toEqual(MEANT);
});

it('data is told as it comes, and its end with its last piece', () => {
  const frame = Buffer.concat(writer.data(5, Buffer.from('abcd')));
  frame.writeUInt8(1, 4);
  const pieces = read(frame.subarray(0, 10), frame.subarray(10)).map((piece) =>
    piece.kind === 'data' ? [piece.payload.toString(), piece.isLast] : piece,
  );
  expect(pieces).toEqual([
    ['ab', false],
    ['cd', true],
  ]);
});

it('an invalid frame ends the reading', () => {
  const frame = Buffer.concat(writer.data(5, Buffer.from('abcd')));
  frame.writeUInt32BE(0xffffff, 4);
  expect(() => read(frame)).toThrow('a SPDY frame of 16777215 bytes');
});

it('in pieces of one byte a frame takes hardly more memory than its bytes', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const reader = new FrameReader();
  reader.push(Buffer.from([0x80, 3, 0, 8, 0, 0x0f, 0xff, 0xff]));
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let byte = 0; byte < 200_000; byte++) reader.push(Buffer.alloc(1));
  collect();
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(4_000_000);
  expect(reader.next()).toBeNull();
});
