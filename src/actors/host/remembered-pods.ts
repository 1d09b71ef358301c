/**
 * `host.loadPods` and `host.savePod`: the pods of the API server that this node may start without it, one file a pod.
 *
 * Decides: a file that is no such pod is left alone and not told. Invariants: a reader finds the old pod or the new
 * one, never a part; a uid never leads out of the folder; only the owner reads what is written.
 */
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { OperationError } from '../../kernel/json.ts';
import type { Port } from '../../kernel/operation.ts';
import type { hostOperations, RememberedPod } from '../../machines/operations/host.ts';
import { errnoOf } from './beneath.ts';

type Operations = typeof hostOperations;

const OWNER_ONLY = 0o600;
const FOLDER_MODE = 0o700;
/** Far more than a node runs. */
const PODS_MAX = 2_000;
/** A pod of the API server has at most 1.5 MiB, and its ConfigMaps as much again. */
const BYTES_MAX = 8 * 1_048_576;
const UID = /^[A-Za-z0-9][A-Za-z0-9-]{0,127}$/;

export const loadPods: Port<Operations['host.loadPods']> = async ({ input: { directory } }) => {
  const names = await readdir(directory).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  });
  const files = names.filter((name) => name.endsWith('.json')).toSorted((a, b) => (a < b ? -1 : 1));
  const pods = await Promise.all(files.slice(0, PODS_MAX).map((name) => readPod(join(directory, name))));
  return { pods: pods.filter((pod) => pod !== null) };
};

async function readPod(path: string): Promise<RememberedPod | null> {
  try {
    if ((await stat(path)).size > BYTES_MAX) return null;
    const value = JSON.parse(await readFile(path, 'utf8')) as Partial<RememberedPod>;
    const isPod = typeof value.pod === 'object' && typeof value.objects === 'object';
    return isPod ? (value as RememberedPod) : null;
  } catch {
    return null;
  }
}

export const savePod: Port<Operations['host.savePod']> = async ({ input: { directory, uid, remembered } }) => {
  if (!UID.test(uid)) throw new OperationError(`"${uid}" is no uid of a pod`, { code: 'EINVAL' });
  const path = join(directory, `${uid}.json`);
  if (remembered === null) {
    await rm(path, { force: true });
    return null;
  }
  await mkdir(directory, { recursive: true, mode: FOLDER_MODE });
  const file = await open(`${path}.tmp`, 'w', OWNER_ONLY);
  try {
    await file.writeFile(JSON.stringify(remembered));
    await file.datasync();
  } finally {
    await file.close();
  }
  await rename(`${path}.tmp`, path);
  return null;
};
