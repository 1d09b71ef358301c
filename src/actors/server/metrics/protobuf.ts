/** Metric families as Prometheus' delimited protobuf messages (io.prometheus.client.MetricFamily). */
import { type Family, type FamilyType, inOrder, namesOf, type Sample } from './instruments.ts';

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
  const valueOf = (suffix: string) => samples.find((sample) => sample.suffix === suffix)?.value ?? 0;
  const isHistogram = type === 'histogram';
  const parts = samples
    .map(({ labels, value }) => ({ bound: labels['le'] ?? labels['quantile'], value }))
    .flatMap(({ bound: text, value }) => {
      if (text === undefined) return [];
      const bound = numberOf(text);
      const fields = isHistogram ? [varintField(1, value), double(2, bound)] : [double(1, bound), double(2, value)];
      return bytes(3, Buffer.concat(fields));
    });
  const body = Buffer.concat([varintField(1, valueOf('_count')), double(2, valueOf('_sum')), ...parts]);
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
