/** The bytes of streams whose types are less specific: a Node stream without encoding yields buffers. */

/** The chunks of a stream without an encoding. */
export const chunksOf = (stream: AsyncIterable<unknown>): AsyncIterable<Buffer> => stream as AsyncIterable<Buffer>;

/** All bytes of a stream without an encoding. */
export async function bytesOf(stream: AsyncIterable<unknown>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(chunksOf(stream)));
}
