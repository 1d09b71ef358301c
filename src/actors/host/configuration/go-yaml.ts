/**
 * Interprets a parsed YAML document like the Go kubelet's YAML 1.1 reader.
 *
 * Decides the values of plain scalars (`yes` is true, `0644` is octal, a date is text), keys, merges, anchors and
 * duplicate keys. Invariant: the last of two equal keys wins, and each duplicate is reported with its line; an alias
 * bomb is rejected before it expands.
 */

import { type Document, isAlias, isMap, isScalar, isSeq, type LineCounter, type Node, type YAMLMap } from 'yaml';
import type { Json } from '../../../kernel/json.ts';
import { parseInteger, printFloat, quote } from '../../../machines/model/values/go-text.ts';
import { numberOf, textOfNumber } from '../../../machines/model/values/json-document.ts';

/** Levels of nesting; a configuration needs six, and upstream stops at ten times as many. */
export const MAX_DEPTH = 1_000;
/** A document with fewer nodes, or fewer from aliases, is no alias bomb. */
const FREE_NODES = 1_000;
const FREE_ALIASES = 100;
/**
 * The share of nodes that may come from aliases: `of` up to the document size `from`, falling to `least` at the size
 * `to`.
 */
const ALIAS_SHARE = { of: 0.99, from: 400_000, to: 4_000_000, least: 0.1 } as const;

interface Reading {
  readonly document: Document;
  readonly lines: LineCounter;
  readonly duplicates: string[];
  /** Anchored nodes that are being read. */
  readonly open: Set<Node>;
  nodes: number;
  fromAliases: number;
  aliasDepth: number;
  depth: number;
}

/** The entries of a map being read, by the Go syntax of their keys, which distinguishes `1` from `"1"`. */
type Entries = Map<string, readonly [key: string, value: Json]>;

export function readDocument(document: Document, lines: LineCounter): { value: Json; duplicates: readonly string[] } {
  const counts = { nodes: 0, fromAliases: 0, aliasDepth: 0, depth: 0 };
  const reading: Reading = { document, lines, duplicates: [], open: new Set(), ...counts };
  const value = readNode(document.contents, reading);
  return { value, duplicates: reading.duplicates };
}

function readNode(node: unknown, reading: Reading): Json {
  countNode(reading);
  if (isScalar(node)) return finite(scalarOf(node));
  if (isAlias(node)) return readAlias(node, reading, (target) => readNode(target, reading));
  if (!isMap(node) && !isSeq(node)) return null;
  if (reading.depth >= MAX_DEPTH) throw new YamlRefusal(`yaml: exceeded max depth of ${MAX_DEPTH}`);
  reading.depth += 1;
  const value = isSeq(node) ? node.items.map((item) => readNode(item, reading)) : readMap(node, reading);
  reading.depth -= 1;
  return value;
}

function countNode(reading: Reading): void {
  reading.nodes += 1;
  if (reading.aliasDepth > 0) reading.fromAliases += 1;
  const { nodes, fromAliases } = reading;
  if (fromAliases <= FREE_ALIASES || nodes <= FREE_NODES) return;
  const { of, from, to, least } = ALIAS_SHARE;
  const beyond = Math.min(1, Math.max(0, (nodes - from) / (to - from)));
  if (fromAliases / nodes > of - (of - least) * beyond) {
    throw new YamlRefusal('yaml: document contains excessive aliasing');
  }
}

function readAlias<Result>(
  alias: { readonly source: string; resolve(document: Document): Node | undefined },
  reading: Reading,
  read: (target: Node) => Result,
): Result {
  const target = alias.resolve(reading.document);
  if (target === undefined) throw new YamlRefusal(`yaml: unknown anchor '${alias.source}' referenced`);
  if (reading.open.has(target)) throw new YamlRefusal(`yaml: anchor '${alias.source}' value contains itself`);
  reading.open.add(target);
  reading.aliasDepth += 1;
  const result = read(target);
  reading.aliasDepth -= 1;
  reading.open.delete(target);
  return result;
}

