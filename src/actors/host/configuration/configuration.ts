/**
 * Port: reads and decodes the kubelet's configuration files.
 *
 * Decides: which files are read, and whether one is YAML or JSON. YAML keys are sorted, as by the Go reader, which goes
 * through a map; JSON keys keep their order; the last of two equal keys wins and is reported. Owns no state.
 * Invariant: an unreadable file is a result, not a failure of the operation.
 */

import { lstat, readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { LineCounter, parseAllDocuments } from 'yaml';
import { isObject, type Json, toPlainError } from '../../../kernel/json.ts';
import type { ConfigurationSource, DropInListing } from '../../../machines/model/operations/host.ts';
import { decodeJson } from '../../../machines/model/values/json-document.ts';
import { reasonOf } from '../../go-errors.ts';
import { MAX_DEPTH, readDocument } from './go-yaml.ts';
import { earlyRefusal, explain } from './yaml-errors.ts';

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
