/**
 * `logs.*`: the logs of containers on disk, and the links to them in the folder that log collectors read.
 *
 * Decides: when a log is linked, rotated, or reported as missing; what remains is removed with its container.
 */
import { existsSync, readlinkSync } from 'node:fs';
import { lstat, mkdir, readdir, readlink, rename, rm, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { OperationError, toPlainError } from '../../kernel/json.ts';
import type { Ports } from '../../kernel/operation.ts';
import { codeOf } from '../../kernel/thrown.ts';
import type { KeptLog, logOperations, PodLogs } from '../../machines/model/operations/logs.ts';
import { pause } from '../pause.ts';
import { limited, partsOf, rotate, sibling, within } from './log-rotation.ts';

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