function readMap(map: YAMLMap, reading: Reading): Json {
  const entries: Entries = new Map();
  readPairs(map, entries, reading);
  const sorted = [...entries.values()].toSorted(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(sorted);
}

/** Merged maps apply at their position: upstream lets them override earlier entries. */
function readPairs(map: YAMLMap, entries: Entries, reading: Reading): void {
  const guarded = map.anchor !== undefined && !reading.open.has(map);
  if (guarded) reading.open.add(map);
  for (const { key, value } of map.items) {
    if (isScalar(key) && key.value === '<<' && key.type === 'PLAIN') mergeInto(entries, value, reading);
    else {
      refuseMissing(key, map, reading);
      readPair(key, value, entries, reading);
    }
  }
  if (guarded) reading.open.delete(map);
}

/** A colon without a key is allowed only inside braces. */
function refuseMissing(key: unknown, map: YAMLMap, reading: Reading): void {
  const range = isScalar(key) ? key.range : null;
  const isMissing =
    key === null || (isScalar(key) && key.type === 'PLAIN' && key.value === '' && range?.[0] === range?.[1]);
  if (!isMissing || map.flow === true) return;
  const line = reading.lines.linePos(range?.[0] ?? map.range?.[0] ?? 0).line - 1;
  throw new YamlRefusal(`yaml: ${line > 0 ? `line ${line}: ` : ''}did not find expected key`);
}

function readPair(key: unknown, valueNode: unknown, entries: Entries, reading: Reading): void {
  const name = readKey(key, reading);
  const value = readNode(valueNode, reading);
  if (name === null) {
    const shown = goSyntax(value);
    throw new YamlRefusal(`unsupported map key of type: %!s(<nil>), key: <nil>, value: ${shown}`);
  }
  const identity = goSyntax(name);
  if (entries.has(identity)) {
    const line = reading.lines.linePos(startOf(valueNode) ?? startOf(key) ?? 0).line;
    reading.duplicates.push(`  line ${line}: key ${identity} already set in map`);
  }
  entries.set(identity, [String(name), value]);
}

function readKey(key: unknown, reading: Reading): string | number | boolean | null {
  if (isScalar(key)) countNode(reading);
  const value = isScalar(key) ? keyOf(scalarOf(key)) : readNode(key, reading);
  if (typeof value === 'object' && value !== null) throw new YamlRefusal(`yaml: invalid map key: ${goSyntax(value)}`);
  return value;
}

/** A number beyond 2^53 keeps its digits; one with a large exponent is written as Go prints it. */
function keyOf({ tag, value }: Scalar): Json {
  if (tag === 'int') return typeof value === 'number' ? value : textOfNumber(value);
  if (tag !== 'float') return value;
  if (typeof value === 'number') return printFloat(value) === String(value) ? value : printFloat(value);
  if (typeof value !== 'string') return value;
  return value.replace(/^\+/, '').replace(/(Inf|NaN)$/, (word) => `.${word.toLowerCase()}`);
}

function mergeInto(entries: Entries, node: unknown, reading: Reading): void {
  const sources = isSeq(node) ? node.items.toReversed() : [node];
  for (const source of sources) {
    if (isAlias(source)) readAlias(source, reading, (target) => mergeMap(entries, target, reading));
    else mergeMap(entries, source, reading);
  }
}

function mergeMap(entries: Entries, node: unknown, reading: Reading): void {
  if (!isMap(node)) throw new YamlRefusal('yaml: map merge requires map or sequence of maps as the value');
  readPairs(node, entries, reading);
}

const startOf = (node: unknown): number | undefined =>
  isScalar(node) || isMap(node) || isSeq(node) || isAlias(node) ? node.range?.[0] : undefined;

/** Go's `%#v` of a value. */
function goSyntax(value: Json | undefined): string {
  if (value === null || value === undefined) return 'interface {}(nil)';
  if (typeof value === 'string') return quote(value);
  if (typeof value !== 'object') return String(value);
  if (Array.isArray(value)) return `[]interface {}{${value.map(goSyntax).join(', ')}}`;
  const entries = Object.entries(value).map(([key, item]) => `${quote(key)}:${goSyntax(item)}`);
  return `map[interface {}]interface {}{${entries.join(', ')}}`;
}

const TAGS = 'tag:yaml.org,2002:';
const RESOLVED_TAGS = ['str', 'bool', 'int', 'float', 'null', 'timestamp'];

/** Why a document cannot be read, with the wording of the Go reader. */
class YamlRefusal extends Error {}

interface Scalar {
  readonly tag: string;
  readonly value: Json;
}

const WORDS: ReadonlyMap<string, Scalar> = new Map(
  [
    { tag: 'bool', value: true, words: 'y Y yes Yes YES true True TRUE on On ON' },
    { tag: 'bool', value: false, words: 'n N no No NO false False FALSE off Off OFF' },
    { tag: 'null', value: null, words: '~ null Null NULL' },
    { tag: 'float', value: 'NaN', words: '.nan .NaN .NAN' },
    { tag: 'float', value: '+Inf', words: '.inf .Inf .INF +.inf +.Inf +.INF' },
    { tag: 'float', value: '-Inf', words: '-.inf -.Inf -.INF' },
  ].flatMap(({ words, ...scalar }) => ['', ...words.split(' ')].slice(1).map((word) => [word, scalar] as const)),
);
const FLOAT = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;
const LARGEST_UNSIGNED = 2n ** 64n - 1n;

/** A quoted scalar is text, and so is one with an unknown tag. */
function scalarOf({ value, type, tag = '' }: { value: unknown; type?: string; tag?: string }): Scalar {
  const text = typeof value === 'string' ? value : '';
  const isPlain = type === undefined || type === 'PLAIN';
  const name = tag.startsWith(TAGS) ? tag.slice(TAGS.length) : '';
  if (tag === '' || tag === '!') return isPlain || tag === '!' ? plainScalar(text) : { tag: 'str', value: text };
  if (name === 'binary') return { tag: 'str', value: Buffer.from(text, 'base64').toString() };
  if (name === 'str' || !RESOLVED_TAGS.includes(name)) return { tag: 'str', value: text };
  const found = plainScalar(text);
  const isDate = name === 'timestamp' && /^[0-9]{4}-/.test(text);
  const fits = isDate || found.tag === name || (found.tag === 'int' && name === 'float');
  if (!fits) throw new YamlRefusal(`yaml: cannot decode !!${found.tag} \`${text}\` as a !!${name}`);
  return found;
}

/** Rejects a value that JSON cannot express, such as infinity. */
function finite({ tag, value }: Scalar): Json {
  if (tag !== 'float' || typeof value === 'number') return value;
  throw new YamlRefusal(`json: unsupported value: ${JSON.stringify(value).replaceAll('"', '')}`);
}

function plainScalar(text: string): Scalar {
  const word = text === '' ? WORDS.get('~') : WORDS.get(text);
  if (word !== undefined) return word;
  if (!/^[-+.0-9]/.test(text)) return { tag: 'str', value: text };
  const plain = text.startsWith('.') ? text : text.replaceAll('_', '');
  const integer = text.startsWith('.') ? null : integerOf(plain);
  if (integer !== null) return { tag: 'int', value: integer };
  const number = FLOAT.test(plain) ? Number(plain) : Number.NaN;
  return Number.isFinite(number) ? { tag: 'float', value: number } : { tag: 'str', value: text };
}

function integerOf(text: string): Json {
  const parsed = parseInteger(text, 64);
  if (parsed.error === undefined) return numberOf(String(parsed.value));
  return /^[0-9]+$/.test(text) && !text.startsWith('0') && BigInt(text) <= LARGEST_UNSIGNED ? numberOf(text) : null;
}
