/**
 * A WebSocket client that sends given frames and keeps what it receives: for handshakes and messages that a library
 * refuses to send.
 */
import type { Socket } from 'node:net';
import type { FrameKind } from '../actors/server/golden-records.ts';

export interface Frame {
  readonly op: FrameKind;
  readonly payload: Buffer;
}

const OPCODES: Readonly<Record<FrameKind, number>> = { text: 1, binary: 2, close: 8, ping: 9, pong: 10 };
/** A mask hides nothing from a test, but a server refuses frames without one. */
const MASK = Buffer.from([1, 2, 3, 4]);

/** One complete frame of a client, masked; `payload` has at most 125 bytes. */
export function clientFrame(op: FrameKind, payload: Buffer): Buffer {
  if (payload.length > 125) throw new Error(`a frame of ${payload.length} bytes is longer than this client sends`);
  const masked = payload.map((byte, at) => byte ^ MASK[at % 4]!);
  return Buffer.concat([Buffer.from([0x80 | OPCODES[op], 0x80 | payload.length]), MASK, masked]);
}

/** The complete frames that a server sent after its handshake; none are fragmented. */
export function serverFrames(bytes: Buffer): Frame[] {
  const frames: Frame[] = [];
  for (let at = 0; at + 2 <= bytes.length; ) {
    const op = (Object.keys(OPCODES) as FrameKind[]).find((name) => (bytes[at]! | 0x80) === (0x80 | OPCODES[name]));
    if (op === undefined) throw new Error(`no known frame begins with ${bytes[at]} after ${frames.length} frames`);
    const [start, length] = extent(bytes, at);
    if (start + length > bytes.length) break;
    frames.push({ op, payload: bytes.subarray(start, start + length) });
    at = start + length;
  }
  return frames;
}

/** The position and length of the payload of the frame at `at`. */
function extent(bytes: Buffer, at: number): [start: number, length: number] {
  const length = bytes[at + 1]! & 0x7f;
  if (length === 126) return at + 4 <= bytes.length ? [at + 4, bytes.readUInt16BE(at + 2)] : [bytes.length, 1];
  if (length === 127)
    return at + 10 <= bytes.length ? [at + 10, Number(bytes.readBigUInt64BE(at + 2))] : [bytes.length, 1];
  return [at + 2, length];
}

/** All received bytes of a connection, in one buffer. */
export class Received {
  bytes: Buffer = Buffer.alloc(0);
  isClosed = false;
  private wake = (): void => {};

  constructor(socket: Socket) {
    socket.on('data', (chunk: Buffer) => {
      this.bytes = Buffer.concat([this.bytes, chunk]);
      this.wake();
    });
    socket.on('error', () => {});
    socket.once('close', () => {
      this.isClosed = true;
      this.wake();
    });
  }

  /** Resolves when `isThere` returns true, the connection is closed, or the time is over. */
  async until(isThere: (bytes: Buffer) => boolean, withinMs: number): Promise<void> {
    const deadline = performance.now() + withinMs;
    while (!this.isClosed && !isThere(this.bytes)) {
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.wake = () => (clearTimeout(timer), resolve());
      });
    }
  }
}
