/** One metric family with its samples, and its serialization: Prometheus' text, or its delimited messages. */

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

const inOrder = (families: readonly Family[]): Family[] =>
  families
    .filter(({ samples }) => samples.length > 0)
    .toSorted((one, other) => (one.name < other.name ? -1 : Number(one.name > other.name)));

const escapeHelp = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
/** Nearly every label is plain, and a scrape may have a hundred thousand. */
const IS_SPECIAL = /[\\\n"]/;
const escapeLabel = (text: string): string => (IS_SPECIAL.test(text) ? escapeHelp(text).replaceAll('"', '\\"') : text);

function labelText(labels: Sample['labels']): string {
  let pairs = '';
  for (const name of namesOf(labels)) pairs += `${pairs === '' ? '' : ','}${name}="${escapeLabel(labels[name] ?? '')}"`;
  return pairs === '' ? '' : `{${pairs}}`;
}

/** In the order of Go's encoder: by name, with the bound of a bucket or quantile last. */
function namesOf(labels: Sample['labels']): string[] {
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

/** As Go's `%g`. */
export function numberText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf';
  const magnitude = Math.abs(value);
  if (magnitude === 0 || (magnitude < EXPONENT_FROM && magnitude >= EXPONENT_BELOW)) return String(value);
  return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
}

// ---- io.prometheus.client.MetricFamily ------------------------------------------------------------------------------

const TYPES: Readonly<Record<FamilyType, number>> = { counter: 0, gauge: 1, summary: 2, histogram: 4 };
/** Field of a Metric that holds a plain value, by type. */
const PLAIN: Readonly<Partial<Record<FamilyType, number>>> = { gauge: 2, counter: 3 };
const SUMMARY = 4;
const HISTOGRAM = 7;
const TIMESTAMP = 6;

export function toProtobuf(families: readonly Family[]): Buffer {
  const messages = inOrder(families).map((family) => {
    const head = [text(1, family.name), text(2, family.help), varintField(3, TYPES[family.type])];
    const body = Buffer.concat([...head, ...metricsOf(family).map((metric) => bytes(4, metric))]);
    return Buffer.concat([varint(body.length), body]);
  });
  return Buffer.concat(messages);
}

function metricsOf({ type, samples }: Family): Buffer[] {
  const plain = PLAIN[type];
  if (plain !== undefined) {
    return samples.map(({ labels, value, timestampMs }) =>
      Buffer.concat([...labelFields(labels), bytes(plain, double(1, value)), ...timeField(timestampMs)]),
    );
  }
  const groups = Object.values(Object.groupBy(samples, ({ labels }) => JSON.stringify(ownLabels(labels))));
  return groups.map((group = []) => distribution(type, group));
}

const ownLabels = ({ le: _le, quantile: _quantile, ...own }: Sample['labels']): Sample['labels'] => own;

function distribution(type: FamilyType, samples: readonly Sample[]): Buffer {
  const of = (suffix: string) => samples.find((sample) => sample.suffix === suffix)?.value ?? 0;
  const isHistogram = type === 'histogram';
  const parts = samples
    .map(({ labels, value }) => ({ bound: labels['le'] ?? labels['quantile'], value }))
    .flatMap(({ bound: text, value }) => {
      if (text === undefined) return [];
      const bound = numberOf(text);
      const fields = isHistogram ? [varintField(1, value), double(2, bound)] : [double(1, bound), double(2, value)];
      return bytes(3, Buffer.concat(fields));
    });
  const body = Buffer.concat([varintField(1, of('_count')), double(2, of('_sum')), ...parts]);
  return Buffer.concat([
    ...labelFields(ownLabels(samples[0]?.labels ?? {})),
    bytes(isHistogram ? HISTOGRAM : SUMMARY, body),
  ]);
}

const numberOf = (value: string): number => (value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value));

const labelFields = (labels: Sample['labels']): Buffer[] =>
  namesOf(labels).map((name) => bytes(1, Buffer.concat([text(1, name), text(2, labels[name] ?? '')])));

const timeField = (ms: number | undefined): Buffer[] => (ms === undefined ? [] : [varintField(TIMESTAMP, ms)]);

function varint(value: number): Buffer {
  const out: number[] = [];
  let rest = BigInt(Math.trunc(value));
  for (; rest > 127n; rest >>= 7n) out.push(Number(rest & 127n) | 128);
  return Buffer.from([...out, Number(rest)]);
}

const varintField = (field: number, value: number): Buffer => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field: number, value: Buffer): Buffer =>
  Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);
const text = (field: number, value: string): Buffer => bytes(field, Buffer.from(value));

function double(field: number, value: number): Buffer {
  const buffer = Buffer.alloc(9);
  buffer[0] = (field << 3) | 1;
  buffer.writeDoubleLE(value, 1);
  return buffer;
}
