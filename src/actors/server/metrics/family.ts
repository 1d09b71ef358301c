/** A metric family with its samples, and their text in Prometheus' format. */

export type FamilyType = 'counter' | 'gauge' | 'histogram' | 'summary';

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  /** `_bucket`, `_sum`, `_count`; absent for the family's own. */
  readonly suffix?: string;
  /** Milliseconds since the epoch, for values measured before the request. */
  readonly timestampMs?: number;
}

export interface Family {
  readonly name: string;
  /** Upstream's text, with its stability as prefix: `[ALPHA] …`. */
  readonly help: string;
  readonly type: FamilyType;
  readonly samples: readonly Sample[];
}

export const gaugeOf = (name: string, help: string, samples: readonly Sample[]): Family => ({
  name,
  help,
  type: 'gauge',
  samples,
});

export const one = (value: number, labels: Sample['labels'] = {}): Sample => ({ labels, value });

/** Families without samples are omitted, as by upstream. */
export function toText(families: readonly Family[]): string {
  return inOrder(families)
    .map(({ name, help, type, samples }) => {
      const lines = samples.map(
        ({ suffix = '', labels, value, timestampMs }) =>
          `${name}${suffix}${labelText(labels)} ${numberText(value)}${timestampMs === undefined ? '' : ` ${timestampMs}`}\n`,
      );
      return `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n${lines.join('')}`;
    })
    .join('');
}

export const inOrder = (families: readonly Family[]): Family[] =>
  families
    .filter(({ samples }) => samples.length > 0)
    .toSorted((one, other) => (one.name < other.name ? -1 : Number(one.name > other.name)));

const escapeHelp = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
/** Detects labels that need escaping: few do, and a scrape may have a hundred thousand labels. */
const IS_SPECIAL = /[\\\n"]/;
const escapeLabel = (text: string): string => (IS_SPECIAL.test(text) ? escapeHelp(text).replaceAll('"', '\\"') : text);

function labelText(labels: Sample['labels']): string {
  let pairs = '';
  for (const name of namesOf(labels)) pairs += `${pairs === '' ? '' : ','}${name}="${escapeLabel(labels[name] ?? '')}"`;
  return pairs === '' ? '' : `{${pairs}}`;
}

/** The names of labels in the order of Go's encoder: by name, with the bound of a bucket or quantile last. */
export function namesOf(labels: Sample['labels']): string[] {
  const names = Object.keys(labels);
  let before: string | undefined;
  for (const name of names) {
    if (before !== undefined && isAfter(before, name)) return names.toSorted(byPlace);
    before = name;
  }
  return names;
}

const isBound = (name: string): boolean => name === 'le' || name === 'quantile';
const isAfter = (one: string, other: string): boolean => isBound(one) || (!isBound(other) && one > other);
const byPlace = (one: string, other: string): number => (isAfter(one, other) ? 1 : -1);

/** From this value on, and below a ten thousandth, Go writes an exponent of two digits. */
const EXPONENT_FROM = 1e6;
const EXPONENT_BELOW = 1e-4;

/** A number as written by Go's `%g`. */
export function numberText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf';
  const magnitude = Math.abs(value);
  if (magnitude === 0 || (magnitude < EXPONENT_FROM && magnitude >= EXPONENT_BELOW)) return String(value);
  return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
}
