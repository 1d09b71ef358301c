/** The replacements of Node's modules in the browser behave like these, as far as the reader of journals uses them. */
import * as nodeCrypto from 'node:crypto';
import * as nodeZlib from 'node:zlib';
import { expect, it } from 'vitest';
import * as crypto from '../../../../src/visualizer/worker/node/crypto.ts';
import * as fs from '../../../../src/visualizer/worker/node/fs.ts';
import * as path from '../../../../src/visualizer/worker/node/path.ts';
import * as zlib from '../../../../src/visualizer/worker/node/zlib.ts';

const TEXT = 'a journal, größer als 64 Bytes, damit ein Hash mehr als einen Block hat 🚢 '.repeat(50);

it('hashes as Node does', () => {
  expect(crypto.hash('sha1', TEXT, 'base64')).toBe(nodeCrypto.hash('sha1', TEXT, 'base64'));
  expect(crypto.hash('sha256', Buffer.from(TEXT))).toBe(nodeCrypto.hash('sha256', TEXT));
  const digest = nodeCrypto.createHash('sha256').update('a').update(TEXT).digest('hex');
  expect(crypto.createHash('sha256').update('a').update(TEXT).digest('hex')).toBe(digest);
  const begun = crypto.createHash('sha256').update('a');
  expect(begun.copy().update(TEXT).digest('hex')).toBe(digest);
  expect(begun.digest('hex')).toBe(nodeCrypto.hash('sha256', 'a'));
  expect(zlib.crc32(TEXT)).toBe(nodeZlib.crc32(TEXT));
});

it('decompresses what Node compressed, whole and not one byte more than is allowed', () => {
  const bytes = nodeCrypto.randomBytes(300_000);
  const plain = Buffer.concat([bytes, Buffer.alloc(3_000_000), bytes]);
  const params = { [nodeZlib.constants.ZSTD_c_checksumFlag]: 1 };
  const packed = nodeZlib.zstdCompressSync(plain, { params });
  const unpacked = zlib.zstdDecompressSync(packed, { maxOutputLength: plain.length });
  expect(Buffer.compare(unpacked, plain)).toBe(0);
  expect(() => zlib.zstdDecompressSync(packed, { maxOutputLength: plain.length - 1 })).toThrow('it holds too much');
});

it.each(['cut', 'changed', 'random', 'empty'] as const)('refuses bytes that are %s', (how) => {
  const packed = nodeZlib.zstdCompressSync(nodeCrypto.randomBytes(100_000));
  const bytes = {
    cut: packed.subarray(0, 50_000),
    changed: Buffer.concat([Buffer.from([1, 2, 3, 4]), packed.subarray(4)]),
    random: nodeCrypto.randomBytes(1_000),
    empty: Buffer.alloc(0),
  }[how];
  expect(() => zlib.zstdDecompressSync(bytes, { maxOutputLength: 1_000_000 })).toThrow();
});

it('refuses a bomb without holding it', () => {
  const bomb = nodeZlib.zstdCompressSync(Buffer.alloc(200_000_000));
  expect(bomb.length).toBeLessThan(30_000);
  const before = process.memoryUsage().arrayBuffers;
  expect(() => zlib.zstdDecompressSync(bomb, { maxOutputLength: 1_000_000 })).toThrow('it holds too much');
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(100_000_000);
});

it('reads files from memory in pieces', () => {
  fs.putFiles(
    '/shown',
    new Map([
      ['a.txt', Buffer.from('0123456789')],
      ['blobs/b', Buffer.from('x')],
    ]),
  );
  const file = fs.openSync('/shown/a.txt');
  const piece = new Uint8Array(4);
  const pieces = [0, 1, 2, 3].map(() => Buffer.from(piece.subarray(0, fs.readSync(file, piece))).toString());
  expect(pieces).toEqual(['0123', '4567', '89', '']);
  fs.closeSync(file);
  expect(fs.readFileSync('/shown/a.txt').toString()).toBe('0123456789');
  expect(fs.readdirSync('/shown')).toEqual(['a.txt', 'blobs']);
  expect([fs.statSync('/shown')!.isDirectory(), fs.statSync('/shown/a.txt')!.isDirectory()]).toEqual([true, false]);
  expect(fs.existsSync('/shown/none')).toBe(false);
  expect(() => fs.openSync('/shown/none')).toThrow(expect.objectContaining({ code: 'ENOENT' }));
  fs.putFiles('/shown', new Map());
  expect(fs.existsSync('/shown/a.txt')).toBe(false);
});

it('takes paths apart', () => {
  expect([path.basename('/a/b.c'), path.dirname('/a/b.c'), path.join('/a', 'b')]).toEqual(['b.c', '/a', '/a/b']);
});
