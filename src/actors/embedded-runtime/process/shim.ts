/**
 * The shim: one small process for each container, so that containers survive the daemon.
 *
 * Owns: the container's pipes or its terminal, its log, the attach socket, and its exit status. The runtime starts it
 * as `node shim.ts <container directory>`; shim and runtime exchange only the files of `records.ts`. SIGUSR2 reopens
 * the log; signals to terminate are ignored, because the shim ends with its container.
 *
 * Invariants: the shim starts the process only after it won the claim, so no container starts twice; `exit.json` is
 * written last, after the log is complete and all processes of the container have ended.
 *
 * The log has CRI's format: `<RFC 3339 time> <stream> <F|P> <line>`. A line longer than the limit is split into `P`
 * pieces followed by an `F`; an unterminated rest at the end of a stream is a `P`; a full disk never blocks the
 * container, but lines are lost.
 */
import { closeSync, mkdirSync, openSync, statSync, writeSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { constants } from 'node:os';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { codeOf, messageOf } from '../../../kernel/thrown.ts';
import { nowNanos, rfc3339Nano } from '../clock.ts';
import type { ContainerRecord, ExitReason, ExitRecord, ProcessRecord, ProcessSpec } from '../store/records.ts';
import { claim, containerFiles, isContainerRecord, readJson, START_ERROR_CODE, writeJson } from '../store/records.ts';
import { AttachServer } from './attach-socket.ts';
import { identify, killMembers } from './proc.ts';
import { spawnProcess } from './spawn-process.ts';
import type { Terminal } from './terminal.ts';

/** Milliseconds that output may still arrive after the last process ended (a pipe held by an unrelated process). */
const DRAIN_MS = 2_000;

const files = containerFiles(process.argv[2] ?? '.');
let startedAt = '0';

async function main(): Promise<void> {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
  const record = readJson(files.record, isContainerRecord);
  if (!record || !claim(files.shim, identify(process.pid))) return;
  try {
    const log = new LogFile(record.logPath);
    answerReopen(log);
    checkDirectory(record.process.cwd);
    run(record, log, record.terminal?.tty ? (await import('./terminal.ts')).openTerminal(record.process) : null);
  } catch (thrown) {
    const message = explain(thrown, record.process);
    void killMembers(record.id, undefined).then(() => finish(START_ERROR_CODE, 'StartError', message));
  }
}

function run(record: ContainerRecord, log: LogFile, terminal: Terminal | null): void {
  const { child, stdin, stdout, stderr, resize } = spawnProcess(
    record.process,
    record.terminal?.stdin === true,
    terminal,
  );
  child.once('error', (thrown) => finish(START_ERROR_CODE, 'StartError', explain(thrown, record.process)));
  const identity = child.pid === undefined ? undefined : identify(child.pid);
  if (child.pid === undefined || identity === undefined) return;
  startedAt = String(nowNanos());
  const attached = new AttachServer(dirname(files.record), {
    stdin,
    stdinOnce: record.terminal?.stdinOnce === true,
    resize,
  });
  writeJson(files.process, { ...identity, startedAt } satisfies ProcessRecord);
  const closeLogs = [copy(stdout, 'stdout', log, attached), ...(stderr ? [copy(stderr, 'stderr', log, attached)] : [])];
  const sources = stderr ? [stdout, stderr] : [stdout];
  const closed = Promise.all(sources.map((from) => new Promise((done) => from.once('close', done))));
  const { pid } = child;
  child.once('exit', (code, signal) => {
    const exitCode = exitCodeOf(code, signal);
    void end(record.id, pid, exitCode, async () => {
      await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, DRAIN_MS))]);
      for (const close of closeLogs) close();
      await attached.close();
    });
  });
  // Lets the next shim start without stripping types and compiling.
  flushCompileCache();
}

async function end(id: string, pid: number, exitCode: number, outputEnded: () => Promise<void>): Promise<void> {
  const finishedAt = String(nowNanos());
  await killMembers(id, pid);
  await outputEnded();
  finish(exitCode, exitCode === 0 ? 'Completed' : 'Error', '', finishedAt);
}

function copy(from: Readable, to: StreamName, log: LogFile, attached: AttachServer): () => void {
  const splitter = new LineSplitter(to);
  from.on('data', (bytes: Buffer) => {
    log.write(splitter.push(bytes));
    attached.output(to, bytes);
  });
  from.on('error', () => {});
  return () => log.write(splitter.end());
}

