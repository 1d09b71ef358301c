/**
 * Parses the values of flags: one reader for each type of flag.
 *
 * Errors are those that follow `invalid argument "x" for "--flag" flag:`. A reader gets the value of earlier
 * occurrences of its flag, because lists and maps are extended while scalars are replaced.
 * Invariant: total.
 */
import type { Json } from '../../../kernel/json.ts';
import { isObject } from '../../../kernel/xstate.ts';
import {
  type Parsed,
  parseBool,
  parseDecimal,
  parseInteger,
  parseUnsigned31,
  quote,
} from '../../model/values/go-text.ts';
import { isIpAddress } from '../../model/values/ip.ts';
import { parseTaints } from '../../model/values/labels.ts';
import { quantityText } from '../../model/values/quantity.ts';
import { formatDuration, parseDuration } from '../../model/values/time.ts';

export type FlagReader = (text: string, earlier: Json | undefined) => Parsed<Json>;

function integer(bits: 32 | 64): FlagReader {
  return (text) => {
    const parsed = parseInteger(text, bits);
    return parsed.error === undefined ? { value: Number(parsed.value) } : parsed;
  };
}

function readDuration(text: string): Parsed<Json> {
  const parsed = parseDuration(text);
  return parsed.error === undefined ? { value: formatDuration(parsed.value) } : parsed;
}

/** A flag of Go's standard `flag` package, whose errors give no reason. */
function standard(reader: FlagReader): FlagReader {
  return (text, earlier) => {
    const parsed = reader(text, earlier);
    if (parsed.error === undefined) return parsed;
    return { error: parsed.error.endsWith(': value out of range') ? 'value out of range' : 'parse error' };
  };
}

function readIp(text: string): Parsed<Json> {
  return isIpAddress(text) ? { value: text } : { error: `${quote(text)} is not a valid IP address` };
}

/** Comma-separated pairs; `missing` is the error for an item without separator, null if it is optional. */
function pairs(separator: string, missing: string | null, convert: FlagReader): FlagReader {
  return (text, earlier) => {
    const map = new Map(Object.entries(isObject(earlier) ? earlier : {}));
    for (const item of text.split(',')) {
      if (item === '') continue;
      const at = item.indexOf(separator);
      if (at < 0 && missing !== null) return { error: missing };
      const key = (at < 0 ? item : item.slice(0, at)).trim();
      const converted = convert(at < 0 ? '' : item.slice(at + 1).trim(), map.get(key));
      if (converted.error !== undefined) return { error: converted.error.replace('%s', () => key) };
      map.set(key, converted.value);
    }
    return { value: Object.fromEntries(map) };
  };
}

function readPair(text: string, earlier: Json | undefined): Parsed<Json> {
  const at = text.indexOf('=');
  if (at < 0) return { error: 'malformed pair, expect string=string' };
  const before = isObject(earlier) ? earlier : {};
  return { value: { ...before, [text.slice(0, at).trim()]: text.slice(at + 1).trim() } };
}

function readGateValue(text: string): Parsed<Json> {
  const parsed = parseBool(text);
  return parsed.error === undefined ? parsed : { error: `invalid value of %s: ${text}, err: ${parsed.error}` };
}

function appendTo(text: string, earlier: Json | undefined): Parsed<Json> {
  return { value: [...(Array.isArray(earlier) ? earlier : []), text] };
}

/** The first record of comma-separated values; a quoted value may contain commas and line breaks. */
function readStrings(text: string, earlier: Json | undefined): Parsed<Json> {
  const before = Array.isArray(earlier) ? earlier : [];
  if (text === '') return { value: [...before] };
  const record = readCsvRecord(text);
  return record.error === undefined ? { value: [...before, ...record.value] } : record;
}

function readTaints(text: string): Parsed<Json> {
  const parsed = parseTaints(text);
  return parsed.error === undefined ? { value: parsed.value.map((taint) => ({ ...taint })) } : parsed;
}

const readQuantity = (text: string): Parsed<Json> => quantityText(text);

function readReservedMemory(text: string, earlier: Json | undefined): Parsed<Json> {
  const reservations: Json[] = [...(Array.isArray(earlier) ? earlier : [])];
  for (const spec of text === '' ? [] : text.split(';')) {
    const parsed = readReservation(spec);
    if (parsed.error !== undefined) return parsed;
    reservations.push(parsed.value);
  }
  return { value: reservations };
}

function readReservation(spec: string): Parsed<Json> {
  const [node = '', limits, ...more] = spec.split(':');
  if (limits === undefined || more.length > 0) {
    const form = 'numaNodeID:type=quantity[,type=quantity...]';
    return { error: `the reserved memory has incorrect format, expected ${form}, got ${spec}` };
  }
  const numaNode = parseDecimal(node);
  if (numaNode.error !== undefined) {
    return { error: `failed to convert the NUMA node ID, expected integer, got ${node}` };
  }
  const entries: [string, string][] = [];
  for (const limit of limits.split(',')) {
    const [resource = '', amount, ...rest] = limit.split('=');
    if (amount === undefined || rest.length > 0) {
      return { error: `the reserved limit has incorrect value, expected type=quantity, got ${limit}` };
    }
    if (!isMemoryResource(resource)) return { error: `memory type conversion error, unknown type: ${quote(resource)}` };
    const parsed = quantityText(amount);
    if (parsed.error !== undefined) return { error: `failed to parse the quantity: ${amount}` };
    entries.push([resource, parsed.value]);
  }
  return { value: { numaNode: numaNode.value, limits: Object.fromEntries(entries) } };
}

