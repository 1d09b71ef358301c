/** The decisions in a journal as lines of text: states that were left and entered, requests, events, log lines. */
import type { EffectRecord, KernelRecord, LogRecord, MessageRecord, StateRecord } from '../../../src/kernel/records.ts';

/** The part of a journal that a stage shows. */
export interface Shown {
  /** The readable name of an actor; `null` if the story is not about it. */
  readonly nameOf: (address: string) => string | null;
  /** The text of a message that is itself a decision; `null` for all others. */
  readonly messageOf?: (message: MessageRecord) => string | null;
}

/** By region, its active state: `life: sync.active`. A chart without regions has the name ''. */
type Regions = ReadonlyMap<string, string>;

export class Decisions {
  private readonly shown: Shown;
  private readonly states = new Map<string, Regions>();
  private seen = 0;
  private startMs: number | undefined;
  private nowMs = 0;

  constructor(shown: Shown) {
    this.shown = shown;
  }

  /** The lines for the records since the last call. */
  next(records: readonly KernelRecord[]): string[] {
    const fresh = records.slice(this.seen);
    this.seen = records.length;
    return fresh.flatMap((record) => {
      if ('t' in record) this.nowMs = record.t;
      this.startMs ??= this.nowMs;
      const at = `+${((this.nowMs - this.startMs) / 1_000).toFixed(3).padStart(7)}`;
      return this.describe(record).map((line) => `${at} ${line}`);
    });
  }

  private describe(record: KernelRecord): string[] {
    if (record.k === 'state') return this.change(record);
    if (record.k === 'effect') return this.request(record);
    if (record.k === 'log') return this.line(record);
    if (record.k !== 'message') return [];
    const text = this.shown.messageOf?.(record) ?? null;
    return text === null ? [] : [text];
  }

  private change({ at, value, status, error }: StateRecord): string[] {
    const name = this.shown.nameOf(at);
    if (name === null) return [];
    const before = this.states.get(at);
    const now = regionsOf(value);
    this.states.set(at, now);
    const end = error ? [`${name} fails: ${error.message}`] : status === undefined ? [] : [`${name} ends`];
    return before ? [...changesOf(name, before, now), ...end] : [`${name} begins: ${namesOf(now)}`, ...end];
  }

  private request({ at, name: operation, input }: EffectRecord): string[] {
    const name = this.shown.nameOf(at.slice(0, at.lastIndexOf('/')));
    return name === null ? [] : [`${name} asks ${operation}${detailsOf(input)}`];
  }

  private line({ at, level, text, fields = {} }: LogRecord): string[] {
    if (text === 'Event occurred') {
      const { object, type, reason, message, fieldPath = '' } = fields as Record<string, string>;
      const of = fieldPath === '' ? object : `${object} ${fieldPath}`;
      return [`event ${type} ${reason} of ${of}: ${message}`];
    }
    if (text === 'Pod status') {
      const { pod, phase, ready, restarts } = fields as Record<string, string>;
      return [`status of ${pod}: ${phase}, ${ready ? 'ready' : 'not ready'}, ${restarts} restarts`];
    }
    const name = this.shown.nameOf(at);
    return name === null ? [] : [`${name} logs ${level}: ${text}${textOf(fields)}`];
  }
}

const textOf = (fields: object): string => {
  const entries = Object.entries(fields);
  return entries.length === 0
    ? ''
    : ` (${entries.map(([key, value]) => `${key} ${JSON.stringify(value)}`).join(', ')})`;
};

/** Fields that distinguish requests. */
const DETAILS: readonly string[] = ['image', 'timeoutSeconds', 'graceSeconds', 'endpoint', 'path'];

function detailsOf(input: unknown): string {
  const fields = (input ?? {}) as { readonly [key: string]: unknown; readonly config?: { readonly metadata?: object } };
  const details = Object.fromEntries(
    DETAILS.filter((key) => typeof fields[key] !== 'object').map((key) => [key, fields[key]]),
  );
  const { attempt } = (fields.config?.metadata ?? {}) as { readonly attempt?: number };
  const known = Object.entries({ ...details, attempt }).filter(([, value]) => value !== undefined);
  return textOf(Object.fromEntries(known));
}

const labelled = (label: string, region: string, separator: string) =>
  [label, region].filter((part) => part !== '').join(separator);

/** Regions of the kubelet's chart that have not begun are omitted. */
const namesOf = (regions: Regions): string =>
  [...regions]
    .filter(([, state]) => state !== 'absent')
    .map(([region, state]) => labelled(region, state, ' '))
    .join(', ');

const changesOf = (name: string, before: Regions, now: Regions): string[] =>
  [...now]
    .filter(([region, state]) => before.get(region) !== state)
    .map(([region, state]) => {
      const from = before.get(region);
      return `${labelled(name, region, ', ')}: ${from === undefined ? '' : `${from} → `}${state}`;
    });

function regionsOf(value: unknown, region = '', path: readonly string[] = []): Map<string, string> {
  if (typeof value === 'string') return new Map([[region, [...path, value].join('.')]]);
  const entries = Object.entries(value ?? {});
  const [only] = entries;
  if (entries.length === 0) return new Map([[region, path.join('.') || 'active']]);
  if (entries.length === 1 && only) return regionsOf(only[1], region, [...path, only[0]]);
  return new Map(entries.flatMap(([key, below]) => [...regionsOf(below, key)]));
}
