/**
 * Expands the arguments of `statelet replay` to a list of logs: journals, folders with journals, and quoted globs.
 *
 * Invariants: the list is sorted by bytes and has each log once, so that shards on several machines share the work
 * without overlap; an argument without a log stays in the list and is reported. Links below a folder are not followed.
 */
import { type Dirent, existsSync, globSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { isSegmentName, segmentsIn } from '../../kernel/journal/layout.ts';
import { placeOf } from '../insight/command.ts';

/** The depth to which folders are searched for journals. */
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
  /** Counted from 1. */
  readonly index: number;
  readonly count: number;
}

/** Parses `2/5`; `undefined` if the text is not a shard. */
export function shardOf(text: string): Shard | undefined {
  const [, index, count] = /^(\d{1,6})\/(\d{1,6})$/.exec(text) ?? [];
  const shard = { index: Number(index), count: Number(count) };
  return shard.index >= 1 && shard.index <= shard.count ? shard : undefined;
}

/** Every `count`-th log belongs to the shard, so that long and short logs of a folder are distributed evenly. */
export const inShard = (logs: readonly string[], { index, count }: Shard): string[] =>
  logs.filter((_, at) => at % count === index - 1);
