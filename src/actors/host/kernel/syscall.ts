/**
 * The system calls that Node lacks: flock, prlimit, inotify, mount, terminals, projects and their quotas, and datagrams
 * to a unix socket.
 *
 * All use of FFI in the project is here. A wrong prototype would crash the process without a trace, so the calls are
 * few, synchronous (errno is per thread), and tried with harmless arguments when the library is loaded. If loading or a
 * trial fails, {@link systemCalls} is `null` and each port uses its fallback.
 */

import { execFile } from 'node:child_process';
import { constants as files } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { getSystemErrorMap } from 'node:util';
import { OperationError } from '../../../kernel/json.ts';

const LOCK_EX = 2;
const LOCK_NB = 4;
const RLIMIT_NOFILE = 7;
const IN_OPEN = 0x20;
const IN_DELETE_SELF = 0x400;
const IN_NONBLOCK = 0o4000;
const IN_CLOEXEC = 0o2000000;
const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const MSG_NOSIGNAL = 0x4000;
const MSG_DONTWAIT = 0x40;
/** `sun_path` with its closing NUL. */
const SOCKET_PATH_BYTES = 108;
const MS_BIND = 4096;
const MS_REC = 16_384;
const MS_SHARED = 1 << 20;
const MNT_DETACH = 2;
const UMOUNT_NOFOLLOW = 8;
const O_CLOEXEC = 0o2000000;
const TIOCSPTLCK = 0x40045431;
const TIOCGPTN = 0x80045430;
const TIOCSWINSZ = 0x5414;
const FS_IOC_FSGETXATTR = 0x801c581f;
const FS_IOC_FSSETXATTR = 0x401c5820;
/** `struct fsxattr`: five numbers and eight reserved bytes. */
const FSXATTR_BYTES = 28;
const [XFLAGS_AT, PROJECT_AT] = [0, 12];
const FS_XFLAG_PROJINHERIT = 0x200;
/** The number of the system call `quotactl_fd` on every architecture; since Linux 5.14. */
const SYS_QUOTACTL_FD = 443;
/** `QCMD(Q_GETQUOTA, PRJQUOTA)` */
const GET_PROJECT_QUOTA = (0x800007 << 8) | 2;
/** `struct if_dqblk` */
const QUOTA_BYTES = 72;
const [USED_BYTES_AT, USED_INODES_AT] = [16, 40];

export interface SystemCalls {
  /** Takes an exclusive lock on an open file; `false` while another process holds it. */
  tryLock(fd: number): boolean;
  /** Sets both limits of open files of this process. */
  setOpenFilesLimit(limit: number): void;
  /** A descriptor that becomes readable after the file was opened or deleted; reading it never blocks. */
  watchOpens(path: string): { readonly fd: number; close(): void };
  /** Sends one datagram to a unix socket; a leading `@` names an abstract socket. */
  sendDatagram(address: string, payload: Uint8Array): void;
  /** Mounts a new file system of this type on a folder. */
  mount(type: string, target: string, options: string): void;
  /** Bind-mounts the tree at `source` on `target`. */
  bindMount(source: string, target: string): void;
  /** As `bindMount`, including the mounts below `source`. */
  bindTree(source: string, target: string): void;
  /** Makes a mount shared: later mounts below it propagate to its peers. */
  shareTree(target: string): void;
  /** Detaches a mount at once, even while it is in use; never follows a link. */
  unmount(target: string): void;
  /**
   * A new pseudo-terminal: the descriptor of this process's end, and the path of the unlocked other end. Only the
   * caller's stream may close the descriptor: one opened by `node:fs` and closed by a stream would be closed again when
   * the thread ends, when the number may be in use again.
   */
  openTerminal(): { readonly fd: number; readonly path: string };
  /** The project id that a folder passes on to everything in it; 0 without one. */
  projectOf(fd: number): number;
  /** Assigns an empty folder, and everything created in it later, to this project. */
  setProject(fd: number, project: number): void;
  /** The usage that the file system of an open folder counts for a project; `null` if it counts none. */
  projectUsage(fd: number, project: number): ProjectUsage | null;
  /** Sets the size of the terminal for its processes. */
  setWindowSize(fd: number, rows: number, columns: number): void;
}

export interface ProjectUsage {
  readonly bytes: bigint;
  readonly inodes: bigint;
}

type Call = (...args: readonly unknown[]) => number;

interface Library {
  readonly call: Readonly<
    Record<
      | 'flock'
      | 'prlimit'
      | 'inotifyInit'
      | 'inotifyAddWatch'
      | 'socket'
      | 'sendTo'
      | 'close'
      | 'mount'
      | 'unmount'
      | 'openTerminal'
      | 'ioctl'
      | 'quota',
      Call
    >
  >;
  readonly errno: () => number;
}

let loaded: SystemCalls | null | undefined;

