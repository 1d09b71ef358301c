/**
 * ExecSync and Exec: an additional process in a running container, with its environment, directory and user.
 *
 * Invariants: a response always fits into one message; the process ends with its deadline, its caller or the container
 * (it carries the container's marker); nothing waits forever for a pipe that an unrelated process holds.
 */

import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { ExecOutput } from '../cri/message-fields.ts';
import { limitMs } from '../pause.ts';
import { CriError, invalid, wrongState } from './errors.ts';
import { sendSignal } from './process/proc.ts';
import { type Spawned, spawnProcess } from './process/spawn-process.ts';
import type { Terminal } from './process/terminal.ts';
import { stateOf } from './status.ts';

import type { ProcessSpec } from './store/records.ts';
import type { Container } from './store/store.ts';
import type { CommandStreams } from './streaming/command-streams.ts';

/** Bytes of both streams together: a node agent's message limit minus the envelope. */
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024 - 1024;
/** Concurrent processes: the probes of a full node; more indicate a fault. */
const MAX_RUNNING = 256;
/** Milliseconds that output may still arrive after the process ended. */
const DRAIN_MS = 1_000;
/** Milliseconds that a command may run without its client. */
const ABANDONED_MS = 2_000;

let running = 0;

export interface ExecRequest {
  readonly container: Container;
  readonly command: readonly string[];
  /** 0: no deadline. */
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
}

export async function execSync({ container, command, timeoutSeconds, signal }: ExecRequest): Promise<ExecOutput> {
  checkExec(container, command);
  return await withinLimit(() => execute(container, command, timeoutSeconds, signal));
}

/** @throws CriError if there is nothing to run, or no running container */
export function checkExec(container: Container, command: readonly string[]): void {
  if (command.length === 0 || command[0] === '') throw invalid('failed to exec in container: no command specified');
  if (command.some((argument) => argument.includes('\0'))) throw invalid('failed to exec in container: zero byte');
  if (!container.running) throw wrongState(`failed to exec in container: container is in ${stateOf(container)} state`);
}

async function withinLimit<T>(work: () => Promise<T>): Promise<T> {
  if (running >= MAX_RUNNING) {
    throw new CriError(status.RESOURCE_EXHAUSTED, `failed to exec in container: ${MAX_RUNNING} commands already run`);
  }
  running += 1;
  try {
    return await work();
  } finally {
    running -= 1;
  }
}

/**
 * Runs a command connected to a client's streams. Resolves with its exit code once the client has all output. Rejects
 * if it cannot be executed, or if the client disconnected, after which it is killed.
 */
export async function execStreams(
  container: Container,
  command: readonly string[],
  tty: boolean,
  streams: CommandStreams,
): Promise<number> {
  checkExec(container, command);
  const spec = { ...container.record.process, command };
  return await withinLimit(async () => {
    const terminal = tty ? (await import('./process/terminal.ts')).openTerminal(spec) : null;
    try {
      return await runWithStreams(spec, terminal, streams);
    } finally {
      terminal?.stream.destroy();
    }
  });
}

async function runWithStreams(spec: ProcessSpec, terminal: Terminal | null, streams: CommandStreams): Promise<number> {
  const file = spec.command[0] ?? '';
  const { child, stdin, stdout, stderr, resize } = spawnOrExplain(spec, terminal, streams.stdin !== null);
  streams.sizes.follow(resize);
  if (stdin && streams.stdin) follow(streams.stdin, stdin, terminal === null);
  // An orphaned child process may hold the pipes longer; a caller need not wait for it.
  const copied = Promise.all([copy(stdout, streams.stdout), stderr && copy(stderr, streams.stderr)]);
  try {
    const code = await exitOf(child, file, 0, streams.gone);
    await Promise.race([copied, once(streams.gone, 'abort')]);
    return code;
  } finally {
    stdin?.end();
    for (const stream of [stdout, stderr]) stream?.destroy();
    await killWhenAbandoned(child);
  }
}

