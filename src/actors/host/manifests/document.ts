/**
 * Decodes one hand-written YAML or JSON document into plain JSON.
 *
 * Scalars are read the way the Go kubelet's YAML reader does (YAML 1.1: `yes` is true, `0644` is octal), without the
 * parts of 1.1 that it does not have (base 60, dates, sets). JSON is a subset of YAML and takes the same path, but
 * machine-written JSON is read by `JSON.parse`, which is about fifty times faster.
 *
 * Decides:
 * - An integer that a double cannot hold exactly becomes its decimal text: nothing is rounded silently, and validation
 *   of the number field rejects it. A number that overflows (`1e400`) keeps the author's text for the same reason.
 * - The last of two equal keys counts, and an unknown tag means nothing, as for the Go kubelet. A caller that takes no
 *   report of duplicate keys gets an error.
 * - A second document, a key that is not a scalar and a control character are errors; the Go kubelet reads only the
 *   first document.
 * - Messages give line and column where the parser knows them, but never quote the document: an environment variable
 * may hold a secret.
 * - `__proto__` is a key like any other: it becomes an own property.
 */
import type { CollectionTag, ScalarTag, Tags } from 'yaml';
import {
  type Document,
  isCollection,
  isScalar,
  LineCounter,
  parseAllDocuments,
  type Scalar,
  visit,
  type YAMLMap,
} from 'yaml';
import type { Json } from '../../../kernel/json.ts';
import { messageOf } from '../../../kernel/thrown.ts';

const octal: ScalarTag = {
  tag: 'tag:yaml.org,2002:int',
  default: true,
  test: /^[-+]?0o[0-7]+$/,
  resolve: (text, _onError, { intAsBigInt }) => {
    const value = text.startsWith('-') ? -BigInt(text.slice(1)) : BigInt(text.replace('+', ''));
    return intAsBigInt ? value : Number(value);
  },
};

/** A number with an exponent begins with its digits: `e1` is text. */
const exponent: ScalarTag = {
  tag: 'tag:yaml.org,2002:float',
  default: true,
  format: 'EXP',
  test: /^[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9_]+)[eE][-+]?[0-9]+$/,
  resolve: (text) => Number(text.replaceAll('_', '')),
};

/**
 * The resolution of plain YAML scalars: YAML 1.1 without the types that the Go reader lacks (dates, sets, ordered maps,
 * binary), plus the octal form of 1.2, which it has.
 */
function goTags(tags: Tags): Tags {
  return [...tags.filter((tag) => typeof tag !== 'object' || !isForeign(tag)), octal, exponent];
}

const BINARY = 'tag:yaml.org,2002:binary';

/** Whether the Go reader lacks the tag: such scalars stay text. */
function isForeign(tag: CollectionTag | ScalarTag): boolean {
  return (
    ('format' in tag && (tag.format === 'TIME' || tag.format === 'EXP')) ||
    /:(binary|omap|pairs|set|timestamp)$/.test(tag.tag)
  );
}

/**
 * Largest document, in bytes. An API server rejects pods above 1.5 MiB (etcd's request limit), so no real pod is
 * larger; decoding takes about a second per MiB.
 */
export const MAX_DOCUMENT_BYTES = 1_572_864;
/** Alias expansions; more indicate an alias bomb, as a pod needs no more. */
const MAX_ALIASES = 100;
const OPENING_BRACE = 0x7b;
/** Matches more digits than a double holds exactly, in a number or in text. */
const ROUNDED = /\d{16}/;
/** Levels of nesting. A Pod needs about 12; the limit keeps recursion far from the end of the stack. */
const MAX_DEPTH = 100;

/** A document that cannot be decoded; the message is for its author. */
export class DocumentError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'DocumentError';
  }
}

/** Receives what is wrong with a document that can be decoded all the same. */
export type OnProblem = (problem: string) => void;

export const refuseProblem: OnProblem = (problem) => {
  throw new DocumentError(problem);
};

/** Decodes the bytes of a file. `null` for an empty document. */
export function decodeDocument(bytes: Uint8Array, onProblem = refuseProblem): Json {
  const written = writtenByProgram(bytes);
  if (written !== null) return written;
  const text = decodeText(bytes);
  const lines = new LineCounter();
  const document = onlyDocument(text, lines);
  if (!document) return null;
  const duplicate = normalize(document, lines);
  if (duplicate !== null) onProblem(duplicate);
  const value = expand(document);
  requireDepth(value, 0);
  return value;
}