export function systemCalls(): SystemCalls | null {
  loaded ??= load();
  return loaded;
}

function load(): SystemCalls | null {
  if (process.platform !== 'linux') return null;
  try {
    const library = openLibrary();
    const calls = callsOf(library);
    compileCall(library, calls);
    return calls;
  } catch {
    return null;
  }
}

function openLibrary(): Library {
  const koffi: typeof import('koffi') = createRequire(import.meta.url)('koffi');
  const libc = koffi.load(null);
  const define = (prototype: string): Call => libc.func(prototype);
  return {
    call: {
      flock: define('int flock(int fd, int operation)'),
      prlimit: define('int prlimit64(int pid, int resource, const void *new_limit, void *old_limit)'),
      inotifyInit: define('int inotify_init1(int flags)'),
      inotifyAddWatch: define('int inotify_add_watch(int fd, const char *path, uint32_t mask)'),
      socket: define('int socket(int domain, int type, int protocol)'),
      sendTo: define(
        'int64_t sendto(int fd, const void *buffer, size_t length, int flags, const void *address, uint32_t size)',
      ),
      close: define('int close(int fd)'),
      mount: define(
        'int mount(const char *source, const char *target, const char *type, uint64_t flags, const char *data)',
      ),
      unmount: define('int umount2(const char *target, int flags)'),
      openTerminal: define('int posix_openpt(int flags)'),
      ioctl: define('int ioctl(int fd, uint64_t request, void *argument)'),
      quota: define('int64_t syscall(int64_t number, int64_t fd, int64_t command, int64_t id, void *block)'),
    },
    errno: () => koffi.errno(),
  };
}

/** Verifies with calls that change nothing that results and errno arrive correctly. */
function compileCall({ call, errno }: Library, calls: SystemCalls): void {
  const isRefused = call.flock(-1, LOCK_EX) === -1 && errno() === constants.errno.EBADF;
  const limits = Buffer.alloc(16);
  const isRead = call.prlimit(0, RLIMIT_NOFILE, null, limits) === 0 && limits.readBigUInt64LE(8) > 0n;
  const isNoTerminal = call.ioctl(-1, TIOCGPTN, Buffer.alloc(4)) === -1 && errno() === constants.errno.EBADF;
  const isUnknown = call.unmount('', MNT_DETACH | UMOUNT_NOFOLLOW) === -1 && call.mount('', '', '', 0, '') === -1;
  // -1: EBADF, ENOSYS of an older kernel, or EPERM under a seccomp filter.
  const isNoFile = call.quota(SYS_QUOTACTL_FD, -1, GET_PROJECT_QUOTA, 0, Buffer.alloc(QUOTA_BYTES)) === -1;
  if (!isRefused || !isRead || !isUnknown || !isNoTerminal || !isNoFile)
    throw new Error('system calls do not answer as expected');
  try {
    calls.sendDatagram('', Buffer.alloc(0));
  } catch (error) {
    if (error instanceof OperationError && error.code === 'EINVAL') return;
  }
  throw new Error('system calls do not answer as expected');
}

function callsOf(library: Library): SystemCalls {
  const { call } = library;
  const must = (result: number, what: string): number => {
    if (result >= 0) return result;
    throw failure(library.errno(), what);
  };
  return {
    tryLock(fd) {
      if (call.flock(fd, LOCK_EX | LOCK_NB) === 0) return true;
      const code = library.errno();
      if (code === constants.errno.EWOULDBLOCK || code === constants.errno.EINTR) return false;
      throw failure(code, 'flock');
    },
    setOpenFilesLimit(limit) {
      const limits = Buffer.alloc(16);
      limits.writeBigUInt64LE(BigInt(limit), 0);
      limits.writeBigUInt64LE(BigInt(limit), 8);
      must(call.prlimit(0, RLIMIT_NOFILE, limits, null), 'prlimit');
    },
    watchOpens(path) {
      const fd = must(call.inotifyInit(IN_NONBLOCK | IN_CLOEXEC), 'inotify_init1');
      const watch = call.inotifyAddWatch(fd, path, IN_OPEN | IN_DELETE_SELF);
      if (watch >= 0) return { fd, close: () => void call.close(fd) };
      const error = failure(library.errno(), 'inotify_add_watch');
      call.close(fd);
      throw error;
    },
    sendDatagram(address, payload) {
      const name = socketName(address);
      const fd = must(call.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), 'socket');
      const flags = MSG_NOSIGNAL | MSG_DONTWAIT;
      const sent = call.sendTo(fd, Buffer.from(payload), payload.length, flags, name, name.length);
      const error = sent < 0 ? failure(library.errno(), 'sendto') : null;
      call.close(fd);
      if (error) throw error;
    },
    ...mountCalls(call, must),
    ...terminalCalls(call, must),
    ...projectCalls(call, must),
  };
}

