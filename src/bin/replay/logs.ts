/**
 * From the arguments of `statelet replay` to a list of logs: journals, folders that hold journals, quoted globs.
 *
 * Invariants: the list is sorted by bytes and names each log once, so that shards on several machines share the work
 * without overlap; what names nothing stays in the list and is reported as such. Links are not followed below a folder.
 */
import { type Dirent, existsSync, globSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { isSegmentName, segmentsIn } from '../../kernel/journal/layout.ts';
import { placeOf } from '../insight/command.ts';

/** Folders in folders that are searched for journals. */
const DEPTH_MAX = 16;
const GLOB = /[*?[{]/;

export function logsOf(named: readonly string[]): string[] {
  return [...new Set(named.flatMap(expanded))].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

function expanded(name: string): string[] {
  const { path } = placeOf(name);
  if (existsSync(path) || !GLOB.test(path)) return orItself(name, journalsIn(name));
  const found = globSync(name).map(normalize);
  const folders = found.filter(isDirectory).flatMap(journalsIn);
  const known = new Set(folders);
  const segments = found.filter((file) => isSegmentName(basename(file)) && !known.has(dirname(file)));
  return orItself(name, [...folders, ...segments]);
}

const orItself = (name: string, found: string[]): string[] => (found.length > 0 ? found : [name]);

function journalsIn(path: string, depth = 0): string[] {
  if (!isDirectory(path)) return [];
  if (segmentsIn(path).length > 0) return [path];
  if (depth === DEPTH_MAX) return [];
  const folders = readdirSync(path, { withFileTypes: true }).filter((entry: Dirent) => entry.isDirectory());
  return folders.flatMap(({ name }) => journalsIn(join(path, name), depth + 1));
}

const isDirectory = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

export interface Shard {
  /** From 1. */
  readonly index: number;
  readonly count: number;
}

/** `2/5`; undefined when that is none. */
export function shardOf(text: string): Shard | undefined {
  const [, index, count] = /^(\d{1,6})\/(\d{1,6})$/.exec(text) ?? [];
  const shard = { index: Number(index), count: Number(count) };
  return shard.index >= 1 && shard.index <= shard.count ? shard : undefined;
}

/** Every `count`-th log, so that long and short ones of one folder are spread over the shards. */
export const inShard = (logs: readonly string[], { index, count }: Shard): string[] =>
  logs.filter((_, at) => at % count === index - 1);
