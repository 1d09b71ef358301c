/**
 * A start as spans for other tools, the phases of the start and the operations with the actors that requested them; and
 * as an image with one bar for each phase along a time axis. Pure. Also the command `statelet export`.
 *
 * Invariants: the same journal always gives the same ids; a span without an end ends with the journal and is marked as
 * open; no span ends before it begins.
 */
import { createHash } from 'node:crypto';
import { actorOf } from '../../actors/server/visualizer/history.ts';
import type { Journal } from '../../kernel/journal/reader.ts';
import type { HeaderRecord, JournalRecord } from '../../kernel/records.ts';
import { duration } from '../../visualizer/words.ts';
import { exitCodes } from '../exit-codes.ts';
import { insight, journalAt, refuse, startIsGone } from '../insight/command.ts';
import { phaseName, type StartupTime, startupPhases, startupTime } from '../insight/startup-time.ts';
import { actorName, type Story } from '../insight/story.ts';
import { printableJson } from '../printable.ts';
import { STATELET_VERSION } from '../version.ts';

interface Span {
  readonly name: string;
  /** `Phases`, or the actor that requested the operation. */
  readonly track: string;
  /** The record with which the span begins. */
  readonly n: number;
  readonly began: number;
  readonly ended: number;
  readonly end: 'done' | 'failed' | 'cancelled' | 'open';
  readonly error?: string;
}

const PHASES = 'phases';

function spansOf(story: Story): readonly Span[] {
  const phases = startupPhases(story).map(
    (visit): Span => ({
      name: phaseName(visit),
      track: PHASES,
      n: visit.enteredBy,
      began: visit.entered,
      ended: visit.left ?? story.ended,
      end: visit.left === undefined ? 'open' : 'done',
    }),
  );
  const operations = [...story.operations.values()].map(
    ({ name, at, n, began, ended, end, error }): Span => ({
      name,
      track: actorName(at.slice(0, at.lastIndexOf('/')), story),
      n,
      began,
      ended: ended ?? story.ended,
      end: end ?? 'open',
      ...(error === undefined ? {} : { error }),
    }),
  );
  return [...phases, ...operations].map((span) => ({ ...span, ended: Math.max(span.began, span.ended) }));
}

const idOf = (length: number, ...parts: readonly (string | number)[]): string =>
  createHash('sha256').update(parts.join(' ')).digest('hex').slice(0, length);

/** Lengths in hexadecimal characters: 16 and 8 bytes. */
const [TRACE_ID, SPAN_ID] = [32, 16];
const KIND_INTERNAL = 1;
const STATUS_ERROR = 2;

const attribute = (key: string, value: string) => ({ key, value: { stringValue: value } });
const nanos = (ms: number): string => `${Math.round(ms)}000000`;

/** OTLP/JSON: one `ExportTraceServiceRequest`. */
export function otlpOf(story: Story): object {
  const { node, bootId, incarnation } = story.header;
  const traceId = idOf(TRACE_ID, node, bootId, incarnation, story.started);
  const spanId = (...parts: readonly (string | number)[]): string => idOf(SPAN_ID, traceId, ...parts);
  const root = {
    traceId,
    spanId: spanId('start'),
    name: `start ${incarnation}`,
    kind: KIND_INTERNAL,
    startTimeUnixNano: nanos(story.started),
    endTimeUnixNano: nanos(story.ended),
    attributes: [],
    status: story.failure ? { code: STATUS_ERROR, message: story.failure.message } : {},
  };
  const spans = spansOf(story).map(({ name, track, n, began, ended, end, error }) => ({
    traceId,
    spanId: spanId(track, name, n),
    parentSpanId: root.spanId,
    name,
    kind: KIND_INTERNAL,
    startTimeUnixNano: nanos(began),
    endTimeUnixNano: nanos(ended),
    attributes: [
      attribute('statelet.actor', track),
      attribute('statelet.end', end),
      { key: 'statelet.record', value: { intValue: String(n) } },
    ],
    status: error === undefined ? {} : { code: STATUS_ERROR, message: error },
  }));
  const resource = {
    attributes: [
      attribute('service.name', 'statelet'),
      attribute('service.version', story.header.build.statelet),
      attribute('host.name', node),
    ],
  };
  const scope = { name: 'statelet export', version: STATELET_VERSION };
  return { resourceSpans: [{ resource, scopeSpans: [{ scope, spans: [root, ...spans] }] }] };
}

/** Trace Event Format, for Perfetto and chrome://tracing: asynchronous events, as operations overlap. */
export function chromeOf(story: Story): object {
  const spans = spansOf(story);
  const tracks = [...new Set(spans.map(({ track }) => track))];
  const pid = 1;
  const micros = (t: number): number => (t - story.started) * 1_000;
  const names = tracks.map((name, tid) => ({ ph: 'M', pid, tid, name: 'thread_name', args: { name } }));
  const events = spans.flatMap(({ name, track, n, began, ended, end, error }) => {
    const common = { name, cat: track === PHASES ? 'phase' : 'operation', id: n, pid, tid: tracks.indexOf(track) };
    const args = { actor: track, record: n, end, ...(error === undefined ? {} : { error }) };
    return [
      { ...common, ph: 'b', ts: micros(began), args },
      { ...common, ph: 'e', ts: micros(ended), args: {} },
    ];
  });
  const process = { ph: 'M', pid, tid: 0, name: 'process_name', args: { name: `statelet ${story.header.node}` } };
  return { displayTimeUnit: 'ms', traceEvents: [process, ...names, ...events] };
}