const mountCalls = (call: Library['call'], must: (result: number, what: string) => number) => ({
  mount: (type: string, target: string, options: string): void =>
    void must(call.mount(type, target, type, 0, options), `mount ${type}`),
  bindMount: (source: string, target: string): void =>
    void must(call.mount(source, target, null, MS_BIND, null), 'mount --bind'),
  bindTree: (source: string, target: string): void =>
    void must(call.mount(source, target, null, MS_BIND | MS_REC, null), `failed to bind-mount ${target}`),
  shareTree: (target: string): void =>
    void must(call.mount(target, target, null, MS_SHARED | MS_REC, null), `failed to make ${target} rshared`),
  unmount: (target: string): void => void must(call.unmount(target, MNT_DETACH | UMOUNT_NOFOLLOW), 'umount'),
});

const terminalCalls = (call: Library['call'], must: (result: number, what: string) => number) => ({
  openTerminal: () => {
    const fd = must(call.openTerminal(files.O_RDWR | files.O_NOCTTY | O_CLOEXEC), 'posix_openpt');
    try {
      must(call.ioctl(fd, TIOCSPTLCK, Buffer.alloc(4)), 'ioctl TIOCSPTLCK');
      const number = Buffer.alloc(4);
      must(call.ioctl(fd, TIOCGPTN, number), 'ioctl TIOCGPTN');
      return { fd, path: `/dev/pts/${number.readUInt32LE()}` };
    } catch (error) {
      call.close(fd);
      throw error;
    }
  },
  setWindowSize: (fd: number, rows: number, columns: number): void => {
    const size = Buffer.alloc(8);
    size.writeUInt16LE(rows, 0);
    size.writeUInt16LE(columns, 2);
    must(call.ioctl(fd, TIOCSWINSZ, size), 'ioctl TIOCSWINSZ');
  },
});

const projectCalls = (call: Library['call'], must: (result: number, what: string) => number) => {
  const attributes = (fd: number): Buffer => {
    const found = Buffer.alloc(FSXATTR_BYTES);
    must(call.ioctl(fd, FS_IOC_FSGETXATTR, found), 'ioctl FS_IOC_FSGETXATTR');
    return found;
  };
  return {
    projectOf: (fd: number): number => {
      const found = attributes(fd);
      const isHandedOn = (found.readUInt32LE(XFLAGS_AT) & FS_XFLAG_PROJINHERIT) !== 0;
      return isHandedOn ? found.readUInt32LE(PROJECT_AT) : 0;
    },
    setProject: (fd: number, project: number): void => {
      const changed = attributes(fd);
      changed.writeUInt32LE(changed.readUInt32LE(XFLAGS_AT) | FS_XFLAG_PROJINHERIT, XFLAGS_AT);
      changed.writeUInt32LE(project, PROJECT_AT);
      must(call.ioctl(fd, FS_IOC_FSSETXATTR, changed), 'ioctl FS_IOC_FSSETXATTR');
    },
    projectUsage: (fd: number, project: number): ProjectUsage | null => {
      const block = Buffer.alloc(QUOTA_BYTES);
      if (call.quota(SYS_QUOTACTL_FD, fd, GET_PROJECT_QUOTA, project, block) !== 0) return null;
      return { bytes: block.readBigUInt64LE(USED_BYTES_AT), inodes: block.readBigUInt64LE(USED_INODES_AT) };
    },
  };
};

/** `struct sockaddr_un`; an abstract name starts with NUL and has no terminator. */
function socketName(address: string): Buffer {
  const name = Buffer.from(address.replace(/^@/, '\0'));
  if (name.length === 0 || name.length >= SOCKET_PATH_BYTES) throw failure(constants.errno.EINVAL, 'socket address');
  const family = Buffer.alloc(2);
  family.writeUInt16LE(AF_UNIX);
  return Buffer.concat([family, name, Buffer.alloc(address.startsWith('@') ? 0 : 1)]);
}

function failure(errno: number, what: string): OperationError {
  const [code, message] = getSystemErrorMap().get(-errno) ?? [`errno ${errno}`, 'unknown error'];
  return new OperationError(`${what}: ${message}`, { code });
}

/** The timeout of these programs, each of which makes one system call. */
const COMMAND_TIMEOUT_MS = 5_000;

/** Runs a program in place of a system call that FFI cannot make. If it fails, rejects with its output. */
export function runCommand(file: string, args: readonly string[], environment?: NodeJS.ProcessEnv): Promise<void> {
  return new Promise((resolve, reject) => {
    const options = { timeout: COMMAND_TIMEOUT_MS, ...(environment ? { env: environment } : {}) };
    execFile(file, [...args], options, (error, _stdout, stderr) => {
      if (!error) return resolve();
      const output = stderr.trim() || error.message;
      reject(new OperationError(`${file}: ${output}`, { code: String(error.code ?? 'EUNKNOWN') }));
    });
  });
}