export function isMemoryResource(resource: string): boolean {
  return resource === 'memory' || resource.startsWith('hugepages-');
}

/** Adds to the values of earlier flags. */
function readVModule(text: string, earlier: Json | undefined): Parsed<Json> {
  const items: Json[] = [...(Array.isArray(earlier) ? earlier : [])];
  for (const item of text.split(',')) {
    if (item === '') continue;
    const [filePattern = '', level, ...more] = item.split('=');
    if (filePattern === '' || level === undefined || level === '' || more.length > 0) {
      return { error: `${quote(item)} does not have the pattern=N format` };
    }
    const verbosity = parseUnsigned31(level);
    if (verbosity.error !== undefined) return { error: `parsing verbosity in ${quote(item)}: ${verbosity.error}` };
    items.push({ filePattern, verbosity: verbosity.value });
  }
  return { value: items };
}

const readString: FlagReader = (text) => ({ value: text });

export const FLAG_READERS = {
  bool: (text: string) => parseBool(text),
  int32: integer(32),
  int: integer(64),
  duration: readDuration,
  string: readString,
  strings: readStrings,
  ip: readIp,
  labels: pairs('=', null, readString),
  stringPairs: pairs('=', 'malformed pair, expect string=string', readString),
  /** One pair per occurrence: a comma belongs to the value. */
  onePair: (text: string, earlier: Json | undefined) => readPair(text, earlier),
  thresholds: pairs('<', 'malformed pair, expect string<string', readString),
  gates: pairs('=', 'malformed pair, expect string=bool', readGateValue),
  headers: pairs(':', 'malformed pair, expect string:string', appendTo),
  taints: readTaints,
  quantity: readQuantity,
  reservedMemory: readReservedMemory,
  level: (text: string) => parseUnsigned31(text),
  vmodule: readVModule,
  standardBool: standard((text) => parseBool(text)),
  standardInt: standard(integer(64)),
  standardDuration: standard(readDuration),
} satisfies Record<string, FlagReader>;

export type FlagKind = keyof typeof FLAG_READERS;

/**
 * Parses the first record of comma-separated values, with the errors of Go's `encoding/csv` and their position in
 * bytes.
 */
const BARE = 'bare " in non-quoted-field';
const STRAY = 'extraneous or missing " in quoted-field';

interface Reader {
  /** Lines including their ends, which are all `\n`. */
  readonly lines: readonly string[];
  /** Index of the line being read, and of the next character in it. */
  line: number;
  column: number;
}

/** Skips empty lines before the record; ignores everything after it. */
export function readCsvRecord(text: string): Parsed<readonly string[]> {
  const lines = text
    .replaceAll('\r\n', '\n')
    .replace(/\r$/, '')
    .split(/(?<=\n)/);
  const first = lines.findIndex((each) => each !== '\n' && each !== '');
  if (first < 0) return { error: 'EOF' };
  const reader: Reader = { lines, line: first, column: 0 };
  const fields: string[] = [];
  for (;;) {
    const isQuoted = rest(reader).startsWith('"');
    const field = isQuoted ? readQuoted(reader, first) : readBare(reader);
    if (field.error !== undefined) return field;
    fields.push(field.value);
    if (!rest(reader).startsWith(',')) return { value: fields };
    reader.column += 1;
  }
}

const rest = ({ lines, line, column }: Reader): string => (lines[line] ?? '').slice(column);

function refusal(reader: Reader, first: number, column: number, why: string): { readonly error: string } {
  const bytes = new TextEncoder().encode((reader.lines[reader.line] ?? '').slice(0, column)).length;
  const began = reader.line === first ? '' : `record on line ${first + 1}; `;
  return { error: `${began}parse error on line ${reader.line + 1}, column ${bytes + 1}: ${why}` };
}

function readBare(reader: Reader): Parsed<string> {
  const value = /^[^,\n]*/.exec(rest(reader))?.[0] ?? '';
  const quote = value.indexOf('"');
  if (quote >= 0) return refusal(reader, reader.line, reader.column + quote, BARE);
  reader.column += value.length;
  return { value };
}

function readQuoted(reader: Reader, first: number): Parsed<string> {
  reader.column += 1;
  let value = '';
  for (;;) {
    const part = /^[^"]*/.exec(rest(reader))?.[0] ?? '';
    value += part;
    reader.column += part.length;
    const [quote, next] = rest(reader);
    if (quote === undefined) {
      if (reader.line === reader.lines.length - 1) return refusal(reader, first, reader.column, STRAY);
      reader.line += 1;
      reader.column = 0;
    } else if (next === '"') {
      value += '"';
      reader.column += 2;
    } else if (next === undefined || next === ',' || next === '\n') {
      reader.column += 1;
      return { value };
    } else {
      return refusal(reader, first, reader.column, STRAY);
    }
  }
}

/** One flag: its name, type, target, deprecation, and its sentence of help. */
export interface FlagSpec {
  readonly name: string;
  readonly kind: FlagKind;
  readonly usage: string;
  readonly shorthand?: string;
  /** Upstream's sentence after `Flag --name has been deprecated, `. */
  readonly deprecated?: string;
  /** Dotted path in KubeletConfiguration. */
  readonly field?: string;
  readonly property?: string;
  /** Default of a flag without a field in the configuration. */
  readonly default?: Json;
}

/** `cgroup-root` as a name in Go or TypeScript: `cgroupRoot`. */
export const camelCase = (flag: string): string =>
  flag.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());
