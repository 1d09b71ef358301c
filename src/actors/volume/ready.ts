/**
 * The mark that a volume was handed over to the containers of its pod: an empty file `ready` in the plug-in's folder of
 * the pod, where upstream has it.
 *
 * Invariant: there is a mark only where everything that the agent does to such a volume is done.
 */
import { closeSync, constants, lstatSync, openSync, type Stats } from 'node:fs';
import { errnoOf, openParent } from '../host/below-root.ts';

const WAY_MODE = 0o750;
const MARK_MODE = 0o644;
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW;

/** `<pod>/volumes/<plugin>/<name>` has `<pod>/plugins/<plugin>/<name>/ready`. */
export const readyMark = (podDirectory: string, volumePath: string): string =>
  `${podDirectory}/plugins${volumePath.slice(`${podDirectory}/volumes`.length)}/ready`;

/** What lies there, reached through no link; `null`: nothing. */
export function foundAt(root: string, path: string): Stats | null {
  const place = openParent(root, path);
  if (!place) return null;
  try {
    return lstatSync(place.path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw error;
  } finally {
    place.folder.close();
  }
}

export function leaveMark(root: string, mark: string): void {
  const place = openParent(root, mark, WAY_MODE);
  if (!place) return;
  try {
    closeSync(openSync(place.path, CREATE, MARK_MODE));
  } finally {
    place.folder.close();
  }
}
