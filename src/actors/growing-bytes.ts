/**
 * Bytes that come in pieces, put together as they come.
 *
 * A list of the pieces would cost a hundred bytes for each: a sender of single bytes would fill the memory a hundred
 * times faster than a limit of bytes allows.
 */
const FIRST_BYTES = 16 * 1_024;

export class GrowingBytes {
  private bytes: Buffer = Buffer.alloc(0);
  private used = 0;

  get length(): number {
    return this.used;
  }

  add(piece: Buffer): void {
    if (this.used === 0) {
      // Most often it is the only one.
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

  /** All of them; then there are none. */
  take(): Buffer {
    const all = this.bytes.subarray(0, this.used);
    [this.bytes, this.used] = [Buffer.alloc(0), 0];
    return all;
  }
}
