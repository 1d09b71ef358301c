/** Links to container logs, one for each container, in the folder that log collectors read. */
import { existsSync, readlinkSync } from 'node:fs';
import { lstat, mkdir, readdir, readlink, rm, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { OperationError } from '../../kernel/json.ts';
import type { KeptLog } from '../../machines/model/operations/logs.ts';
import { errnoOf } from '../host/root-folder.ts';

/** The prefix of a link's name is truncated here. */
const LINK_PREFIX_MAX = 240;

export async function ensureLink({ path, link }: KeptLog): Promise<true> {
  const found = await lstat(link).catch(() => null);
  if (found?.isSymbolicLink() && (await readlink(link)) === path) return true;
  if (found && !found.isSymbolicLink()) {
    throw new OperationError(`Failed to create legacy symbolic link ${link}: it exists and is not a symbolic link`);
  }
  if (found) await rm(link, { force: true });
  try {
    await symlink(path, link);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    await mkdir(dirname(link), { recursive: true, mode: 0o755 });
    await symlink(path, link);
  }
  return true;
}

export async function removeLink(link: string): Promise<void> {
  const found = await lstat(link).catch(() => null);
  if (found?.isSymbolicLink()) await rm(link, { force: true });
}

export async function removeLinksInto(links: string, folder: string, onlyDangling: boolean): Promise<void> {
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

export function ignoreMissing(error: unknown): [] {
  if (errnoOf(error) === 'ENOENT') return [];
  throw error;
}
