/**
 * Port: reads and decodes the kubelet's configuration files.
 *
 * Decides: how YAML and JSON text becomes JSON, in the words of the Go kubelet's YAML reader where it refuses. YAML
 * keys are sorted, as its detour over a Go map sorts them; JSON keys keep their order; the last of two equal keys wins
 * and is reported. Owns no state. Invariant: a file that cannot be read or decoded is an answer, not a failure.
 */
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  LineCounter,
  type Pair,
  parseAllDocuments,
  visit,
  type YAMLParseError,
} from 'yaml';
import { type Json, toPlainError } from '../../../kernel/json.ts';
import { isObject } from '../../../machines/startup/configuration/decode.ts';
import { quote } from '../../../machines/startup/configuration/go-text.ts';
import type { ConfigurationSource, DropInListing } from '../../../machines/startup/configuration/source.ts';
import { decodeJson } from './json-document.ts';
import { goTags } from './yaml-tags.ts';

/** Largest configuration file, in bytes. A file with every field set has about 8 KiB. */
const MAX_CONFIGURATION_BYTES = 1_048_576;
/** Expansions by aliases; beyond it the document is an alias bomb. */
const MAX_ALIASES = 100;
/** Levels of nesting; a configuration needs six. An alias that contains itself has no end, so it is refused, too. */
const MAX_DEPTH = 100;
const TOO_DEEP = `the document is nested deeper than ${MAX_DEPTH} levels`;
/** Drop-ins of one directory; each may hold every field, so more cannot be needed. */
const MAX_DROP_INS = 1_000;
const PROTOBUF_PREFIX = 'k8s\0';

interface Finding {
  readonly pattern: RegExp;
  readonly words: string;
  /** Found by the scanner, which counts lines from one. */
  readonly scanner?: true;
  /** Inside brackets or braces: what is missing depends on what is before it. */
  readonly flow?: true;
}

const FINDINGS: readonly Finding[] = [
  { pattern: /^Tabs /, words: 'found character that cannot start any token', scanner: true },
  { pattern: /^Flow sequence/, words: "did not find expected ',' or ']'", flow: true },
  { pattern: /^Flow map/, words: "did not find expected ',' or '}'", flow: true },
  { pattern: /^Nested mappings/, words: 'mapping values are not allowed in this context', scanner: true },
  { pattern: /^Implicit keys/, words: "could not find expected ':'", scanner: true },
  { pattern: /^Missing closing/, words: 'found unexpected end of stream', scanner: true },
  { pattern: /^Unexpected scalar|indent/, words: 'did not find expected key' },
];

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EISDIR: 'is a directory',
  ELOOP: 'too many levels of symbolic links',
  ENAMETOOLONG: 'file name too long',
  ENOENT: 'no such file or directory',
  ENOTDIR: 'not a directory',
};

/** Reads one file; a relative path starts at the working directory. */
export async function readConfiguration(path: string): Promise<ConfigurationSource> {
  return readSource(resolve(path));
}

/** Reads the `*.conf` files below a directory, at any depth, in the byte order of their paths. */
export async function readDropIns(path: string): Promise<DropInListing> {
  try {
    const found = await lstat(path);
    const files = found.isDirectory() ? await dropInFiles(path) : [path].filter((file) => file.endsWith('.conf'));
    const sources: ConfigurationSource[] = [];
    for (const file of files) sources.push(await readSource(file));
    return { kind: 'files', files: sources };
  } catch (error) {
    return { kind: 'unreadable', message: `lstat ${path}: ${reasonOf(error)}` };
  }
}

async function dropInFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => !entry.isDirectory() && entry.name.endsWith('.conf'));
  if (files.length > MAX_DROP_INS) throw new Error(`more than ${MAX_DROP_INS} files that end in .conf`);
  return files.map((entry) => join(entry.parentPath, entry.name)).toSorted(byParts);
}

/** A directory is walked where its name stands, so paths compare part by part. */
function byParts(leftPath: string, rightPath: string): number {
  const [left, right] = [leftPath.split('/'), rightPath.split('/')];
  const at = left.findIndex((part, index) => part !== right[index]);
  if (at < 0) return left.length - right.length;
  const [one = '', other = ''] = [left[at], right[at]];
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

async function readSource(path: string): Promise<ConfigurationSource> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    const verb = toPlainError(error).code === 'EISDIR' ? 'read' : 'open';
    return { kind: 'unreadable', path, message: `${verb} ${path}: ${reasonOf(error)}` };
  }
  if (bytes.length > MAX_CONFIGURATION_BYTES) {
    return { kind: 'unreadable', path, message: `read ${path}: more than ${MAX_CONFIGURATION_BYTES} bytes` };
  }
  return decodeSource(path, bytes);
}

function reasonOf(error: unknown): string {
  const { code = '', message } = toPlainError(error);
  return REASONS[code] ?? message;
}

