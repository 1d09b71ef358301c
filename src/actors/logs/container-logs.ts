/**
 * `logs.*`: the logs of containers on disk, their rotation, and the links to them for log collectors.
 *
 * Decides: when a log is linked, rotated, or reported as missing; what remains is removed with its container. A rotated
 * log is renamed, so that a reader can finish, and is compressed when the next one is rotated.
 * Invariants: names are resolved below the folder of logs and never through a link (`root-folder.ts`); there are never
 * more than `maxFiles` parts; leftovers of an interrupted rotation are removed by the next one.
 */
import { createWriteStream, existsSync, readlinkSync } from 'node:fs';
import { lstat, mkdir, open, readdir, readlink, rename, rm, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import pLimit, { type LimitFunction } from 'p-limit';
import { OperationError, toPlainError } from '../../kernel/json.ts';
import type { Ports } from '../../kernel/operation.ts';
import { codeOf } from '../../kernel/thrown.ts';
import type { KeptLog, logOperations, PodLogs } from '../../machines/model/operations/logs.ts';
import { openParent, type Place } from '../host/root-folder.ts';
import { pause } from '../pause.ts';
import { openLog } from '../server/logs/log-file.ts';

const COMPRESSED = '.gz';
const UNFINISHED = '.tmp';

function rotate(log: KeptLog, signal: AbortSignal, now: () => Date): Promise<string | null> {
  return within(log.root, log.path, async (place) => {
    const name = basename(log.path);
    const parts = await clearedParts(place, name);
    const excess = parts.length - Math.max(log.maxFiles - 2, 0);
    for (const part of parts.slice(0, Math.max(excess, 0))) await rm(sibling(place, part));
    for (const part of parts.slice(Math.max(excess, 0))) {
      if (!part.endsWith(COMPRESSED)) await compress(place, part, signal);
    }
    if (signal.aborted) return null;
    const aside = `${name}.${timestamp(now())}`;
    await rename(place.path, sibling(place, aside));
    return aside;
  });
}

/** Parts of the log, oldest first; leftovers of an interrupted rotation are removed. */
async function clearedParts(place: Place, name: string): Promise<readonly string[]> {
  const parts = await partsOf(place, name);
  const isStale = (part: string) => part.endsWith(UNFINISHED) || parts.includes(`${part}${COMPRESSED}`);
  for (const part of parts.filter(isStale)) await rm(sibling(place, part));
  return parts.filter((part) => !isStale(part)).sort();
}

async function partsOf(place: Place, name: string): Promise<readonly string[]> {
  const entries = await readdir(dirname(place.path), { withFileTypes: true });
  return entries.filter((each) => each.isFile() && each.name.startsWith(`${name}.`)).map((each) => each.name);
}

/** Compresses a part of a log. Neither name is trusted: a pod may have mounted the folder and replaced the file. */
async function compress(place: Place, part: string, signal: AbortSignal): Promise<void> {
  const [source, draft] = [sibling(place, part), sibling(place, `${part}${UNFINISHED}`)];
  const whole = await openLog(source);
  try {
    const { mode } = await whole.stat();
    await rm(draft, { force: true });
    const packed = createWriteStream(draft, { mode, flags: 'wx' });
    await pipeline(whole.createReadStream({ autoClose: false }), createGzip(), packed, { signal });
  } finally {
    await whole.close();
  }
  const file = await open(draft, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(draft, sibling(place, `${part}${COMPRESSED}`));
  await rm(source);
}

const twoDigits = (value: number): string => String(value).padStart(2, '0');

/** Local time in Go's layout `20060102-150405`, which sorts by age. */
const timestamp = (at: Date): string =>
  `${at.getFullYear()}${twoDigits(at.getMonth() + 1)}${twoDigits(at.getDate())}-` +
  `${twoDigits(at.getHours())}${twoDigits(at.getMinutes())}${twoDigits(at.getSeconds())}`;

/** Works in the folder of a log; `null` if there is no such folder. */
async function within<T>(root: string, path: string, work: (place: Place) => Promise<T>): Promise<T | null> {
  const place = openParent(root, path);
  if (!place) return null;
  try {
    return await work(place);
  } finally {
    place.folder.close();
  }
}

const sibling = (place: Place, name: string): string => join(dirname(place.path), basename(name));

/** Concurrent rotations of all logs of the node. */
let rotations: { readonly workers: number; readonly run: LimitFunction } | undefined;

function limited(workers: number): LimitFunction {
  if (rotations?.workers !== workers) rotations = { workers, run: pLimit(workers) };
  return rotations.run;
}

type LogPorts = Ports<typeof logOperations>;
type KeepLogsInput = Parameters<LogPorts['logs.keep']>[0];

/** The longest interval between two reports of a missing log. */
const MISSING_MAX_MS = 300_000;

export function containerLogPorts(now: () => Date = () => new Date()): LogPorts {
  return {
    'logs.keep': (call) => keep(call, now),
    'logs.restore': async ({ input: { root, path, aside } }) => {
      await within(root, path, async (place) => {
        if (!(await isFile(place.path))) await rename(sibling(place, aside), place.path);
      });
      return null;
    },
    'logs.remove': async ({ input: { root, path, link } }) => {
      await within(root, path, async (place) => {
        for (const name of [basename(path), ...(await partsOf(place, basename(path)))]) {
          await rm(sibling(place, name), { force: true });
        }
      });
      if (link !== '') await removeLink(link);
      return null;
    },
    'logs.unlink': async ({ input: { links, folder, dangling } }) => {
      await removeLinksInto(links, folder, dangling);
      return null;
    },
    'logs.podFolders': async ({ input: { root } }) => ({ pods: await podFolders(root) }),
  };
}

async function keep(call: KeepLogsInput, now: () => Date): Promise<null> {
  const { input, signal } = call;
  let isLinked = input.link === '';
  let missingAt = 0;
  let missingMs = input.periodMs;
  let failure = '';
  while (!signal.aborted) {
    try {
      const size = await sizeOf(input.path);
      if (size !== null && !isLinked) isLinked = await ensureLink(input);
      if (size !== null) missingMs = input.periodMs;
      else if (performance.now() >= missingAt) {
        missingAt = performance.now() + missingMs;
        missingMs = Math.min(missingMs * 2, MISSING_MAX_MS);
        call.emit({ type: 'log.missing' });
      }
      if (size !== null && input.maxBytes >= 0 && size >= input.maxBytes) {
        const aside = await limited(input.workers)(() => rotate(input, signal, now));
        if (aside !== null) call.emit({ type: 'log.rotated', aside });
      }
      failure = '';
    } catch (error) {
      const { message } = toPlainError(error);
      if (message !== failure) call.emit({ type: 'log.failed', message });
      failure = message;
    }
    await pause(input.periodMs, signal, { ref: false });
  }
  return null;
}

/** `null` if there is none. Uses `stat` without opening the file, because every period of every container does this. */
async function sizeOf(path: string): Promise<number | null> {
  const found = await lstat(path).catch(() => null);
  if (!found) return null;
  if (found.isFile()) return found.size;
  throw new OperationError(`the container log ${path} is not a regular file: it is not rotated`);
}

async function isFile(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => null);
  return found?.isFile() ?? false;
}

/** Folders are named `<namespace>_<name>_<uid>`; none of the three contains an underscore. */
async function podFolders(root: string): Promise<PodLogs[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch(ignoreMissing);
  return entries.flatMap((entry) => {
    const [namespace = '', name = '', uid = '', ...more] = entry.name.split('_');
    const isOne = entry.isDirectory() && namespace !== '' && name !== '' && uid !== '' && more.length === 0;
    return isOne ? [{ uid, namespace, name }] : [];
  });
}

/* Links to container logs, one for each container, in the folder that log collectors read. */

/** The prefix of a link's name is truncated here. */
const LINK_PREFIX_MAX = 240;

async function ensureLink({ path, link }: KeptLog): Promise<true> {
  const found = await lstat(link).catch(() => null);
  if (found?.isSymbolicLink() && (await readlink(link)) === path) return true;
  if (found && !found.isSymbolicLink()) {
    throw new OperationError(`Failed to create legacy symbolic link ${link}: it exists and is not a symbolic link`);
  }
  if (found) await rm(link, { force: true });
  try {
    await symlink(path, link);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    await mkdir(dirname(link), { recursive: true, mode: 0o755 });
    await symlink(path, link);
  }
  return true;
}

async function removeLink(link: string): Promise<void> {
  const found = await lstat(link).catch(() => null);
  if (found?.isSymbolicLink()) await rm(link, { force: true });
}

async function removeLinksInto(links: string, folder: string, onlyDangling: boolean): Promise<void> {
  const names = links === '' ? [] : await readdir(links).catch(ignoreMissing);
  const prefix = onlyDangling ? '' : linkPrefix(folder);
  for (const name of names.filter((each) => each.startsWith(prefix))) {
    const link = join(links, name);
    if (!targetOf(link).startsWith(`${folder}/`)) continue;
    if (onlyDangling && existsSync(link)) continue;
    await removeLink(link);
  }
}

/**
 * The target of a link, read synchronously: asynchronous reads of some thousand links delayed the pods of a starting
 * node by a tenth of a second.
 */
function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return '';
  }
}

/** The common prefix of the links to the logs of one pod. */
function linkPrefix(folder: string): string {
  const [namespace = '', name = ''] = basename(folder).split('_');
  return `${name}_${namespace}_`.slice(0, LINK_PREFIX_MAX);
}

function ignoreMissing(error: unknown): [] {
  if (codeOf(error) === 'ENOENT') return [];
  throw error;
}
