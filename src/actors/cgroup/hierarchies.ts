/**
 * Finds this machine's cgroup hierarchies: the mounts of version 1, one per controller, or the single tree of version
 * 2.
 *
 * A hybrid machine (controllers in version 1, an empty version 2 beside them) counts as version 1. The mounts are read
 * once and cached: they do not change while a node runs.
 */
import { readFile } from 'node:fs/promises';
import { OperationError } from '../../kernel/json.ts';
import { parseMounts } from '../host/kernel/mounts.ts';

export interface Hierarchies {
  readonly version: 1 | 2;
  /** Mount points by controller (`cpu`, `name=systemd`, `unified`); version 2 has one entry with an empty name. */
  readonly mounts: ReadonlyMap<string, string>;
}

const UNIFIED = '/sys/fs/cgroup';
/** The version 2 tree beside version 1: it has no controllers, but runtimes create groups in it as well. */
const HYBRID_UNIFIED = 'unified';
/** Options of a version 1 mount that name no controller. */
const PLAIN_OPTIONS = new Set(['rw', 'ro', 'xattr', 'noprefix', 'clone_children', 'relatime', 'all', 'none']);

/** `root` is a prefix for a machine that is described by files. */
export async function readHierarchies(root: string): Promise<Hierarchies> {
  const found = parseMounts(await readFile(`${root}/proc/self/mountinfo`, 'utf8'));
  if (found.findLast(({ point }) => point === UNIFIED)?.type === 'cgroup2') {
    return { version: 2, mounts: new Map([['', `${root}${UNIFIED}`]]) };
  }
  const mounts = new Map<string, string>();
  for (const { type, point, options } of found) {
    if (type === 'cgroup2') mounts.set(HYBRID_UNIFIED, `${root}${point}`);
    if (type !== 'cgroup') continue;
    for (const option of options) {
      if (!PLAIN_OPTIONS.has(option) && !option.startsWith('release_agent')) mounts.set(option, `${root}${point}`);
    }
  }
  if ([...mounts.keys()].every((controller) => controller === HYBRID_UNIFIED))
    throw new OperationError('failed to find cgroup mounts', { code: 'ENOENT' });
  return { version: 1, mounts };
}

/** Controllers whose group must exist for the cgroup to exist; `hugetlb` only if it is mounted. */
const REQUIRED_CONTROLLERS = ['cpu', 'cpuacct', 'cpuset', 'memory', 'pids', 'hugetlb', 'name=systemd'];

/** The folders without which the cgroup does not exist, one per hierarchy. */
export const requiredFolders = ({ version, mounts }: Hierarchies, path: string): readonly string[] =>
  version === 2
    ? [`${mounts.get('')}${path}`]
    : unique(REQUIRED_CONTROLLERS.flatMap((controller) => mounts.get(controller) ?? [])).map(
        (mount) => `${mount}${path}`,
      );

/** All folders of a cgroup. */
export const foldersOf = ({ mounts }: Hierarchies, path: string): readonly string[] =>
  unique([...mounts.values()]).map((mount) => `${mount}${path}`);

const unique = (texts: readonly string[]): string[] => [...new Set(texts)];
