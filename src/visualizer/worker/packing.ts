/** Compresses texts. The streams get the bytes directly: a Blob would copy them to another process. */

export const pack = async (text: string): Promise<Uint8Array<ArrayBuffer>> =>
  new Uint8Array(await through(new TextEncoder().encode(text), new CompressionStream('deflate-raw')).arrayBuffer());

export const unpack = (packed: Uint8Array<ArrayBuffer>): Promise<string> =>
  through(packed, new DecompressionStream('deflate-raw')).text();

/** What a stream makes of some bytes. */
function through(bytes: Uint8Array<ArrayBuffer>, { readable, writable }: CompressionStream): Response {
  const writer = writable.getWriter();
  // What fails to be written fails to be read.
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  return new Response(readable);
}
