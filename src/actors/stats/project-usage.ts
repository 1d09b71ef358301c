/** What the file system counts for the project of a folder: asked for in one call, however much the folder holds. */
import { closeSync, constants, openSync } from 'node:fs';
import { systemCalls } from '../host/kernel/syscall.ts';
import { FIRST_PROJECT } from '../volume/projects.ts';
import type { FolderUsage } from './disk-usage.ts';

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** `null` of a folder that was given no project, or whose file system counts for none: it is walked. */
export function projectUsage(path: string): FolderUsage | null {
  const system = systemCalls();
  if (system === null) return null;
  try {
    const fd = openSync(path, FOLDER);
    try {
      const project = system.projectOf(fd);
      if (project < FIRST_PROJECT) return null;
      const usage = system.projectUsage(fd, project);
      return usage && { used: usage.bytes, inodes: usage.inodes, complete: true };
    } finally {
      closeSync(fd);
    }
  } catch {
    return null;
  }
}
