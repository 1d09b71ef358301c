/**
 * A terminal for a process: the pair of devices that the kernel has for it, and the process that is its session.
 *
 * Invariant: a process started with it leads a session of its own with this terminal as controlling terminal, so that
 * Ctrl-C, job control and the hang-up of a closed terminal reach it as everywhere. Node cannot say that at a fork; a
 * shell can: what a session's leader opens becomes its terminal.
 */
import { chownSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import { ReadStream } from 'node:tty';
import { systemCalls } from '../../host/kernel/syscall.ts';

export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

export interface Terminal {
  /** The device that the process has as its terminal. */
  readonly path: string;
  /** The process's output and input. Ends when the last process has closed the other end. */
  readonly stream: Duplex;
  readonly resize: (size: TerminalSize) => void;
}

/** Opens the terminal that a process of `owner` may use. @throws where the kernel or the system calls are not there */
export function openTerminal(owner: { readonly uid?: number; readonly gid?: number }): Terminal {
  const calls = systemCalls();
  if (!calls) throw new Error('a terminal needs system calls that are not available here: ask for no tty');
  const { fd, path } = calls.openTerminal();
  if (owner.uid !== undefined) chownSync(path, owner.uid, owner.gid ?? owner.uid);
  const stream = new ReadStream(fd);
  // The kernel's way to say that the process's end is closed.
  stream.on('error', () => stream.destroy());
  // A descriptor that is closed may be reused by now.
  const resize = ({ columns, rows }: TerminalSize): void => {
    if (!stream.destroyed) calls.setWindowSize(fd, rows, columns);
  };
  return { path, stream, resize };
}