/**
 * Parses JSON that equals its own serialization, so has no duplicate keys and no rounded numbers. `null` for any other
 * document.
 */
export function writtenByProgram(bytes: Uint8Array): Json {
  if (bytes.length > MAX_DOCUMENT_BYTES) {
    throw new DocumentError(`the file has more than ${MAX_DOCUMENT_BYTES} bytes, the limit for one document`);
  }
  if (bytes[0] !== OPENING_BRACE) return null;
  const value = parsedJson(decodeText(bytes));
  requireDepth(value, 0);
  return value;
}

function parsedJson(text: string): Json {
  try {
    const value: Json = JSON.parse(text);
    return JSON.stringify(value) === text.trimEnd() && !ROUNDED.test(text) ? value : null;
  } catch {
    return null;
  }
}

function expand(document: Document): Json {
  try {
    const value: Json = document.toJS({ maxAliasCount: MAX_ALIASES });
    return value;
  } catch (error) {
    throw new DocumentError(messageOf(error));
  }
}

/** Rejects nesting that would overflow the stack, such as an alias that contains itself. */
function requireDepth(value: Json | undefined, depth: number): void {
  if (depth > MAX_DEPTH) throw new DocumentError(`the document is nested deeper than ${MAX_DEPTH} levels`);
  if (typeof value !== 'object' || value === null) return;
  for (const child of Object.values(value)) requireDepth(child, depth + 1);
}

function decodeText(bytes: Uint8Array): string {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new DocumentError('the file is not UTF-8 text');
  }
  const control = /[^\P{Cc}\t\n\r\u0085]/u.exec(text);
  if (!control) return text;
  const line = text.slice(0, control.index).split('\n').length;
  const codePoint = control[0].charCodeAt(0).toString(16).padStart(4, '0');
  throw new DocumentError(`control characters are not allowed: U+${codePoint} at line ${line}`);
}

function onlyDocument(text: string, lineCounter: LineCounter): Document | null {
  const parsed = parseAllDocuments(text, {
    lineCounter,
    // The library's check is quadratic: it compares each key with all earlier ones.
    uniqueKeys: false,
    version: '1.1',
    intAsBigInt: true,
    logLevel: 'silent',
    customTags: goTags,
  });
  const documents = ('empty' in parsed ? [] : parsed).filter((each) => !isEmpty(each));
  for (const document of documents) {
    const problem = document.errors[0] ?? document.warnings.find(({ code }) => code !== 'TAG_RESOLVE_FAILED');
    if (problem) throw new DocumentError(explain(problem.message));
  }
  if (documents.length > 1) {
    throw new DocumentError(`the file holds ${documents.length} documents; write each one into a file of its own`);
  }
  return documents[0] ?? null;
}

const isEmpty = (document: Document): boolean =>
  document.errors.length === 0 &&
  (document.contents === null || (isScalar(document.contents) && document.contents.value === null));

/** The first line names the problem and its place; the lines after it quote the document. */
const explain = (message: string): string =>
  (message.split('\n')[0] ?? message)
    .replace(/:$/, '')
    .replace('Maximum call stack size exceeded', `the document is nested deeper than ${MAX_DEPTH} levels`);

/**
 * Converts values outside JSON, and rejects those that no reader of the pod could use. Returns the first duplicate key.
 */
function normalize(document: Document, lines: LineCounter): string | null {
  let duplicate: string | null = null;
  visit(document, {
    Map(_key, map) {
      duplicate ??= duplicateIn(map, lines);
    },
    Pair(_key, pair) {
      const { key } = pair;
      if (isCollection(key)) throw new DocumentError('a key must be text, not a list or a map');
      if (key === null || (isScalar(key) && key.value === null)) throw new DocumentError('a key must not be null');
    },
    Scalar(_key, node) {
      node.value = jsonScalar(node);
    },
  });
  return duplicate;
}

function duplicateIn({ items }: YAMLMap, lines: LineCounter): string | null {
  const keys = new Set<unknown>();
  for (const { key } of items) {
    if (!isScalar(key)) continue;
    if (keys.has(key.value)) {
      const { line, col } = lines.linePos(key.range?.[0] ?? 0);
      return `Map keys must be unique at line ${line}, column ${col}; the last one counts`;
    }
    keys.add(key.value);
  }
  return null;
}

function jsonScalar(node: Scalar): unknown {
  const { value, tag } = node;
  if (tag === BINARY && typeof value === 'string') return Buffer.from(value, 'base64').toString();
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value.toString();
  if (typeof value === 'number' && !Number.isFinite(value)) return node.source ?? String(value);
  return value;
}
