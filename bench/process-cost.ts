/** The cost of processes, by the kernel's own figures. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** Milliseconds of CPU that the process has used, with its threads and without its children. */
export function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1_000;
}

/** The process and all its descendants. */
export function family(pid: number): number[] {
  const parents = readdirSync('/proc').flatMap((entry) => {
    if (!/^\d+$/.test(entry)) return [];
    try {
      const parent = Number(readFileSync(`/proc/${entry}/stat`, 'utf8').split(') ').at(-1)!.split(' ')[1]);
      return [[Number(entry), parent] as const];
    } catch {
      return [];
    }
  });
  const members = [pid];
  for (const member of members) members.push(...parents.filter(([, of]) => of === member).map(([child]) => child));
  return members;
}

export const familyCpuMs = (pid: number): number => family(pid).reduce((sum, member) => sum + cpuMs(member), 0);

/** Resident memory in MiB. */
export function rssMiB(pid: number): number {
  const kib = /^Rss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1];
  return Number(kib) / 1_024;
}
