/**
 * Reads and decodes the kubelet's configuration files, and explains YAML that cannot be read.
 *
 * Errors of the YAML parser become the message and line that the Go kubelet's YAML reader would report. Go's scanner
 * counts lines from one and its parser from zero; it omits the line when that is zero.
 *
 * Decides: which files are read, and whether one is YAML or JSON. YAML keys are sorted, as by the Go reader, which goes
 * through a map; JSON keys keep their order; the last of two equal keys wins and is reported. Owns no state.
 * Invariant: an unreadable file is a result, not a failure of the operation.
 */

import { lstat, readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type Document, LineCounter, parseAllDocuments, visit, type YAMLParseError } from 'yaml';
import { isObject, type Json, toPlainError } from '../../../kernel/json.ts';
import type { ConfigurationSource, DropInListing } from '../../../machines/model/operations/host.ts';
import { decodeJson } from '../../../machines/model/values/json-document.ts';
import { reasonOf } from '../../go-errors.ts';
import { MAX_DEPTH, readDocument } from './go-yaml.ts';

interface Place {
  readonly text: string;
  /** The offset at which the parser found the error. */
  readonly at: number;
  readonly line: number;
}

type Explanation = readonly [words: string, line: number];
type ErrorExplainer = (place: Place) => Explanation;

const NO_COLON = "could not find expected ':'";
const NO_VALUES = 'mapping values are not allowed in this context';
const NO_TOKEN = 'found character that cannot start any token';
const NO_END = 'found unexpected end of stream';
const NO_KEY = 'did not find expected key';
const NO_SEPARATOR = "did not find expected ',' or '";
const NO_ENTRY = "did not find expected '-' indicator";
const NO_CONTENT = 'did not find expected node content';

const lineAt = (text: string, at: number): number => text.slice(0, at).split('\n').length;
const lineOfEnd = (text: string): number => text.split('\n').length;
const rest = ({ text, at }: Place): string => text.slice(at);
const columnAt = (text: string, at: number): number => at - (text.lastIndexOf('\n', at - 1) + 1);

const scanner =
  (words: string): ErrorExplainer =>
  ({ line }) => [words, line];
const parser =
  (words: string): ErrorExplainer =>
  ({ line }) => [words, line - 1];

/** A quote at the start of a line that never ends. */
const isOpenQuote = (place: Place): boolean => /^"(?:[^"\\]|\\[^])*$|^'(?:[^']|'')*$/.test(rest(place));

