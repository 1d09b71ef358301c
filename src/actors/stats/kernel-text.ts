/**
 * Reads numbers from small files of /proc, /sys and cgroups.
 *
 * Reads are synchronous: the kernel produces these few hundred bytes at once, and the thread pool would cost more than
 * the read. A missing file gives `null`, because cgroups are removed at any time.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** The text without its last line end; `null` if it cannot be read. */
export function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trimEnd();
  } catch {
    return null;
  }
}

/** One number; `null` if there is none, or for `max`. */
export function readNumber(path: string): bigint | null {
  const text = readText(path);
  return text === null || !/^\d+$/.test(text) ? null : BigInt(text);
}

/** `name value` per line; other lines are skipped. */
function parseTable(text: string | null): ReadonlyMap<string, bigint> {
  const table = new Map<string, bigint>();
  for (const line of text?.split('\n') ?? []) {
    const space = line.indexOf(' ');
    const value = line.slice(space + 1);
    if (space > 0 && /^\d+$/.test(value)) table.set(line.slice(0, space), BigInt(value));
  }
  return table;
}

export const readTable = (path: string): ReadonlyMap<string, bigint> => parseTable(readText(path));

/** Share of time in which tasks waited, in percent over three windows, and the time itself in microseconds. */
export interface Pressure {
  readonly total: bigint;
  readonly avg10: number;
  readonly avg60: number;
  readonly avg300: number;
}

export interface PressureStall {
  readonly some: Pressure;
  readonly full: Pressure;
}

export const NO_PRESSURE: Pressure = { total: 0n, avg10: 0, avg60: 0, avg300: 0 };

/** A `*.pressure` file; older kernels lack `full` of the CPU, which then counts as zero. */
export function parsePressure(text: string): PressureStall {
  const pressureOf = (kind: 'some' | 'full'): Pressure => {
    const line = new RegExp(`^${kind} avg10=([\\d.]+) avg60=([\\d.]+) avg300=([\\d.]+) total=(\\d+)$`, 'm').exec(text);
    if (!line) return NO_PRESSURE;
    const [, avg10, avg60, avg300, total = 0] = line;
    return { total: BigInt(total), avg10: Number(avg10), avg60: Number(avg60), avg300: Number(avg300) };
  };
  return { full: pressureOf('full'), some: pressureOf('some') };
}

export function readPressure(path: string): PressureStall | null {
  const text = readText(path);
  return text === null ? null : parsePressure(text);
}

/** Names of the folders in a folder; none if it cannot be read. */
export function folders(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
  } catch {
    return [];
  }
}

/** `name=value` texts as a map. */
export const pairsOf = (texts: readonly string[]): ReadonlyMap<string, string> =>
  new Map(
    texts.map((text) => {
      const [name = '', value = ''] = text.split('=');
      return [name, value];
    }),
  );

export function readMeminfo(root: string): ReadonlyMap<string, bigint> {
  const lines = readText(`${root}/proc/meminfo`)?.split('\n') ?? [];
  const fields = lines.flatMap((line): [string, bigint][] => {
    const [, name, amount, unit] = /^([^:]+):\s+(\d+)( kB)?$/.exec(line) ?? [];
    if (name === undefined || amount === undefined) return [];
    return [[name, BigInt(amount) * (unit === undefined ? 1n : 1_024n)]];
  });
  return new Map(fields);
}

export const notNegative = (value: bigint): bigint => (value < 0n ? 0n : value);
