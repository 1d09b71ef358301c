/**
 * A pseudo-terminal for a process, which becomes the leader of its session.
 *
 * Invariant: a process started with it leads its own session with this controlling terminal, so that Ctrl-C, job
 * control and hang-up work as usual. Node cannot set this at a fork; a shell can: a terminal opened by a session leader
 * becomes its controlling terminal.
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
  readonly path: string;
  /** The process's output and input. Ends when the last process has closed its end. */
  readonly stream: Duplex;
  readonly resize: (size: TerminalSize) => void;
}

/** Opens a terminal for processes of `owner`. @throws if the kernel or the system calls are not available */
export function openTerminal(owner: { readonly uid?: number; readonly gid?: number }): Terminal {
  const calls = systemCalls();
  if (!calls) throw new Error('a terminal needs system calls that are not available here: ask for no tty');
  const { fd, path } = calls.openTerminal();
  if (owner.uid !== undefined) chownSync(path, owner.uid, owner.gid ?? owner.uid);
  const stream = new ReadStream(fd);
  // The kernel's signal that the process's end is closed.
  stream.on('error', () => stream.destroy());
  // A closed descriptor may already be reused.
  const resize = ({ columns, rows }: TerminalSize): void => {
    if (!stream.destroyed) calls.setWindowSize(fd, rows, columns);
  };
  return { path, stream, resize };
}
