/**
 * The system calls that Node does not have: flock, prlimit, inotify, mount, terminals, and datagrams to a unix socket.
 *
 * Owns every use of FFI in the project. A wrong prototype would kill the process without a trace, so there are few,
 * they are synchronous (errno belongs to the thread) and they are tried on harmless arguments when the library is
 * loaded. Where loading or trying fails, {@link systemCalls} is `null` and each port takes its other road.
 */
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

export interface SystemCalls {
  /** Takes an exclusive lock on an open file; `false` while another process holds it. */
  tryLock(fd: number): boolean;
  /** Sets both limits of open files of this process. */
  setOpenFilesLimit(limit: number): void;
  /** A descriptor with something to read after the file was opened or deleted; reading it never waits. */
  watchOpens(path: string): { readonly fd: number; close(): void };
  /** One datagram to a unix socket; a leading `@` names an abstract one. */
  sendDatagram(address: string, payload: Uint8Array): void;
  /** Mounts a new file system of this type on a folder. */
  mount(type: string, target: string, options: string): void;
  /** Shows what is at `source` at `target`, too. */
  bindMount(source: string, target: string): void;
  /** As `bindMount`, with everything that is mounted below `source`. */
  bindTree(source: string, target: string): void;
  /** Mounts that are made below a mount from now on, and below those in it, are made wherever it is bound, too. */
  shareTree(target: string): void;
  /** Takes a mount out of the tree at once, even while it is in use; never through a link. */
  unmount(target: string): void;
  /**
   * A new pair of devices: the end of this process, and the path of the other one, which is unlocked. The caller's
   * stream alone closes it: what `node:fs` opens and a stream closes, a thread closes again when it ends, whosesoever
   * the descriptor is by then.
   */
  openTerminal(): { readonly fd: number; readonly path: string };
  /** Sets the size of the terminal for its processes. */
  setWindowSize(fd: number, rows: number, columns: number): void;
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
      | 'ioctl',
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
    rehearse(library, calls);
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
    },
    errno: () => koffi.errno(),
  };
}

/** Proves with calls that change nothing that results and errno arrive as they should. */
function rehearse({ call, errno }: Library, calls: SystemCalls): void {
  const isRefused = call.flock(-1, LOCK_EX) === -1 && errno() === constants.errno.EBADF;
  const limits = Buffer.alloc(16);
  const isRead = call.prlimit(0, RLIMIT_NOFILE, null, limits) === 0 && limits.readBigUInt64LE(8) > 0n;
  const isNoTerminal = call.ioctl(-1, TIOCGPTN, Buffer.alloc(4)) === -1 && errno() === constants.errno.EBADF;
  const isUnknown = call.unmount('', MNT_DETACH | UMOUNT_NOFOLLOW) === -1 && call.mount('', '', '', 0, '') === -1;
  if (!isRefused || !isRead || !isUnknown || !isNoTerminal) throw new Error('system calls do not answer as expected');
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

/** `struct sockaddr_un`; an abstract name starts with NUL and is not ended by one. */
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
