/** The value of every flag of this process as `/flagz` writes it: as given, or the flag's own default. */
import type { Json } from '../../kernel/json.ts';
import { flagDefaults } from '../../machines/configuration/fields/defaults.ts';
import { FLAGS } from '../../machines/configuration/flags/flag-table.ts';
import { parseCommandLine } from '../../machines/configuration/index.ts';

const NO_TEXT = { version: '', raw: '' };

/** By name, sorted. */
export function flagValues(argv: readonly string[]): Readonly<Record<string, string>> {
  const line = parseCommandLine(argv, NO_TEXT);
  const given = line.kind === 'run' ? line.given : {};
  const defaults = flagDefaults({});
  const rows = FLAGS.map(({ name, kind, field, default: fallback }) => {
    const value = given[name] ?? (field === undefined ? fallback : kind === 'thresholds' ? {} : at(defaults, field));
    return [name, written(value)] as const;
  });
  const all = [...rows, ['help', 'false'] as const, ['version', 'false'] as const];
  return Object.fromEntries(all.toSorted(([one], [other]) => (one < other ? -1 : Number(one > other))));
}

const at = (value: Json | undefined, path: string): Json | undefined =>
  path
    .split('.')
    .reduce<Json | undefined>((part, key) => (part as Readonly<Record<string, Json>> | undefined)?.[key], value);

/** As Go's flags print themselves: lists in brackets, maps as pairs. */
function written(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  if (Array.isArray(value)) return `[${value.map(written).join(',')}]`;
  if (typeof value !== 'object') return String(value);
  return Object.entries(value)
    .map(([key, part]) => `${key}=${written(part)}`)
    .toSorted()
    .join(',');
}
