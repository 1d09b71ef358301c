/**
 * Volumes of file servers: an export is mounted into the folder of each pod by mount(8), whose helper (`mount.nfs`)
 * speaks to the server.
 *
 * Invariants: the file system itself is never asked, because its server may not answer; a failed mount leaves no folder
 * behind; a mount ends with its pod, see `tear-down.ts`.
 *
 * Upstream: pkg/volume/nfs/nfs.go.
 */
import { constants } from 'node:fs';
import { open, rmdir } from 'node:fs/promises';
import type { VolumeSetUp } from '../../machines/model/operations/volume.ts';
import { makeFolder, openParent } from '../host/root-folder.ts';
import { isMounted, type Mounter } from './mounter.ts';
import { fdPath } from './tree.ts';

const FOLDER_MODE = 0o750;
const INSIDE = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

type RemoteVolume = Extract<VolumeSetUp, { kind: 'remote' }>;

export async function mountRemote(
  root: string,
  volume: RemoteVolume,
  mounter: Mounter,
  signal: AbortSignal,
): Promise<void> {
  const { path } = volume;
  if (await isMounted(root, path)) return;
  const place = openParent(root, path, FOLDER_MODE);
  if (!place) return;
  try {
    makeFolder(place.path, FOLDER_MODE);
    const folder = await open(place.path, INSIDE);
    try {
      await mounter.remote({ ...volume, target: fdPath(folder), shown: path }, signal);
    } finally {
      await folder.close();
    }
  } catch (error) {
    await rmdir(place.path).catch(() => undefined);
    throw error;
  } finally {
    place.folder.close();
  }
}