function finish(exitCode: number, reason: ExitReason, message: string, finishedAt = String(nowNanos())): void {
  writeJson(files.exit, { exitCode, reason, message, startedAt, finishedAt } satisfies ExitRecord);
  process.exit(0);
}

function answerReopen(log: LogFile): void {
  let reopened = 0;
  process.on('SIGUSR2', () => {
    reopened += 1;
    try {
      log.reopen();
      writeJson(files.log, { reopened });
    } catch (thrown) {
      writeJson(files.log, { reopened, error: String(thrown) });
    }
  });
}

function checkDirectory(cwd: string): void {
  const found = statSync(cwd, { throwIfNoEntry: false });
  if (!found) throw new Error(`chdir to cwd ("${cwd}") failed: no such file or directory`);
  if (!found.isDirectory()) throw new Error(`chdir to cwd ("${cwd}") failed: not a directory`);
}

function exitCodeOf(code: number | null, signal: NodeJS.Signals | null): number {
  return signal === null ? (code ?? 0) : 128 + constants.signals[signal];
}

/** Why the process could not be started, with runc's text if it has one. */
function explain(thrown: unknown, spec: ProcessSpec): string {
  const file = spec.command[0] ?? '';
  const spawning = thrown instanceof Error && 'syscall' in thrown && String(thrown.syscall).startsWith('spawn');
  switch (spawning ? codeOf(thrown) : undefined) {
    case 'ENOENT':
      return file.includes('/')
        ? `exec: "${file}": stat ${file}: no such file or directory`
        : `exec: "${file}": executable file not found in $PATH`;
    case 'EACCES':
      return `exec: "${file}": permission denied`;
    default:
      return messageOf(thrown);
  }
}

/** Bytes of one piece: containerd's `max_container_log_line_size`, so readers need no larger buffer. */
const MAX_LINE_BYTES = 16 * 1024;

const NEWLINE = 10;
const LOG_MODE = 0o640;
const DIRECTORY_MODE = 0o755;

type StreamName = 'stdout' | 'stderr';

/** Turns the bytes of one stream into log entries. */
class LineSplitter {
  readonly #stream: StreamName;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: StreamName) {
    this.#stream = stream;
  }

  /** The entries completed by these bytes; the unfinished rest is kept. */
  push(bytes: Buffer): Buffer {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const entries: Buffer[] = [];
    let start = 0;
    for (let end = all.indexOf(NEWLINE); end >= 0; end = all.indexOf(NEWLINE, start)) {
      start = this.#cut(all, start, end, entries);
      entries.push(this.#entry('F', all.subarray(start, end)));
      start = end + 1;
    }
    start = this.#cut(all, start, all.length, entries);
    this.#rest = Buffer.from(all.subarray(start));
    return Buffer.concat(entries);
  }

  /** At the end of the stream an unterminated rest is a partial line. */
  end(): Buffer {
    const rest = this.#rest;
    this.#rest = Buffer.alloc(0);
    return rest.length === 0 ? rest : this.#entry('P', rest);
  }

  #cut(all: Buffer, from: number, end: number, entries: Buffer[]): number {
    let start = from;
    for (; end - start > MAX_LINE_BYTES; start += MAX_LINE_BYTES) {
      entries.push(this.#entry('P', all.subarray(start, start + MAX_LINE_BYTES)));
    }
    return start;
  }

  #entry(tag: 'F' | 'P', line: Buffer): Buffer {
    return Buffer.concat([Buffer.from(`${rfc3339Nano(nowNanos())} ${this.#stream} ${tag} `), line, Buffer.from('\n')]);
  }
}

/** The log file; without a path every line is dropped, as CRI specifies. */
class LogFile {
  readonly #path: string;
  #fd: number | undefined;

  constructor(path: string) {
    this.#path = path;
    this.reopen();
  }

  /** After a rotation, continues in a new file of the same name; in the old file if the new file cannot be opened. */
  reopen(): void {
    if (this.#path === '') return;
    mkdirSync(dirname(this.#path), { recursive: true, mode: DIRECTORY_MODE });
    const next = openSync(this.#path, 'a', LOG_MODE);
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = next;
  }

  write(entries: Buffer): void {
    if (this.#fd === undefined) return;
    try {
      for (let written = 0; written < entries.length; ) written += writeSync(this.#fd, entries, written);
    } catch {
      // The error is ignored: the container must go on, and the next write may find space again.
    }
  }
}

// At the end of the file: the classes above exist only from their line on.
void main();
