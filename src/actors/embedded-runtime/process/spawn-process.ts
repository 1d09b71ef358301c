/**
 * Starts a process of a container, with pipes or with a terminal, as a session of its own.
 *
 * Used by the shim for the container's own process and by the runtime for commands beside it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { ProcessSpec } from '../store/records.ts';
import type { Terminal, TerminalSize } from './terminal.ts';

/** A process and its streams. With a terminal there is one output stream, which also takes the input. */
export interface Spawned {
  readonly child: ChildProcess;
  readonly stdin: Writable | null;
  readonly stdout: Readable;
  readonly stderr: Readable | null;
  readonly resize: (size: TerminalSize) => void;
}

const TERMINAL_TYPE = 'xterm';
/** Runs the remaining arguments with the terminal named by the first one; see `terminal.ts`. */
const TAKE_TERMINAL = 'exec <>"$0" >&0 2>&1; exec "$@"';

/** Throws or emits `error` on the child if it cannot be executed, like Node's `spawn`. */
export function spawnProcess(spec: ProcessSpec, stdin: boolean, terminal: Terminal | null): Spawned {
  const { command, env, cwd, uid, gid } = spec;
  const common = {
    cwd,
    detached: true,
    ...(uid === undefined ? {} : { uid }),
    ...(gid === undefined ? {} : { gid }),
  };
  if (terminal) {
    mustBeExecutable(command[0] ?? '', spec);
    const child = spawn('/bin/sh', ['-c', TAKE_TERMINAL, terminal.path, ...command], {
      ...common,
      env: { TERM: TERMINAL_TYPE, ...env },
      stdio: 'ignore',
    });
    const { stream } = terminal;
    return { child, stdin: stdin ? stream : null, stdout: stream, stderr: null, resize: terminal.resize };
  }
  const [file = '', ...args] = command;
  const child = spawn(file, args, { ...common, env: { ...env }, stdio: [stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'] });
  // A process may end or close its input while data is in transit.
  child.stdin?.on('error', () => {});
  return { child, stdin: child.stdin, stdout: child.stdout!, stderr: child.stderr, resize: () => {} };
}

/** Checked here because the shell in between would find out too late to report it. */
function mustBeExecutable(file: string, { env, cwd }: ProcessSpec): void {
  const directories = file.includes('/') ? ['.'] : (env['PATH'] ?? '').split(':');
  const found = directories.some((directory) => isExecutable(resolve(cwd, directory, file)));
  if (!found) throw Object.assign(new Error(`spawn ${file} ENOENT`), { code: 'ENOENT', syscall: `spawn ${file}` });
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
