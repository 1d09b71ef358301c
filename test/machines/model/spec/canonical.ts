/** The canonical form of a request to the runtime, for comparing a recorded request with a built one. */
import type { Recorded } from './recordings.ts';

/** 64-bit fields, which are numbers in the recordings. */
const INT64 =
  /^(cpu_(period|quota|shares)|memory_(swap_)?limit_in_bytes|oom_score_adj|limit|value|supplemental_groups)$/;

/** Without proto defaults, with 64-bit integers as text, sorted variables, and names for random file names. */
export function canonical(value: unknown, key = ''): unknown {
  if (Array.isArray(value)) {
    const items = value.map((item) => canonical(item, key));
    const sorted = key === 'envs' ? items.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)) : items;
    return sorted;
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value)
      .map(([name, each]) => [name, canonical(each, name)] as const)
      .filter(([name, each]) => !isDefault(name, each));
    return Object.fromEntries(entries);
  }
  if (typeof value === 'number' && INT64.test(key)) return String(value);
  return key === 'host_path'
    ? String(value).replace(/(\/containers\/[^/]+\/)(<rand>|[0-9a-f]{8})$/, '$1<file>')
    : value;
}

const keyOf = (item: Recorded): string => item.key;

const DEFAULT_ENUMS = new Set(['RuntimeDefault', 'POD', 'Merge', 'TCP', 'PROPAGATION_PRIVATE']);

function isDefault(key: string, value: unknown): boolean {
  if (value === undefined || value === 0 || value === '' || value === false) return true;
  if (value === '0' && INT64.test(key)) return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'string' && DEFAULT_ENUMS.has(value) && /^(profile_type|network|pid|ipc|protocol)$/.test(key);
}
