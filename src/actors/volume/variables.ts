/**
 * `volume.readVariables`: reads variables of containers from files in the volumes of their pod.
 *
 * Containers wrote these files: a path is walked like a sub-path, and only a regular file of limited size is read.
 * Invariants: a value leaves as a handle; the reason of a failed read is not shown to the pod.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Vault } from '../../kernel/journal/secrets.ts';
import { OperationError } from '../../kernel/json.ts';
import type { InputOf } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { FileValues, FileVariable, Unprepared, volumeOperations } from '../../machines/model/operations/volume.ts';
import { boundedCall } from '../host/bounded-calls.ts';
import { readAtMost } from '../host/files.ts';
import { openSubPath } from './sub-path.ts';
import { fdPath } from './tree.ts';

type Input = InputOf<(typeof volumeOperations)['volume.readVariables']>;

/**
 * The limit of a file, in bytes: all variables of a container together have no more room (the kernel's limit of
 * arguments).
 */
const FILE_BYTES_MAX = 2 * 1024 * 1024;

export async function readVariables(
  { variables }: Input,
  vault: Vault,
  signal: AbortSignal,
): Promise<{ values: Readonly<Record<string, FileValues>>; failed: Readonly<Record<string, Unprepared>> }> {
  const values = new Map<string, Record<string, FileValues[string]>>();
  const failed = new Map<string, Unprepared>();
  for (const variable of variables) {
    const { container, env } = variable;
    try {
      signal.throwIfAborted();
      const value = await valueOf(variable, vault);
      const known = values.get(container) ?? {};
      known[env] = value;
      values.set(container, known);
    } catch (error) {
      if (!failed.has(container)) failed.set(container, unprepared(error));
    }
  }
  return { values: Object.fromEntries(values), failed: Object.fromEntries(failed) };
}

/** The key is not in the file. This reason is shown to the pod's author. */
class KeyMissing extends Error {}

function unprepared(error: unknown): Unprepared {
  const why = messageOf(error);
  return { message: error instanceof KeyMissing ? why : "couldn't parse env file", why };
}

async function valueOf({ volumePath, path, key, optional }: FileVariable, vault: Vault): Promise<FileValues[string]> {
  const text = await boundedCall(`file ${path} of ${volumePath}`, () => textOf(volumePath, path));
  const value = valueInEnvFile(text, key);
  if (value !== '') return vault.seal(value);
  if (optional) return null;
  const file = JSON.stringify(`${volumePath}/${path}`);
  throw new KeyMissing(`environment variable key ${JSON.stringify(key)} not found in file ${file}`);
}

async function textOf(volumePath: string, path: string): Promise<string> {
  const found = await openSubPath(volumePath, path, false);
  try {
    const { size } = await plainFile(found);
    const file = await open(fdPath(found), constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      // The container may write meanwhile: what counts is what is read.
      const bytes = await readAtMost(file, FILE_BYTES_MAX + 1, size);
      if (bytes.length <= FILE_BYTES_MAX) return bytes.toString('utf8');
      throw new OperationError(`${path} has more than the ${FILE_BYTES_MAX} bytes that are read`, { code: 'EFBIG' });
    } finally {
      await file.close();
    }
  } finally {
    await found.close();
  }
}

async function plainFile(handle: Awaited<ReturnType<typeof openSubPath>>) {
  const stats = await handle.stat();
  if (!stats.isFile()) throw new OperationError('it is not a plain file', { code: 'EINVAL' });
  return stats;
}

/** The longest line, in bytes, that upstream's scanner accepts. */
const MAX_LINE_BYTES = 65_536;
const BLANKS = /^[ \t]+/;

/**
 * The value of a key in a file of variables, in the kubelet's format: a small subset of shell syntax.
 *
 * Entries are `NAME='value'`; a value is literal and may span lines. Blank lines and comments, also after the closing
 * quote, are ignored. Upstream: pkg/kubelet/util/env. Invariant: nothing after the requested key is read. Empty if
 * there is no such key, or it has no value. Throws if an earlier line is malformed.
 */
export function valueInEnvFile(text: string, key: string): string {
  const lines = linesOf(text);
  for (let at = 0; at < lines.length; at += 1) {
    const line = lineAt(lines, at).replace(BLANKS, '');
    if (line === '' || line.startsWith('#')) continue;
    const { name, rest } = assignment(line, at);
    if (BLANKS.test(rest)) {
      if (name === key) return '';
      continue;
    }
    const { value, end } = quoted(lines, rest, at);
    if (name === key) return value;
    at = end;
  }
  return '';
}

/** The lines as Go's scanner splits them: the end of the text is no line of its own. */
function linesOf(text: string): readonly string[] {
  const lines = text.split('\n').map((line) => line.replace(/\r$/, ''));
  return lines.at(-1) === '' ? lines.slice(0, -1) : lines;
}

function lineAt(lines: readonly string[], at: number): string {
  const line = lines[at] ?? '';
  if (Buffer.byteLength(line) >= MAX_LINE_BYTES) throw wrong(at, 'the line is too long');
  return line;
}

const wrong = (at: number, why: string): Error =>
  new Error(`invalid environment variable format at line ${at + 1}: ${why}`);

function assignment(line: string, at: number): { readonly name: string; readonly rest: string } {
  const sign = line.indexOf('=');
  if (sign === -1) throw wrong(at, "missing '='");
  const name = line.slice(0, sign);
  if (name === '') throw wrong(at, 'empty variable name');
  if (/[ \t]$/.test(name)) throw wrong(at, "whitespace before '=' is not allowed");
  return { name, rest: line.slice(sign + 1) };
}

/** The text in quotes, and the line where they close. */
function quoted(
  lines: readonly string[],
  first: string,
  begin: number,
): { readonly value: string; readonly end: number } {
  if (!first.startsWith("'")) throw wrong(begin, 'value must be enclosed in single quotes');
  const parts: string[] = [];
  let rest = first.slice(1);
  for (let at = begin; ; ) {
    const close = rest.indexOf("'");
    if (close !== -1) {
      const after = rest.slice(close + 1).replace(BLANKS, '');
      if (after !== '' && !after.startsWith('#')) throw wrong(at, 'unexpected content after closing quote');
      return { value: [...parts, rest.slice(0, close)].join('\n'), end: at };
    }
    parts.push(rest);
    at += 1;
    if (at >= lines.length) throw wrong(begin, 'unclosed single quote');
    rest = lineAt(lines, at);
  }
}
