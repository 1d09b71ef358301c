/**
 * Reads /proc: which processes are alive, belong to a container, and what they use.
 *
 * Invariant: a process is identified by its pid AND its start time, because pids are reused. The processes of a
 * container are those of its session and those that inherited its marker in their environment, which includes processes
 * that created their own session.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { codeOf } from '../../../kernel/thrown.ts';
import type { Signal } from '../../../machines/model/api/cri.ts';

/** Environment variable that every process of a container inherits; its value is the container's id. */
export const MARKER = 'STATELET_CONTAINER_ID';

export interface ProcessIdentity {
  readonly pid: number;
  /** Boot id and clock ticks since that boot (field 22 of /proc/<pid>/stat). */
  readonly startTime: string;
}

export interface ProcessStat {
  readonly pid: number;
  readonly state: string;
  readonly processGroup: number;
  readonly session: number;
  readonly minorFaults: number;
  readonly majorFaults: number;
  /** CPU time of the process and of its reaped children. */
  readonly cpuTicks: number;
  readonly startTicks: string;
}

function readStat(pid: number): ProcessStat | undefined {
  const text = readProc(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The command name is in parentheses and may itself contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const field = (number: number): number => Number(fields[number - 3]);
  return {
    pid,
    state: fields[0] ?? 'X',
    processGroup: field(5),
    session: field(6),
    minorFaults: field(10),
    majorFaults: field(12),
    cpuTicks: field(14) + field(15) + field(16) + field(17),
    startTicks: fields[22 - 3] ?? '0',
  };
}

export function identify(pid: number): ProcessIdentity | undefined {
  const stat = readStat(pid);
  return stat && { pid, startTime: `${bootId()}:${stat.startTicks}` };
}

/** Whether this very process still runs; a zombie does not. */
export function isAlive(identity: ProcessIdentity): boolean {
  const stat = readStat(identity.pid);
  return stat !== undefined && isRunning(stat) && identity.startTime === `${bootId()}:${stat.startTicks}`;
}

/** The running processes of a container. `session` only if its leader is, or has just been, ours. */
export function membersOf(containerId: string, session: number | undefined): readonly ProcessStat[] {
  const members: ProcessStat[] = [];
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? readStat(Number(name)) : undefined;
    if (stat === undefined || !isRunning(stat) || stat.pid === process.pid) continue;
    if (stat.session === session || hasMarker(stat.pid, containerId)) members.push(stat);
  }
  return members;
}

/** Kills every process of a container, including new ones. Ends when none is left or after the last round. */
export async function killMembers(containerId: string, session: number | undefined): Promise<void> {
  for (let round = 0; round < KILL_ROUNDS; round++) {
    const members = membersOf(containerId, session);
    if (members.length === 0) return;
    for (const { pid } of members) killIfAllowed(pid);
    await new Promise((resolve) => setTimeout(resolve, KILL_ROUND_MS));
  }
}

/** Kills a process, unless it now belongs to another user; the other processes are killed all the same. */
function killIfAllowed(pid: number): void {
  try {
    sendSignal(pid, 'SIGKILL');
  } catch (thrown) {
    if (codeOf(thrown) !== 'EPERM') throw thrown;
  }
}

/** Rounds of killing: a killed process needs a moment to end. A container that creates processes faster is given up. */
const KILL_ROUNDS = 100;
const KILL_ROUND_MS = 10;

/** Negative `pid`: the process group. A process that is already gone is no error. */
export function sendSignal(pid: number, signal: NodeJS.Signals | number): void {
  try {
    process.kill(pid, signal);
  } catch (thrown) {
    if (codeOf(thrown) !== 'ESRCH') throw thrown;
  }
}

/** Resident memory in bytes: total, and the anonymous part. */
export function readMemory(pid: number): { readonly resident: number; readonly anonymous: number } {
  const status = readProc(`/proc/${pid}/status`) ?? '';
  const kibibytes = (key: string): number => Number(new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0);
  return { resident: kibibytes('VmRSS') * 1024, anonymous: kibibytes('RssAnon') * 1024 };
}

function isRunning(stat: ProcessStat): boolean {
  return stat.state !== 'Z' && stat.state !== 'X';
}

function hasMarker(pid: number, containerId: string): boolean {
  const environment = readProc(`/proc/${pid}/environ`);
  return environment !== undefined && `\0${environment}`.includes(`\0${MARKER}=${containerId}\0`);
}

let knownBootId: string | undefined;
function bootId(): string {
  knownBootId ??= (readProc('/proc/sys/kernel/random/boot_id') ?? '').trim();
  return knownBootId;
}

/** `undefined` if the process ended or belongs to another user. */
function readProc(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** The C library reserves 32 and 33 for its threads. */
const FIRST_REALTIME = 34;
const LAST_REALTIME = 64;

/** The signal number of CRI's name (`SIGRTMINPLUS3`); `undefined` if this machine lacks the signal. */
export function signalNumber(signal: Signal): number | undefined {
  if (signal === 'RUNTIME_DEFAULT') return constants.signals.SIGTERM;
  if (signal === 'SIGCLD') return constants.signals.SIGCHLD;
  const realtime = /^SIGRT(MIN|MAX)(?:PLUS|MINUS)?(\d*)$/.exec(signal);
  if (realtime) {
    const offset = Number(realtime[2] ?? 0);
    return realtime[1] === 'MIN' ? FIRST_REALTIME + offset : LAST_REALTIME - offset;
  }
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return numbers[signal];
}
