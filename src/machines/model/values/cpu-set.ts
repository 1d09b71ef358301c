/** Parses CPU lists such as `0-3,8`, with the format and errors of `cpuset.Parse`. */
import { type Parsed, parseDecimal, quote } from './go-text.ts';

/** More CPUs than any machine has: a longer range is rejected to bound memory. */
const LARGEST_CPU = 65_535;

export function parseCpuSet(text: string): Parsed<readonly number[]> {
  const cpus = new Set<number>();
  for (const range of text === '' ? [] : text.split(',')) {
    const parsed = parseRange(range);
    if (parsed.error !== undefined) return parsed;
    const [start, end] = parsed.value;
    for (let cpu = start; cpu <= end; cpu += 1) cpus.add(cpu);
  }
  return { value: [...cpus].toSorted((left, right) => left - right) };
}

/** The CPUs of a valid list; none for an invalid one. */
export function cpuIds(text: string): readonly number[] {
  const parsed = parseCpuSet(text);
  return parsed.error === undefined ? parsed.value : [];
}

function parseRange(range: string): Parsed<readonly [start: number, end: number]> {
  const at = range.indexOf('-');
  const start = parseDecimal(at < 0 ? range : range.slice(0, at));
  if (start.error !== undefined) return start;
  const end = at < 0 ? start : parseDecimal(range.slice(at + 1));
  if (end.error !== undefined) return end;
  if (start.value > end.value) return { error: `invalid range ${quote(range)} (${start.value} > ${end.value})` };
  if (end.value > LARGEST_CPU) return { error: `CPU ${end.value} is beyond the largest supported CPU ${LARGEST_CPU}` };
  return { value: [start.value, end.value] };
}

/** The set in the format of kernel and kubelet: `0-1,4`. */
export function formatCpuSet(cpus: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const cpu of cpus) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] + 1 === cpu) last[1] = cpu;
    else ranges.push([cpu, cpu]);
  }
  return ranges.map(([start, end]) => (start === end ? `${start}` : `${start}-${end}`)).join(',');
}
