/**
 * The part of `node:fs` that the journal's reader uses, over the files that the user opened: bytes in memory, or files
 * of the browser, which are read on demand.
 */
import type { Buffer } from 'buffer/';
import { bufferOf } from './buffer.ts';

/** A class of workers, which the types of a page do not have. */
declare const FileReaderSync: new () => { readAsArrayBuffer(part: Blob): ArrayBuffer };

export type Content = Uint8Array | Blob;

interface Open {
  readonly content: Content;
  at: number;
}

const files = new Map<string, Content>();
const open = new Map<number, Open>();
let nextDescriptor = 3;

/** Replaces the content of a folder. Names may contain `/`. */
export function putFiles(folder: string, contents: ReadonlyMap<string, Content>): void {
  for (const path of files.keys()) if (path.startsWith(`${folder}/`)) files.delete(path);
  for (const [name, content] of contents) files.set(`${folder}/${name}`, content);
}

function failed(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}

function contentOf(path: string): Content {
  const content = files.get(path);
  if (!content) throw failed(isFolder(path) ? 'EISDIR' : 'ENOENT', path);
  return content;
}

const isFolder = (path: string): boolean => [...files.keys()].some((name) => name.startsWith(`${path}/`));
const sizeOf = (content: Content): number => (content instanceof Uint8Array ? content.length : content.size);

/** Only workers of a browser may read a file synchronously. */
function bytesOf(content: Content, from: number, to: number): Uint8Array {
  if (content instanceof Uint8Array) return content.subarray(from, to);
  return new Uint8Array(new FileReaderSync().readAsArrayBuffer(content.slice(from, to)));
}

/** No file here can make a reader wait. */
export const constants = { O_RDONLY: 0, O_NONBLOCK: 0 };

export function openSync(path: string): number {
  const descriptor = nextDescriptor++;
  open.set(descriptor, { content: contentOf(path), at: 0 });
  return descriptor;
}

function openFile(descriptor: number): Open {
  const file = open.get(descriptor);
  if (!file) throw failed('EBADF', String(descriptor));
  return file;
}

/** Continues where the last call ended, and reads as much as fits. */
export function readSync(descriptor: number, buffer: Uint8Array): number {
  const file = openFile(descriptor);
  const bytes = bytesOf(file.content, file.at, file.at + buffer.length);
  buffer.set(bytes);
  file.at += bytes.length;
  return bytes.length;
}

export function closeSync(descriptor: number): void {
  open.delete(descriptor);
}

export function readFileSync(place: string | number): Buffer {
  const content = typeof place === 'number' ? openFile(place).content : contentOf(place);
  return bufferOf(bytesOf(content, 0, sizeOf(content)));
}

/** Only files can be opened. */
export function fstatSync(descriptor: number): { readonly size: number; isFile(): boolean } {
  const { content } = openFile(descriptor);
  return { size: sizeOf(content), isFile: () => true };
}

interface Stat {
  readonly size: number;
  isDirectory(): boolean;
}

export function statSync(path: string, options: { readonly throwIfNoEntry?: boolean } = {}): Stat | undefined {
  const content = files.get(path);
  if (content) return { size: sizeOf(content), isDirectory: () => false };
  if (isFolder(path)) return { size: 0, isDirectory: () => true };
  if (options.throwIfNoEntry === false) return undefined;
  throw failed('ENOENT', path);
}

export const existsSync = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined;

export function readdirSync(path: string): string[] {
  const below = [...files.keys()].flatMap((name) => (name.startsWith(`${path}/`) ? [name.slice(path.length + 1)] : []));
  return [...new Set(below.flatMap((name) => name.split('/', 1)))];
}
