/**
 * Mounts and unmounts: by system call, or by the programs of the system where there is no FFI.
 *
 * Every path goes through an open folder or file (`/proc/<pid>/fd/<fd>`), so that containers cannot redirect a mount by
 * renaming. Invariants: a call that may hang (a network or user space file system) is made by a process with a timeout,
 * never by the agent itself; the programs are told not to resolve paths.
 */
import { execFile } from 'node:child_process';
import { readFile, realpath } from 'node:fs/promises';
import { promisify } from 'node:util';
import { memberOf, OperationError } from '../../kernel/json.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import { escaped, type Mount, parseMounts } from '../host/kernel/mounts.ts';
import { type SystemCalls, systemCalls } from '../host/kernel/syscall.ts';
import { namesBelow } from '../host/root-folder.ts';

/** After this time a mount is abandoned: a file system that does not answer rarely recovers soon. */
const MOUNT_TIMEOUT_MS = 10_000;
/** File systems whose calls another machine or process answers. */
const FOREIGN = /^(nfs|cifs|smb|fuse|9p|ceph|lustre|afs|autofs|gfs|ocfs|glusterfs|virtiofs|vboxsf)/;

const run = promisify(execFile);

export interface Mounter {
  mount(type: string, target: string, options: readonly string[]): Promise<void>;
  bind(source: string, target: string): Promise<void>;
  /** Sets the options of a mount; a bind mount begins with the options of its source. */
  remount(source: string, target: string, options: readonly string[]): Promise<void>;
  /** Mounts the file system on a device of this machine. */
  device(source: string, target: string, type: string, options: readonly string[]): Promise<void>;
  /** Bind-mounts `source` with all mounts below it. */
  bindTree(source: string, target: string): Promise<void>;
  /** Makes `target` shared: later mounts below it appear wherever `target` is bound. */
  shareTree(target: string): Promise<void>;
  unmount(target: string): Promise<void>;
}

/** `programs`: names or paths of mount(8) and umount(8), for machines and tests that have others. */
export interface MounterOptions {
  readonly system?: SystemCalls | null;
  readonly programs?: { readonly mount: string; readonly umount: string };
  readonly timeoutMs?: number;
}

export function mounter(options: MounterOptions = {}): Mounter {
  const programs = byPrograms(options);
  const system = options.system === undefined ? systemCalls() : options.system;
  if (system === null) return programs;
  return {
    async mount(type, target, mountOptions) {
      system.mount(type, target, mountOptions.join(','));
    },
    async bind(source, target) {
      if (await isForeign(source)) await programs.bind(source, target);
      else system.bindMount(source, target);
    },
    remount: (source, target, options) => programs.remount(source, target, options),
    device: (source, target, type, options) => programs.device(source, target, type, options),
    async bindTree(source, target) {
      system.bindTree(source, target);
    },
    async shareTree(target) {
      system.shareTree(target);
    },
    async unmount(target) {
      system.unmount(target);
    },
  };
}

function byPrograms({ programs, timeoutMs = MOUNT_TIMEOUT_MS }: MounterOptions): Mounter {
  const { mount, umount } = programs ?? { mount: 'mount', umount: 'umount' };
  const call = async (program: string, argv: readonly string[]): Promise<void> => {
    try {
      await run(program, [...argv], { timeout: timeoutMs, killSignal: 'SIGKILL' });
    } catch (error) {
      throw programFailure(program, error, timeoutMs);
    }
  };
  return {
    mount: (type, target, options) =>
      call(mount, ['--no-canonicalize', '-t', type, '-o', options.join(','), type, target]),
    bind: (source, target) => call(mount, ['--no-canonicalize', '--bind', source, target]),
    remount: (source, target, options) =>
      call(mount, ['--no-canonicalize', '-o', ['remount', 'bind', ...options].join(','), source, target]),
    device: (source, target, type, options) =>
      call(mount, ['--no-canonicalize', '-t', type, '-o', options.join(','), source, target]),
    bindTree: (source, target) => call(mount, ['--no-canonicalize', '--rbind', source, target]),
    shareTree: (target) => call(mount, ['--no-canonicalize', '--make-rshared', target]),
    unmount: (target) => call(umount, ['--no-canonicalize', '--lazy', target]),
  };
}

function programFailure(program: string, error: unknown, timeoutMs: number): OperationError {
  const code = codeOf(error);
  const stderr = memberOf(error, 'stderr');
  if (memberOf(error, 'killed') === true) {
    return new OperationError(`${program} did not end within ${timeoutMs} ms: a file system does not answer`, {
      code: 'ETIMEDOUT',
      retriable: true,
    });
  }
  if (code === 'ENOENT') return new OperationError(`there is no program ${program}: install util-linux`, { code });
  const output = (typeof stderr === 'string' && stderr.trim()) || messageOf(error);
  const isRefused = /permission denied|must be superuser|not permitted/i.test(output);
  const isBadOption = /bad option|wrong fs type|invalid argument|bad superblock/i.test(output);
  return new OperationError(output, { code: isRefused ? 'EPERM' : isBadOption ? 'EINVAL' : 'EIO', retriable: true });
}

async function isForeign(source: string): Promise<boolean> {
  const mount = await mountBehind(source);
  return mount === null || FOREIGN.test(mount.type);
}

/**
 * The mount of an open descriptor, from the kernel's table, without a call to the file system; `null` if the table has
 * no such mount.
 */
export async function mountBehind(descriptor: string): Promise<Mount | null> {
  const information = await readFile(descriptor.replace('/fd/', '/fdinfo/'), 'utf8');
  const id = /^mnt_id:\s*(\d+)$/m.exec(information)?.[1];
  const line = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').find((each) => each.startsWith(`${id} `));
  return line === undefined ? null : (parseMounts(line)[0] ?? null);
}

/**
 * Mount points at or below a folder, the last mounted first. `folder` has to be a real path. A node with many pods has
 * thousands of mounts, so only lines that name the folder are parsed.
 */
export async function mountsBelow(folder: string): Promise<readonly string[]> {
  const named = ` ${escaped(folder)}`;
  const lines = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').filter((line) => line.includes(named));
  const points = parseMounts(lines.join('\n')).map(({ point }) => point);
  return points.filter((point) => point === folder || point.startsWith(`${folder}/`)).toReversed();
}

/** The path without the links above the root, as the kernel's table of mounts writes it. */
export const realPath = async (root: string, path: string): Promise<string> =>
  [await realpath(root), ...namesBelow(root, path)].join('/');

/** Whether the kernel lists a mount at this path; the file system itself is not asked. */
export async function isMounted(root: string, path: string): Promise<boolean> {
  const point = await realPath(root, path);
  return (await mountsBelow(point)).includes(point);
}
