/**
 * The daemon's log output: the journal's `log` records, printed by pino after their turn is committed.
 *
 * The kubelet's two formats: klog's text (`I1121 03:04:04.341809   14920 kubelet] "Started kubelet" key="value"`) and
 * one JSON object a line (`ts`, `caller`, `msg`, and `v` unless it is an error; `level` and `pid` are Statelet's).
 * Lines go to stderr, or are split by `splitStream`, those of a turn in one write. Nothing is buffered.
 */
import { type DestinationStream, pino } from 'pino';
import type { Port } from '../../kernel/operation.ts';
import type { KernelRecord, LogLevel } from '../../kernel/records.ts';
import type { hostOperations, LogForm } from '../../machines/model/operations/host.ts';

interface LoggerOptions extends LogForm {
  /** The outputs. */
  readonly streams?: Streams;
}

interface Streams {
  readonly out: (lines: string) => void;
  readonly err: (lines: string) => void;
}

const PROCESS_STREAMS: Streams = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
};

const LETTERS: Readonly<Record<string, string>> = { debug: 'I', info: 'I', warn: 'W', error: 'E', fatal: 'F' };

/** Go's runtime prints this prefix before it crashes, bypassing klog. */
const PANIC = 'panic: ';

const twoDigits = (value: number): string => String(value).padStart(2, '0');

/** klog's header: severity, month and day, local time with microseconds, process, and here the actor. */
function klogHeader(level: string, timeMs: number, pid: number, source: string): string {
  const at = new Date(timeMs);
  const day = `${twoDigits(at.getMonth() + 1)}${twoDigits(at.getDate())}`;
  const time = `${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}:${twoDigits(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, '0')}000`;
  return `${LETTERS[level] ?? 'I'}${day} ${time} ${String(pid).padStart(7)} ${source}]`;
}

/**
 * klog's text of a structured line: strings in quotes, other values as JSON; a value with line breaks in its own block.
 * A field `klog` holds a line already formatted by upstream's rules.
 */
function klogText(text: string, fields: Readonly<Record<string, unknown>>): string {
  if (typeof fields['klog'] === 'string') return fields['klog'];
  const pairs = Object.entries(fields).filter(([, value]) => value !== undefined);
  return escaped(JSON.stringify(text) + pairs.map(([key, value]) => ` ${key}=${klogValue(value)}`).join(''));
}

/**
 * Matches control characters: text from outside, such as the output of a probe, must not control the terminal that
 * shows the log.
 */
const CONTROLS = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const escaped = (text: string): string =>
  text.replaceAll(CONTROLS, (character) => `\\u${character.codePointAt(0)!.toString(16).padStart(4, '0')}`);

function klogValue(value: unknown): string {
  if (typeof value === 'object') return JSON.stringify(JSON.stringify(value));
  if (typeof value !== 'string' || !value.includes('\n')) return JSON.stringify(value);
  return `<\n\t${value.replaceAll('\n', '\n\t')}\n >`;
}

interface Line {
  readonly level: string;
  readonly ts: number;
  readonly pid: number;
  readonly caller: string;
  readonly msg: string;
  readonly v?: number;
}

function klogStream(write: (line: string) => void): DestinationStream {
  return {
    write(json: string) {
      const { level, ts, pid, caller, msg, v: _v, ...fields }: Line & Record<string, unknown> = JSON.parse(json);
      const text = klogText(msg, fields);
      write(text.startsWith(PANIC) ? `${text}\n` : `${klogHeader(level, ts, pid, caller)} ${text}\n`);
    },
  };
}

/** Debug lines are printed from this verbosity on. */
const DEBUG_VERBOSITY = 4;

const levelOf = (verbosity: number): LogLevel => (verbosity >= DEBUG_VERBOSITY ? 'debug' : 'info');

export interface RecordPrinter {
  /** The observer for (a part of) the kernel's `onTurn`. */
  (records: readonly KernelRecord[]): void;
  /** Changes the format of lines. */
  set(form: LogForm): void;
  setVerbosity(verbosity: number): void;
}

/** Port of `host.setLogVerbosity`. */
export const logPorts = (
  printer: RecordPrinter,
): { 'host.setLogVerbosity': Port<(typeof hostOperations)['host.setLogVerbosity']> } => ({
  'host.setLogVerbosity': async ({ input }) => {
    printer.set(input);
    return null;
  },
});

export function logRecords({ streams = PROCESS_STREAMS, ...first }: LoggerOptions): RecordPrinter {
  let form: LogForm = first;
  const pending = { out: '', err: '' };
  let loggers = loggersOf(form, pending);
  let time = 0;
  const set = (change: LogForm): void => {
    form = change;
    loggers = loggersOf(form, pending);
  };
  const print = (records: readonly KernelRecord[]): void => {
    for (const record of records) {
      if ('t' in record) time = record.t;
      // The journal has the form before its effect is performed: lines that follow it are printed in it.
      if (record.k === 'effect' && record.name === SET_FORM) set(record.input as LogForm);
      if (record.k !== 'log') continue;
      const isError = ERRORS.includes(record.level);
      const v = isError ? {} : { v: record.level === 'debug' ? DEBUG_VERBOSITY : 0 };
      const known = { ts: time, caller: shortName(record.at), ...v };
      const { klog, ...fields }: Readonly<Record<string, unknown>> = record.fields ?? {};
      const text = klog === undefined || form.format === 'json' ? {} : { klog };
      loggers[isError ? 'errors' : 'others'][record.level]({ ...known, ...fields, ...text }, record.text);
    }
    for (const stream of ['out', 'err'] as const) {
      if (pending[stream] !== '') streams[stream](pending[stream]);
      pending[stream] = '';
    }
  };
  return Object.assign(print, { set, setVerbosity: (verbosity: number) => set({ ...form, verbosity }) });
}

const SET_FORM = 'host.setLogVerbosity';

const ERRORS: readonly string[] = ['error', 'fatal'];

/** Loggers that append their lines to `pending`. */
function loggersOf({ verbosity, format, splitStream }: LogForm, pending: Record<keyof Streams, string>) {
  const [out, err] = [(line: string) => void (pending.out += line), (line: string) => void (pending.err += line)];
  const open = (write: (line: string) => void) =>
    pino(
      {
        level: levelOf(verbosity),
        base: { pid: process.pid },
        formatters: { level: (label) => ({ level: label }) },
        timestamp: false,
      },
      format === 'json' ? { write } : klogStream(write),
    );
  const errors = open(err);
  return { errors, others: splitStream ? open(out) : errors };
}

/** The last two parts of an address are sufficient: `pods/pod-1f3a`, `kubelet`. */
const shortName = (address: string): string => address.split('/').slice(-2).join('/');

/** Prints a line outside the journal: of the embedded runtime, which is not part of the node agent. */
export function printLine(
  level: LogLevel,
  actor: string,
  text: string,
  fields: Readonly<Record<string, unknown>> = {},
) {
  process.stderr.write(`${klogHeader(level, Date.now(), process.pid, actor)} ${klogText(text, fields)}\n`);
}
