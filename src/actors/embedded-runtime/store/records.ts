/**
 * The runtime's records on disk, from which its next start restores every container.
 *
 *     <root>/runtime.json                     the process that serves this root now
 *     <root>/images.json                      references that were pulled
 *     <root>/sandboxes/<id>.json              SandboxRecord
 *     <root>/containers/<id>/container.json   ContainerRecord   written by the runtime
 *     <root>/containers/<id>/shim.json        ProcessIdentity   claimed by the shim that may start the process
 *     <root>/containers/<id>/process.json     ProcessRecord     written by the shim: the process runs
 *     <root>/containers/<id>/exit.json        ExitRecord        written by the shim: it ended (or by the runtime: lost)
 *     <root>/containers/<id>/log.json         LogRecord         written by the shim: answers to "reopen the log"
 *     <root>/containers/<id>/attach.sock                        listened on by the shim: the container's streams
 *
 * Invariants: these files determine the state of a container; a reader sees a complete file or none; a claim has
 * exactly one winner. Nothing is synced to disk, because no container survives a crash of the machine.
 */
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf } from '../../../kernel/thrown.ts';
import type {
  ContainerMetadata,
  Mount,
  NamespaceOption,
  PodSandboxMetadata,
  Signal,
} from '../../../machines/model/api/cri.ts';
import type { ProcessIdentity } from '../process/proc.ts';

/** Raised when a record's meaning changes; records of other versions are not adopted. */
export const RECORD_VERSION = 1;

interface NamedRecord {
  readonly version: typeof RECORD_VERSION;
  readonly id: string;
  /** Reserved name: two existing objects never share one. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Nanoseconds since 1970. */
  readonly createdAt: string;
}

export interface SandboxRecord extends NamedRecord {
  readonly metadata: PodSandboxMetadata;
  readonly hostname: string;
  readonly logDirectory: string;
  readonly namespaces: NamespaceOption;
  readonly ready: boolean;
}

export interface ContainerRecord extends NamedRecord {
  readonly sandboxId: string;
  readonly metadata: ContainerMetadata;
  readonly image: string;
  readonly imageId: string;
  readonly mounts: readonly Mount[];
  readonly stopSignal: Signal;
  /** Absolute; empty if output is dropped. */
  readonly logPath: string;
  readonly process: ProcessSpec;
  /** Absent: no terminal and no input. */
  readonly terminal?: TerminalSpec;
  /** The requested settings that the container does not get, as text. */
  readonly ignored: readonly string[];
  /** Set before the shim is started: from then on a process may exist. */
  readonly startRequested: boolean;
}

export interface ProcessSpec {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Absent: the user and group of the runtime. */
  readonly uid?: number;
  readonly gid?: number;
}

export interface TerminalSpec {
  readonly stdin: boolean;
  /** Input ends with the first client's. */
  readonly stdinOnce: boolean;
  readonly tty: boolean;
}

export interface ProcessRecord extends ProcessIdentity {
  readonly startedAt: string;
}

export interface ExitRecord {
  readonly exitCode: number;
  readonly reason: ExitReason;
  readonly message: string;
  /** `0` if it never ran. */
  readonly startedAt: string;
  readonly finishedAt: string;
}

/** containerd's reasons: `StartError` (128) if the container never ran, `Unknown` (255) if its end was not observed. */
export type ExitReason = 'Completed' | 'Error' | 'StartError' | 'Unknown';

export const START_ERROR_CODE = 128;
export const UNKNOWN_CODE = 255;

export interface LogRecord {
  readonly reopened: number;
  readonly error?: string;
}

type Shape = Readonly<Record<string, 'string' | 'number' | 'boolean' | 'object'>>;

function hasShape(value: unknown, shape: Shape): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const fields = new Map<string, unknown>(Object.entries(value));
  return Object.entries(shape).every(([name, type]) => typeof fields.get(name) === type && fields.get(name) !== null);
}

const NAMED: Shape = {
  version: 'number',
  id: 'string',
  name: 'string',
  labels: 'object',
  annotations: 'object',
  createdAt: 'string',
  metadata: 'object',
};

export const isSandboxRecord = (value: unknown): value is SandboxRecord =>
  hasShape(value, { ...NAMED, hostname: 'string', logDirectory: 'string', namespaces: 'object', ready: 'boolean' }) &&
  value['version'] === RECORD_VERSION;

export const isContainerRecord = (value: unknown): value is ContainerRecord =>
  hasShape(value, {
    ...NAMED,
    sandboxId: 'string',
    image: 'string',
    imageId: 'string',
    mounts: 'object',
    stopSignal: 'string',
    logPath: 'string',
    process: 'object',
    ignored: 'object',
    startRequested: 'boolean',
  }) &&
  value['version'] === RECORD_VERSION &&
  hasShape(value['process'], { command: 'object', env: 'object', cwd: 'string' });

export const isProcessIdentity = (value: unknown): value is ProcessIdentity =>
  hasShape(value, { pid: 'number', startTime: 'string' });

export const isProcessRecord = (value: unknown): value is ProcessRecord =>
  hasShape(value, { pid: 'number', startTime: 'string', startedAt: 'string' });

export const isExitRecord = (value: unknown): value is ExitRecord =>
  hasShape(value, {
    exitCode: 'number',
    reason: 'string',
    message: 'string',
    startedAt: 'string',
    finishedAt: 'string',
  });

export const isLogRecord = (value: unknown): value is LogRecord => hasShape(value, { reopened: 'number' });

export const containerFiles = (directory: string) => ({
  record: join(directory, 'container.json'),
  shim: join(directory, 'shim.json'),
  process: join(directory, 'process.json'),
  exit: join(directory, 'exit.json'),
  log: join(directory, 'log.json'),
  shimErrors: join(directory, 'shim.log'),
});

/** Records contain commands and environments: readable by the owner only. */
const FILE_MODE = 0o600;

export function writeJson(path: string, value: unknown): void {
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, JSON.stringify(value), { mode: FILE_MODE });
  renameSync(temporary, path);
}

/** `undefined` if there is no such file, or its content is not as expected. */
export function readJson<T>(path: string, isExpected: (value: unknown) => value is T): T | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return isExpected(value) ? value : undefined;
  } catch (thrown) {
    if (thrown instanceof SyntaxError || codeOf(thrown) === 'ENOENT') return undefined;
    throw thrown;
  }
}

/** Creates the file with this content; false if it exists already. */
export function claim(path: string, value: unknown): boolean {
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, JSON.stringify(value), { mode: FILE_MODE });
  try {
    linkSync(temporary, path);
    return true;
  } catch (thrown) {
    if (codeOf(thrown) === 'EEXIST') return false;
    throw thrown;
  } finally {
    rmSync(temporary, { force: true });
  }
}
