/**
 * `logs.*`: the logs of containers on disk.
 *
 * Decides: when a log is linked, rotated, or reported as missing; what remains is removed with its container.
 */
import { lstat, readdir, rename, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { OperationError, toPlainError } from '../../kernel/json.ts';
import type { Ports } from '../../kernel/operation.ts';
import type { logOperations, PodLogs } from '../../machines/model/operations/logs.ts';
import { pause } from '../pause.ts';
import { ensureLink, ignoreMissing, removeLink, removeLinksInto } from './log-links.ts';
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
