/** How large a file system is and how much of it ordinary processes may still fill. */
import { statfs } from 'node:fs/promises';
import type { Port } from '../../kernel/operation.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';

export const fileSystem: Port<(typeof hostOperations)['host.fileSystem']> = async ({ input: { path } }) => {
  const { blocks, bavail, bsize } = await statfs(path, { bigint: true });
  return { capacityBytes: String(blocks * bsize), availableBytes: String(bavail * bsize) };
};
