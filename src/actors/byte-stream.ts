/** The bytes of streams whose types are less specific: a Node stream without encoding yields buffers. */

/** The chunks of a stream without an encoding. */
export const chunksOf = (stream: AsyncIterable<unknown>): AsyncIterable<Buffer> => stream as AsyncIterable<Buffer>;

export async function bytesOf(stream: AsyncIterable<unknown>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(chunksOf(stream)));
}

const FIRST_BYTES = 16 * 1_024;

/**
 * A growing buffer that joins pieces of bytes as they arrive.
 *
 * A list of pieces would cost a hundred bytes for each: a sender of single bytes could use a hundred times the limit.
 */
export class GrowingBytes {
  private bytes: Buffer = Buffer.alloc(0);
  private used = 0;

  get length(): number {
    return this.used;
  }

  add(piece: Buffer): void {
    if (this.used === 0) {
      // Usually the first piece is the only one: it is not copied.
      [this.bytes, this.used] = [piece, piece.length];
      return;
    }
    const length = this.used + piece.length;
    if (length > this.bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(FIRST_BYTES, length, 2 * this.bytes.length));
      this.bytes.copy(larger, 0, 0, this.used);
      this.bytes = larger;
    }
    this.used += piece.copy(this.bytes, this.used);
  }

  /** Returns all bytes and empties the buffer. */
  take(): Buffer {
    const all = this.bytes.subarray(0, this.used);
    [this.bytes, this.used] = [Buffer.alloc(0), 0];
    return all;
  }
}