/** Kills a command that lost its client, after a delay: its streams have ended, so it may notice and clean up. */
async function killWhenAbandoned(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || !child.pid) return;
  const exited = once(child, 'exit');
  await Promise.race([exited, sleep(ABANDONED_MS, undefined, { ref: false })]);
  if (child.exitCode === null && child.signalCode === null) sendSignal(-child.pid, 'SIGKILL');
}

function spawnOrExplain(spec: ProcessSpec, terminal: Terminal | null, stdin: boolean): Spawned {
  try {
    return spawnProcess(spec, stdin, terminal);
  } catch (thrown) {
    throw wrongState(explain(spec.command[0] ?? '', thrown));
  }
}

/** Input that arrives after the process stopped reading is dropped, so that the client is still read. */
function follow(client: Readable, stdin: Writable, doesEnd: boolean): void {
  client.pipe(stdin, { end: doesEnd });
  stdin.once('close', () => client.resume());
}

/** Resolves when everything has been copied. */
async function copy(from: Readable, to: Writable | null): Promise<void> {
  if (to) from.pipe(to, { end: false });
  else from.resume();
  await new Promise((resolve) => from.once('close', resolve));
}

type Child = ChildProcessByStdio<null, Readable, Readable>;

async function execute(container: Container, command: readonly string[], timeoutSeconds: number, signal: AbortSignal) {
  const { env, cwd, uid, gid } = container.record.process;
  const [file = '', ...args] = command;
  const child: Child = spawn(file, args, {
    env: { ...env },
    cwd,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(uid === undefined ? {} : { uid }),
    ...(gid === undefined ? {} : { gid }),
  });
  const output = collect(child);
  try {
    const exit_code = await exitOf(child, file, timeoutSeconds, signal);
    await Promise.race([output.closed, sleep(DRAIN_MS, undefined, { ref: false })]);
    return { stdout: output.take('stdout'), stderr: output.take('stderr'), exit_code };
  } finally {
    if (child.exitCode === null && child.signalCode === null && child.pid) sendSignal(-child.pid, 'SIGKILL');
    child.stdout.destroy();
    child.stderr.destroy();
  }
}

/**
 * The exit code of a process. Rejects if the process cannot be executed, at its deadline, and if the caller
 * disconnected. Removes its listeners, because the signals outlive the call.
 */
async function exitOf(child: ChildProcess, file: string, seconds: number, signal: AbortSignal): Promise<number> {
  let timer: NodeJS.Timeout | undefined;
  let gone = () => {};
  const exit = new Promise<number>((resolve, reject) => {
    child.once('error', (thrown) => reject(wrongState(explain(file, thrown))));
    child.once('exit', (code, by) => resolve(by === null ? (code ?? 0) : 128 + constants.signals[by]));
    const late = () => {
      const message = `failed to exec in container: timeout ${seconds}s exceeded: context deadline exceeded`;
      reject(new CriError(status.DEADLINE_EXCEEDED, message));
    };
    if (seconds > 0) timer = setTimeout(late, limitMs(seconds * 1_000));
    gone = () => reject(new CriError(status.CANCELLED, 'failed to exec in container: context canceled'));
    if (signal.aborted) gone();
    signal.addEventListener('abort', gone);
  });
  try {
    return await exit;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', gone);
  }
}

function explain(file: string, thrown: unknown): string {
  const why = codeOf(thrown) === 'ENOENT' ? 'executable file not found in $PATH' : messageOf(thrown);
  return `failed to exec in container: failed to start exec: exec: "${file}": ${why}`;
}

/** Keeps output up to the limit and reads on past it, so that the process never blocks on a full pipe. */
function collect(child: Child) {
  const chunks: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
  let remainingBytes = MAX_OUTPUT_BYTES;
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('error', () => {});
    child[name].on('data', (bytes: Buffer) => {
      const kept = bytes.subarray(0, remainingBytes);
      remainingBytes -= kept.length;
      if (kept.length > 0) chunks[name].push(kept);
    });
  }
  return {
    closed: new Promise<void>((resolve) => child.once('close', () => resolve())),
    take: (name: 'stdout' | 'stderr'): Buffer => Buffer.concat(chunks[name]),
  };
}