const TYPE = 'io.statelet.record';

/**
 * The records of a start as CloudEvents 1.0 (JSON), for brokers and stores of events.
 *
 * Invariants: `source` names the node and its start, `id` is the record's number, so both together are unique and the
 * same at each export; a derived record has the time of the input that led to it, which `cause` names.
 */
export function* cloudEventsOf(
  { node, incarnation }: HeaderRecord,
  records: Iterable<JournalRecord>,
): Generator<object> {
  const source = `/nodes/${encodeURIComponent(node)}/starts/${incarnation}`;
  let now = 0;
  for (const record of records) {
    if ('t' in record) now = record.t;
    if (record.k === 'end') continue;
    const subject = record.k === 'dropped' || record.k === 'gap' ? undefined : actorOf(record);
    const cause = 'cause' in record ? record.cause : undefined;
    yield {
      specversion: '1.0',
      id: String(record.n),
      source,
      type: `${TYPE}.${record.k}`,
      time: new Date(now).toISOString(),
      ...(subject === undefined ? {} : { subject }),
      ...(cause === undefined ? {} : { cause: String(cause) }),
      datacontenttype: 'application/json',
      data: record,
    };
  }
}

const [WIDTH, NAMES_WIDTH, ROW, HEAD] = [1_000, 300, 20, 40];
const BAR_MIN = 2;
const STYLE = `text{font:12px sans-serif;fill:#1f2328}rect{fill:#4078c0}.open{fill:#bf8700}.failed{fill:#cf222e}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}}`;

/** Escapes markup, and removes characters that XML does not allow. */
const escaped = (text: string): string =>
  text
    .replace(/[<>&"']/g, (character) => `&#${character.charCodeAt(0)};`)
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, '\uFFFD');

export function plotOf(story: Story): string {
  const time = startupTime(story);
  const { phases, totalMs } = time;
  const scale = (WIDTH - NAMES_WIDTH) / Math.max(1, totalMs);
  const rows = phases.map(({ name, enteredMs, tookMs = 0, open }, row) => {
    const kind = name === time.failedIn ? 'failed' : open ? 'open' : 'done';
    const y = HEAD + row * ROW;
    const x = NAMES_WIDTH + enteredMs * scale;
    const width = Math.max(BAR_MIN, Math.min(tookMs * scale, WIDTH - x));
    const title = `${name}: from ${duration(enteredMs)}, ${duration(tookMs)}${kind === 'done' ? '' : `, ${kind}`}`;
    return (
      `<g><title>${escaped(title)}</title><text x="8" y="${y + 14}">${escaped(name)}</text>` +
      `<rect class="${kind}" x="${x.toFixed(1)}" y="${y + 4}" width="${width.toFixed(1)}" height="12"/></g>`
    );
  });
  const height = HEAD + phases.length * ROW + ROW / 2;
  const title = escaped(`Start ${time.incarnation} of ${story.header.node}: ${outcomeOf(time)}`);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="t d">`,
    `<title id="t">${title}</title>`,
    `<desc id="d">${escaped(phases.map(({ name, tookMs }) => `${name} ${duration(tookMs ?? 0)}`).join(', '))}</desc>`,
    `<style>${STYLE}</style>`,
    `<text x="8" y="20">${title}</text>`,
    ...rows,
    '</svg>\n',
  ].join('\n');
}

const outcomeOf = ({ complete, failure, totalMs }: StartupTime): string =>
  `${complete ? 'finished' : failure === undefined ? 'goes on' : 'failed'} after ${duration(totalMs)}`;

/** `statelet export JOURNAL --to FORM` and `statelet plot JOURNAL`: a start for other tools. */
interface Chosen {
  readonly incarnation?: string;
}

/** The text of each form: the spans of the start, or its records, one per line. */
const FORMS = {
  otlp: (story: Story) => `${printableJson(otlpOf(story))}\n`,
  chrome: (story: Story) => `${printableJson(chromeOf(story))}\n`,
  cloudevents: ({ header }: Story, { records }: Journal) =>
    Array.from(cloudEventsOf(header, records), (event) => `${printableJson(event)}\n`).join(''),
} as const;

const isForm = (name: string): name is keyof typeof FORMS => Object.hasOwn(FORMS, name);

export function exportCommand(log: string, { to, ...chosen }: Chosen & { readonly to: string }): number {
  if (!isForm(to)) return refuse('export', `--to is ${Object.keys(FORMS).join(', ')}, not ${to}`, exitCodes.usage);
  return insight('export', [log], { ...chosen, format: 'text' }, (story) => {
    return { json: null, text: FORMS[to](story, journalAt(log, chosen.incarnation)) };
  });
}

export const plotCommand = (log: string, chosen: Chosen): number =>
  insight('plot', [log], { ...chosen, format: 'text' }, (story) => {
    const gone = startIsGone(story);
    return gone ?? { json: null, text: plotOf(story) };
  });
