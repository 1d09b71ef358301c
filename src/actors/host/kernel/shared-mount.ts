/**
 * The folder of a node as a shared mount: what is mounted below it reaches the containers that have the folder, and
 * what such a container mounts there reaches the node and the others (`mountPropagation`).
 */
import { open, realpath } from 'node:fs/promises';
import { type Mounter, mountBehind, mountsBelow } from '../../volume/mounter.ts';

/**
 * Does nothing where the folder is in a shared mount. Otherwise it becomes a mount of its own, and shared: of itself,
 * with what was mounted below it before.
 */
export async function makeShared(path: string, mounter: Mounter): Promise<void> {
  const handle = await open(path, 'r');
  try {
    const before = `/proc/${process.pid}/fd/${handle.fd}`;
    const holder = await mountBehind(before);
    if (holder?.isShared) return;
    const real = await realpath(path);
    if (holder?.point !== real) {
      const below = await mountsBelow(real);
      await mounter.bindTree(real, real);
      // They are in the new mount, too; the old ones, hidden below it, could not be unmounted by path later.
      for (const point of below) await mounter.unmount(before + point.slice(real.length));
    }
    await mounter.shareTree(real);
  } finally {
    await handle.close();
  }
}