/** Decodes the content of a file. */
export function decodeSource(path: string, bytes: Uint8Array): ConfigurationSource {
  if (bytes.length === 0) return { kind: 'empty', path };
  const text = decodeUtf8(bytes);
  if (text === null) return { kind: 'malformed', path, message: 'yaml: invalid leading UTF-8 octet' };
  if (text.startsWith(PROTOBUF_PREFIX)) return { kind: 'malformed', path, message: 'unexpected EOF' };
  const isJson = text.trimStart().startsWith('{');
  const decoded = isJson ? decodeJson(text) : decodeYaml(text);
  if (decoded.error === undefined) {
    const { value, duplicates } = decoded;
    return { kind: 'document', path, value, duplicates, text: isNamed(value) ? null : text };
  }
  const prefix = isJson ? "couldn't get version/kind; json parse error: " : '';
  return { kind: 'malformed', path, message: `${prefix}${decoded.error}` };
}

/** Whether the document says what it is; upstream quotes the whole text of one that does not. */
function isNamed(value: Json): boolean {
  return isObject(value) && Boolean(value['apiVersion']) && Boolean(value['kind']);
}

function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

type Yaml = { value: Json; duplicates: string[]; error?: undefined } | { error: string };

/** Reads the first document; the Go reader never looks at a second one. */
export function decodeYaml(text: string): Yaml {
  if (/[^\P{Cc}\t\n\r\u0085]/u.test(text)) return { error: 'yaml: control characters are not allowed' };
  try {
    return parseFirst(text);
  } catch (error) {
    const { name, message } = toPlainError(error);
    return { error: `yaml: ${name === 'RangeError' ? TOO_DEEP : message}` };
  }
}

function parseFirst(text: string): Yaml {
  const lineCounter = new LineCounter();
  const parsed = parseAllDocuments(text, {
    version: '1.1',
    merge: true,
    uniqueKeys: false,
    logLevel: 'silent',
    lineCounter,
    customTags: goTags,
  });
  const document = 'empty' in parsed ? undefined : parsed[0];
  if (document === undefined) return { value: null, duplicates: [] };
  const [problem] = document.errors;
  return problem === undefined ? toJson(document, lineCounter) : { error: `yaml: ${explain(problem, text)}` };
}

function toJson(document: Document, lineCounter: LineCounter): Yaml {
  const unknown = unknownAnchor(document);
  if (unknown !== null) return { error: `yaml: unknown anchor '${unknown}' referenced` };
  const duplicates = duplicateKeys(document, lineCounter);
  const value: Json = document.toJS({ maxAliasCount: MAX_ALIASES });
  return { value: sorted(value, 0), duplicates: duplicates === null ? [] : [duplicates] };
}

function unknownAnchor(document: Document): string | null {
  let unknown: string | null = null;
  visit(document, {
    Alias(_key, node) {
      if (node.resolve(document) === undefined) unknown ??= node.source;
    },
  });
  return unknown;
}

/** What strict decoding says of keys that are set twice in one map. */
function duplicateKeys(document: Document, lineCounter: LineCounter): string | null {
  const found: { line: number; key: string }[] = [];
  visit(document, {
    Map(_key, { items }) {
      const seen = new Set<string>();
      for (const pair of items) {
        const key = keyOf(pair);
        if (key === null || key === '<<') continue;
        if (seen.has(key)) found.push({ line: lineOf(pair, lineCounter), key });
        seen.add(key);
      }
    },
  });
  if (found.length === 0) return null;
  const lines = found.toSorted((left, right) => left.line - right.line);
  const texts = lines.map(({ line, key }) => `  line ${line}: key ${quote(key)} already set in map`);
  return ['yaml: unmarshal errors:', ...texts].join('\n');
}

function keyOf({ key }: Pair): string | null {
  return isScalar(key) ? String(key.value) : null;
}

function lineOf({ key }: Pair, lineCounter: LineCounter): number {
  const start = isScalar(key) || isMap(key) || isAlias(key) ? key.range?.[0] : undefined;
  return lineCounter.linePos(start ?? 0).line;
}

/** Keys in byte order; what JSON cannot hold (an infinity) becomes text, which no numeric field takes. */
function sorted(value: Json | undefined, depth: number): Json {
  if (depth > MAX_DEPTH) throw new RangeError(TOO_DEEP);
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  if (typeof value !== 'object' || value === null) return value ?? null;
  if (Array.isArray(value)) return value.map((item) => sorted(item, depth + 1));
  const entries = Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sorted(item, depth + 1)]));
}

/** The Go reader's words for the parser's finding. It counts lines from zero, but for those of its scanner. */
function explain({ message, linePos, pos }: YAMLParseError, text: string): string {
  if (message.startsWith('Maximum call stack')) return TOO_DEEP;
  const line = linePos?.[0].line ?? 1;
  const opening = text.slice(0, pos[0]).trimEnd().at(-1) ?? '';
  const known = FINDINGS.find(({ pattern }) => pattern.test(message));
  const words = known?.words ?? withoutPlace(message);
  const isEmptyFlow = known?.flow === true && '[{,:'.includes(opening);
  const shown = known?.scanner === true ? line : line - 1;
  return `${shown > 0 ? `line ${shown}: ` : ''}${isEmptyFlow ? 'did not find expected node content' : words}`;
}

function withoutPlace(message: string): string {
  return (message.split('\n')[0] ?? message).replace(/ at line [0-9]+, column [0-9]+:?$/, '');
}
