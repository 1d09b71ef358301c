/**
 * Compresses a closed segment. What a reader can make again is left out: checksums, numbers that follow the one before,
 * and every link of the chain but the last, which covers all lines. The rest is NDJSON.
 */
import { createReadStream, createWriteStream, rmSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress } from 'node:zlib';
import { PRIVATE } from './disk.ts';
import { UNFINISHED } from './layout.ts';
import { bareLine } from './line.ts';

const LINE_FEED = Buffer.from('\n');
const LINK = Buffer.from('{"k":"chain"');

/** The plain file goes only after the compressed one, which carries its own checksum, is on disk. */
export async function compress(path: string): Promise<void> {
  const unfinished = `${path}.zst${UNFINISHED}`;
  try {
    const params = { [constants.ZSTD_c_checksumFlag]: 1 };
    const target = createWriteStream(unfinished, { mode: PRIVATE });
    await pipeline(createReadStream(path), bareLines, createZstdCompress({ params }), target);
    const handle = await open(unfinished, 'r+');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(unfinished, `${path}.zst`);
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw error;
  }
  rmSync(path);
}

/** The lines of a plain segment as a compressed one has them. */
async function* bareLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  let link: Buffer = rest;
  let last = -1;
  for await (const chunk of chunks) {
    const bytes = Buffer.concat([rest, chunk]);
    const lines: Buffer[] = [];
    let start = 0;
    for (let end = bytes.indexOf(LINE_FEED); end !== -1; end = bytes.indexOf(LINE_FEED, start)) {
      const { bare, n } = bareLine(bytes.subarray(start, end), last);
      start = end + 1;
      last = n;
      if (bare.subarray(0, LINK.length).equals(LINK)) link = Buffer.concat([bare, LINE_FEED]);
      else lines.push(bare, LINE_FEED);
    }
    rest = bytes.subarray(start);
    yield Buffer.concat(lines);
  }
  yield link;
}
