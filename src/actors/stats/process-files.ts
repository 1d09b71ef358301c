/**
 * Open files of the processes of one cgroup, and their limit.
 *
 * Format: proc_pid_fd(5). A process that ends in the meantime counts as having none.
 */
import { readdirSync, readlinkSync } from 'node:fs';
import { readText } from './kernel-text.ts';

export interface ProcessFiles {
  readonly open: number;
  /** `null`: too much is open to inspect each. */
  readonly sockets: number | null;
  /** The limit of the first process; `null` when it is gone, -1 without a limit. */
  readonly openLimit: number | null;
}

/**
 * Inspecting a file costs a few microseconds, and a database has a hundred thousand connections: a process with more
 * open files is not inspected.
 */
const INSPECTED_MAX = 2_000;

/** `folder` is the cgroup's own, `root` the prefix of /proc. `null`: it has no process. */
export function processFiles(folder: string, root: string): ProcessFiles | null {
  const pids = (readText(`${folder}/cgroup.procs`) ?? '').split('\n').filter((pid) => pid !== '' && pid !== '0');
  if (pids.length === 0) return null;
  const open = pids.flatMap((pid) => descriptors(`${root}/proc/${pid}/fd`));
  const isMuch = open.length > INSPECTED_MAX;
  return {
    open: open.length,
    sockets: isMuch ? null : open.filter(isSocket).length,
    openLimit: openLimit(`${root}/proc/${pids[0]}/limits`),
  };
}

function descriptors(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => `${folder}/${name}`);
  } catch {
    return [];
  }
}

function isSocket(path: string): boolean {
  try {
    return readlinkSync(path).startsWith('socket:');
  } catch {
    return false;
  }
}

function openLimit(path: string): number | null {
  const soft = /^Max open files\s+(\S+)/m.exec(readText(path) ?? '')?.[1];
  if (soft === undefined) return null;
  return soft === 'unlimited' ? -1 : Number(soft);
}