/** Whether a key must begin here: at the column of the keys of its block. */
function isKeyPlace({ text, at }: Place): boolean {
  const column = columnAt(text, at);
  if (column === 0) return /^[^\s#%.-]/m.test(text.slice(0, at));
  const before = text
    .slice(0, at - column)
    .split('\n')
    .toReversed();
  const outer = before.find((line) => /^ *[^ #]/.test(line) && line.search(/[^ ]/) <= column);
  return outer?.search(/[^ ]/) === column;
}

/** The error for a key without a colon. Go's scanner reads ahead before it reports this error. */
function missingColon(place: Place): Explanation {
  if (isOpenQuote(place)) return [NO_END, lineOfEnd(place.text)];
  if (rest(place).startsWith('- ')) return [NO_KEY, place.line - 1];
  const scalar = /^[^\n]*/.exec(rest(place))?.[0].length ?? 0;
  const next = place.text.slice(place.at + scalar).search(/\n[^\S\n]*[^\s#]/);
  if (next < 0) return [NO_COLON, lineOfEnd(place.text)];
  const nextAt = place.text.slice(place.at + scalar + next).search(/[^\s]/);
  return [NO_COLON, lineAt(place.text, place.at + scalar + next + nextAt)];
}

/** The error for a key on several lines, whose colon must be on the first line. */
function lateColon(place: Place): Explanation {
  if (isOpenQuote(place)) return [NO_END, lineOfEnd(place.text)];
  if (rest(place).startsWith('- ')) return [NO_KEY, place.line - 1];
  const colon = rest(place).search(/:(?:\s|$)/);
  const line = colon < 0 ? place.line : lineAt(place.text, place.at + colon);
  return [isKeyPlace(place) ? NO_COLON : NO_VALUES, line];
}

function nestedMapping(place: Place): Explanation {
  const quoted = /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/s.exec(rest(place))?.[0].length ?? 0;
  const colon = place.text.slice(place.at + quoted).search(/:(?:\s|$)/);
  return [NO_VALUES, colon < 0 ? place.line : lineAt(place.text, place.at + quoted + colon)];
}

/** The error inside brackets or braces, where the missing character depends on the character before. */
const flow =
  (end: string): ErrorExplainer =>
  ({ text, at, line }) => {
    const opening = text.slice(0, at).trimEnd().at(-1) ?? '';
    const isEnd = at >= text.length && !text.endsWith('\n');
    return ['[{,:'.includes(opening) ? NO_CONTENT : `${NO_SEPARATOR}${end}'`, isEnd ? line : line - 1];
  };

/** The error for an entry without a dash in a block that is a list. */
function missingEntry({ text, at, line }: Place): Explanation {
  const column = columnAt(text, at);
  const before = text
    .slice(0, at - column)
    .split('\n')
    .findLast((each) => each.trim() !== '' && each.search(/[^ ]/) <= column);
  const isList = before?.search(/[^ ]/) === column && /^-(?:\s|$)/.test(before.trimStart());
  return [isList ? NO_ENTRY : NO_KEY, line - 1];
}

/**
 * The error for a tab as indentation. After plain text, Go's reader expects a continuation of the text and reports its
 * indentation; elsewhere a tab begins no token.
 */
function tab({ text, at, line }: Place): Explanation {
  const before = text.slice(0, at).trimEnd();
  const isMappingLine = columnAt(text, at) === 0 && /: [^\n"'[{|>&*!#]*[^\n:\]}"'#]$/.test(before);
  return [isMappingLine ? 'found a tab character that violates indentation' : NO_TOKEN, line];
}

const badEscape: ErrorExplainer = (place) => [
  /^\\[xuU]/.test(rest(place)) ? 'did not find expected hexdecimal number' : 'found unknown escape character',
  place.line,
];

const EXPLAINERS: readonly (readonly [finding: RegExp, judge: ErrorExplainer])[] = [
  [/^Tabs /, tab],
  [/^Flow sequence/, flow(']')],
  [/^Flow map/, flow('}')],
  [/^Nested mappings/, nestedMapping],
  [/^Implicit map keys/, missingColon],
  [/^Implicit keys/, lateColon],
  [/^Missing closing/, ({ text }) => [NO_END, lineOfEnd(text)]],
  [/^Invalid escape/, badEscape],
  [/^(?:Alias|Anchor) cannot be an empty string/, scanner('did not find expected alphabetic or numeric character')],
  [/^Plain value cannot start/, scanner(NO_TOKEN)],
  [/^Block scalar header/, scanner('did not find expected comment or line break')],
  [/^Unexpected block-seq-ind/, scanner('block sequence entries are not allowed in this context')],
  [/^Unexpected (?:flow-(?:seq|map)-end|, in flow)/, parser(NO_CONTENT)],
  [/^Unexpected scalar|indent|same column|A block sequence may not/, missingEntry],
  [/^Unexpected \S+ at node end/, parser(NO_KEY)],
];

const withLine = (words: string, line: number): string => `${line > 0 ? `line ${line}: ` : ''}${words}`;
/** The scanner omits the line of an error in the first line. */
const scanned = (words: string, line: number): string => withLine(words, line > 1 ? line : 0);

/** The end marker of a document before any content, after blank lines and comments. */
const UNMATCHED_END = /^((?:[ \t]*(?:#[^\n]*)?\n)*)\.\.\.(?:\s|$)/;
const ESCAPE = /\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[^])/g;

const isNoCharacter = (code: number): boolean => (code >= 0xd8_00 && code <= 0xdf_ff) || code > 0x10_ff_ff;

/** The Go reader's error for a document that this parser would accept, or null. */
function earlyRefusal(text: string, document: Document): string | null {
  const before = UNMATCHED_END.exec(text)?.[1];
  if (before !== undefined) return withLine(NO_CONTENT, lineAt(before, before.length) - 1);
  let at: number | undefined;
  visit(document, {
    Scalar: (_, { type, range }) => {
      if (type !== 'QUOTE_DOUBLE' || !range || at !== undefined) return;
      const escapes = text.slice(range[0], range[1]).matchAll(ESCAPE);
      const wrong = [...escapes].find(([, four, eight]) => isNoCharacter(Number.parseInt(four ?? eight ?? '0', 16)));
      if (wrong !== undefined) at = range[0] + wrong.index;
    },
  });
  return at === undefined ? null : scanned('found invalid Unicode character escape code', lineAt(text, at));
}

/** The Go reader's error, without `yaml: `. */
function explain({ message, linePos, pos }: YAMLParseError, text: string): string {
  const place = { text, at: pos[0], line: linePos?.[0].line ?? 1 };
  const judge = EXPLAINERS.find(([finding]) => finding.test(message))?.[1] ?? parser(withoutPlace(message));
  const [words, line] = judge(place);
  const isOfParser = [NO_KEY, NO_ENTRY, NO_CONTENT].includes(words) || words.startsWith(NO_SEPARATOR);
  return isOfParser ? withLine(words, line) : scanned(words, line);
}

function withoutPlace(message: string): string {
  return (message.split('\n')[0] ?? message).replace(/ at line [0-9]+, column [0-9]+:?$/, '');
}

/** Largest configuration file, in bytes. A file with every field set has about 8 KiB. */
const MAX_CONFIGURATION_BYTES = 1_048_576;
/** Drop-ins of one directory; each may hold every field, so more cannot be needed. */
const MAX_DROP_INS = 1_000;
/** The error for a text that overflows the stack of this parser: its nesting exceeds the limit. */
const TOO_DEEP = `yaml: exceeded max depth of ${MAX_DEPTH}`;
/** The first directive before the document. */
const DIRECTIVE = /^(?:[ \t]*(?:#[^\n]*)?\n)*%([a-zA-Z]+)[ \t]*(\S*)/;
/** Characters that also end a line for the Go reader. */
const UNICODE_BREAK = /[\u0085\u2028\u2029]/g;
const PROTOBUF_PREFIX = 'k8s\0';

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

/** Compares paths component by component, in the order of a directory walk. */
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

/** Whether the document states its kind; upstream quotes the whole text of a document without one. */
function isNamed(value: Json): boolean {
  if (!isObject(value) || typeof value['apiVersion'] !== 'string') return false;
  return /[^/]$/.test(value['apiVersion']) && Boolean(value['kind']);
}

function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

type Yaml = { value: Json; duplicates: string[]; error?: undefined } | { error: string };

/** Replaces odd line breaks, except in lines that may be quoted text, a block or a comment. */
function withPlainBreaks(text: string): string {
  if (text.search(UNICODE_BREAK) === -1) return text;
  const plain = (line: string) => (/["'#|>]/.test(line) ? line : line.replaceAll(UNICODE_BREAK, '\n'));
  return text.split('\n').map(plain).join('\n');
}

/** Decodes the first document; the Go reader ignores later ones. */
export function decodeYaml(source: string): Yaml {
  const text = withPlainBreaks(source.replaceAll(/\r(?!\n)/g, '\n'));
  if (/[^\P{Cc}\t\n\r\u0085]|[\ufffe\uffff]/u.test(text)) return { error: 'yaml: control characters are not allowed' };
  try {
    return parseFirst(text);
  } catch (error) {
    const { name, message } = toPlainError(error);
    return { error: name === 'RangeError' ? TOO_DEEP : message };
  }
}

function parseFirst(text: string): Yaml {
  const lineCounter = new LineCounter();
  const options = { version: '1.1', schema: 'failsafe', uniqueKeys: false, logLevel: 'silent', lineCounter } as const;
  const parsed = parseAllDocuments(text, options);
  const document = 'empty' in parsed ? undefined : parsed[0];
  if (document === undefined) return { value: null, duplicates: [] };
  const directive = DIRECTIVE.exec(text);
  if (directive !== null) {
    if (!['YAML', 'TAG'].includes(directive[1] ?? '')) return { error: 'yaml: found unknown directive name' };
    if (directive[1] === 'YAML' && directive[2] !== '1.1') return { error: 'yaml: found incompatible YAML document' };
  }
  const early = earlyRefusal(text, document);
  if (early !== null) return { error: `yaml: ${early}` };
  const [problem] = document.errors;
  if (problem?.message.startsWith('Maximum call stack') === true) return { error: TOO_DEEP };
  if (problem !== undefined) return { error: `yaml: ${explain(problem, text)}` };
  const { value, duplicates } = readDocument(document, lineCounter);
  return { value, duplicates: duplicates.length === 0 ? [] : [['yaml: unmarshal errors:', ...duplicates].join('\n')] };
}
