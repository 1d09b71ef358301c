/**
 * Reads static pod files, and the ConfigMaps and Secrets beside them.
 *
 * Decides:
 * - A path is one file, or one folder, not recursive. Names with a leading dot and the backups of editors (`x~`) are
 *   not manifests. Symbolic links count as what they point to. Anything but a regular file is reported and never
 *   opened, so a FIFO cannot block and a device is not touched.
 * - Each file succeeds or fails alone. A file that was good and is now broken (half written, a typing error, a pod that
 *   validation refuses) keeps its last good content while the error is reported: to stop a pod, its file is removed.
 *   The Go kubelet stops the pod.
 * - A file that may still be incomplete keeps its previous content: one that was just modified in place, because the
 *   first half of a YAML document is often valid, or a new one that cannot be decoded yet. A file renamed into place is
 *   complete.
 * - A file that vanishes between listing and reading was simply removed.
 *
 * Invariant: once writers are done, manifests and errors depend only on the content of the files and on the last good
 * content.
 */
import { createHash } from 'node:crypto';
import { type BigIntStats, constants } from 'node:fs';
import { lstat, open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Vault } from '../../../kernel/journal/secrets.ts';
import type { Json } from '../../../kernel/json.ts';
import { isObject } from '../../../kernel/json.ts';
import { messageOf } from '../../../kernel/thrown.ts';
import { objectKeysOf } from '../../../machines/model/objects/config-objects.ts';
import type { Manifest, ManifestError } from '../../../machines/model/operations/host.ts';
import type { ConfigObject } from '../../../machines/model/operations/volume.ts';
import { staticPod } from '../../../machines/model/pods/static-pod.ts';
import { aggregate } from '../../../machines/model/values/go-text.ts';
import { sealedPod } from '../../pod-values.ts';
import { configObject, configObjectKind } from './config-object.ts';
import { decodeInThread } from './decode-in-thread.ts';
import { DocumentError, MAX_DOCUMENT_BYTES } from './document.ts';

/** The limit of files in one folder: several times the pods that a node can run (110 by default). */
const MAX_MANIFEST_FILES = 2_000;
/** Files read at once: enough to hide the latency of a slow disk, few enough to leave threads for others. */
const READ_PARALLEL = 8;

/** A file unchanged for this long counts as complete: writers pause only a few ms between writes. */
const SETTLE_MS = 100;

/** File systems give changes within one tick of the kernel's clock the same timestamp. */
const TICK_MS = 10;

/** The content of one file, kept between scans so that unchanged content is not decoded again. */
export interface FileState {
  /** sha256 of the decoded content; empty if it has to be read again. */
  readonly digest: string;
  readonly inode: string;
  /** The stamp of the file that was read; empty if the file may have changed without a new stamp. */
  readonly stamp: string;
  /** The last content that was a valid pod; its literal values are handles. */
  readonly manifest: Manifest | null;
  /** The last content that was a valid ConfigMap or Secret; the values of a Secret are handles. */
  readonly object: ConfigObject | null;
  readonly error: ManifestError | null;
}

export interface Scan {
  /** False if some files are still to be read; these keep their previous state in the meantime. */
  readonly isWhole: boolean;
  /** The path is one file, and no content of it was good. */
  readonly isUnread: boolean;
  readonly files: ReadonlyMap<string, FileState>;
  readonly manifests: readonly Manifest[];
  readonly objects: readonly ConfigObject[];
  readonly errors: readonly ManifestError[];
  /** Milliseconds until a file that is still being written can be read again; infinite if there is none. */
  readonly unfinishedForMs: number;
}

/** The node that files are read for, and the vault that keeps their secrets. */
export interface Reader {
  readonly nodeName: string;
  readonly vault: Vault;
}

interface FileOutcome {
  readonly file: string;
  readonly state: FileState;
  readonly unfinishedForMs: number;
}

/**
 * Reads everything under `path`. Yields intermediate results whenever the number of read files has doubled and
 * something is new, with the unread files as before; finally yields the complete result. Fails only if the path exists
 * and cannot be listed, or is neither a file nor a folder.
 */
export async function* scanManifests(path: string, reader: Reader, before: Scan['files']): AsyncGenerator<Scan> {
  const listing = await list(path);
  const outcomes: FileOutcome[] = [];
  let isNew = false;
  for (let at = 0, next = READ_PARALLEL; at < listing.files.length; at += READ_PARALLEL) {
    if (at === next) {
      if (isNew) yield scanOf(listing, scanPart(listing.files, outcomes, reader, before), false);
      isNew = false;
      next = 2 * at;
    }
    const batch = listing.files.slice(at, at + READ_PARALLEL);
    const read = await Promise.all(batch.map((file) => readManifest(file, reader, before.get(file))));
    const found = read.filter((outcome) => outcome !== null);
    isNew ||= found.some(({ file, state }) => state !== before.get(file));
    outcomes.push(...found);
  }
  yield scanOf(listing, outcomes, true);
}

/**
 * An intermediate result. A changed file whose pod names objects keeps its previous state, because the objects may be
 * in unread files.
 */
function scanPart(files: readonly string[], read: readonly FileOutcome[], { nodeName }: Reader, before: Scan['files']) {
  const known = new Map(read.map((outcome) => [outcome.file, outcome]));
  return files.flatMap((file) => {
    const [now, was] = [known.get(file), before.get(file)];
    const isSure = now && (now.state === was || !namesObjects(now.state, nodeName));
    if (isSure) return now;
    return was ? finished(file, was) : [];
  });
}

function namesObjects({ manifest }: FileState, nodeName: string): boolean {
  const found = manifest && staticPod(manifest, nodeName);
  return found !== null && found.errors === undefined && objectKeysOf(found.pod).length > 0;
}

function scanOf(listing: Listing, outcomes: readonly FileOutcome[], isWhole: boolean): Scan {
  const { objects, errors } = distinctObjects(outcomes);
  return {
    isWhole,
    isUnread:
      listing.isFile && outcomes.some(({ state: { manifest, object } }) => manifest === null && object === null),
    files: new Map(outcomes.map(({ file, state }) => [file, state])),
    manifests: outcomes.flatMap(({ state }) => state.manifest ?? []),
    objects,
    errors: [...listing.errors, ...outcomes.flatMap(({ state }) => state.error ?? []), ...errors],
    unfinishedForMs: outcomes.reduce((least, { unfinishedForMs }) => Math.min(least, unfinishedForMs), FINISHED),
  };
}

/** If two files have the same object, the first file in order provides it. */
function distinctObjects(outcomes: readonly FileOutcome[]) {
  const owners = new Map<string, string>();
  const errors: ManifestError[] = [];
  const objects = outcomes.flatMap(({ file, state: { object } }) => {
    if (object === null) return [];
    const key = `${object.kind} "${object.namespace}/${object.name}"`;
    const owner = owners.get(key);
    if (owner === undefined) {
      owners.set(key, file);
      return [object];
    }
    const message = `Can't process manifest file "${file}": ${key} is already defined by "${owner}"`;
    errors.push({ file, message });
    return [];
  });
  return { objects, errors };
}

const FINISHED = Number.POSITIVE_INFINITY;

interface Listing {
  /** The path itself is the file. */
  readonly isFile: boolean;
  readonly files: readonly string[];
  readonly errors: readonly ManifestError[];
}

async function list(path: string): Promise<Listing> {
  const found = await existing(path);
  const isFile = found?.isFile() ?? false;
  if (!found) return { isFile, files: [], errors: [{ file: path, message: 'path does not exist, ignoring' }] };
  if (isFile) return { isFile, files: [path], errors: [] };
  if (!found.isDirectory()) throw new Error('path is not a directory or file');
  const names = (await readdir(path)).filter(isManifestName).sort(byCodePoint);
  const files = names.slice(0, MAX_MANIFEST_FILES).map((name) => join(path, name));
  const rest = names.slice(MAX_MANIFEST_FILES);
  if (rest.length === 0) return { isFile, files, errors: [] };
  const message =
    `the folder has ${names.length} files, more than the ${MAX_MANIFEST_FILES} that are read: ` +
    `ignoring ${rest.length} from "${rest[0]}" on`;
  return { isFile, files, errors: [{ file: path, message }] };
}

const isManifestName = (name: string): boolean => !name.startsWith('.') && !name.endsWith('~');
const byCodePoint = (a: string, b: string): number => (a < b ? -1 : 1);

/** The status of the file that the path leads to, or `null` when there is none. */
async function existing(path: string): Promise<BigIntStats | null> {
  try {
    return await stat(path, { bigint: true });
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return null;
    throw error;
  }
}

const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error ? String(error.code) : undefined;

async function readManifest(file: string, reader: Reader, before?: FileState): Promise<FileOutcome | null> {
  try {
    const found = await existing(file);
    if (!found) return await danglingLink(file);
    if (found.isDirectory()) return skipped(file, `Not recursing into manifest path "${file}"`);
    if (!found.isFile()) return skipped(file, `Manifest path "${file}" is not a directory or file: ${kindOf(found)}`);
    if (before && before.stamp !== '' && before.stamp === stampOf(found)) return finished(file, before);
    const { bytes, stats } = await readWhole(file);
    const stamp = isSettled(stats.ctimeMs) ? stampOf(stats) : '';
    const digest = createHash('sha256').update(bytes).digest('hex');
    if (before?.digest === digest) return finished(file, stamp === before.stamp ? before : { ...before, stamp });
    const inode = `${stats.dev}:${stats.ino}`;
    const state = { ...(await decode(file, reader, bytes, before)), digest, inode, stamp };
    const unfinishedForMs = settlesInMs(stats);
    if (unfinishedForMs === FINISHED || (state.error === null && before?.inode !== inode)) {
      return finished(file, state);
    }
    const { manifest = null, object = null, error = null } = before ?? {};
    return { file, state: { ...UNREAD, inode, manifest, object, error }, unfinishedForMs };
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    return finished(file, { ...UNREAD, ...failedFile(file, error, before) });
  }
}

/** The state of a file that has to be read again. */
const UNREAD = { digest: '', inode: '', stamp: '' };

const finished = (file: string, state: FileState): FileOutcome => ({ file, state, unfinishedForMs: FINISHED });

/**
 * The stamp of a file. It differs after every change of content or name, except for two changes within one tick of the
 * clock.
 */
const stampOf = ({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string =>
  [dev, ino, size, mtimeNs, ctimeNs].join(':');

/** Whether the last change of the file is more than a tick ago. */
const isSettled = (ctimeMs: bigint): boolean => Date.now() - Number(ctimeMs) > 2 * TICK_MS;

/** Milliseconds without a further change until the file counts as complete; `FINISHED` if it already does. */
function settlesInMs({ mtimeMs }: BigIntStats): number {
  const ageMs = Date.now() - Number(mtimeMs);
  return ageMs >= 0 && ageMs < SETTLE_MS ? SETTLE_MS - ageMs : FINISHED;
}

/** The error of a dangling link; `null` for a listed name whose file was just removed. */
async function danglingLink(file: string): Promise<FileOutcome | null> {
  const entry = await lstat(file);
  return entry.isSymbolicLink() ? skipped(file, `Can't get metadata for "${file}": it is a link to nothing`) : null;
}

function skipped(file: string, message: string): FileOutcome {
  return finished(file, { ...UNREAD, manifest: null, object: null, error: { file, message } });
}

function kindOf(stats: BigIntStats): string {
  if (stats.isFIFO()) return 'a named pipe';
  if (stats.isSocket()) return 'a socket';
  return stats.isBlockDevice() || stats.isCharacterDevice() ? 'a device' : 'an unknown kind of file';
}

/** Reads at most one byte more than the limit, so that a file that grows meanwhile cannot fill the memory. */
async function readWhole(file: string): Promise<{ bytes: Uint8Array; stats: BigIntStats }> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    const stats = await handle.stat({ bigint: true });
    const buffer = Buffer.alloc(Math.min(Number(stats.size) + 1, MAX_DOCUMENT_BYTES + 1));
    let length = 0;
    while (length < buffer.length) {
      const { bytesRead } = await handle.read(buffer, length, buffer.length - length, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return { bytes: buffer.subarray(0, length), stats };
  } finally {
    await handle.close();
  }
}

type Decoded = Pick<FileState, 'manifest' | 'object' | 'error'>;

async function decode(
  file: string,
  { nodeName, vault }: Reader,
  bytes: Uint8Array,
  before?: FileState,
): Promise<Decoded> {
  let kindName = 'pod';
  try {
    let error: ManifestError | null = null;
    const value = await decodeInThread(bytes, (problem) => {
      error = { file, message: `Manifest file "${file}": ${problem}` };
    });
    if (value === null) throw new DocumentError('the file is empty');
    const kind = configObjectKind(value);
    kindName = kind ?? kindName;
    const document = { namespace: '', id: `files/${file}` };
    if (kind !== null) {
      const object = vault.hold(document, () => configObject(value, kind, vault));
      return { manifest: null, object, error };
    }
    const manifest = vault.hold(document, () => {
      const sealed = { file, uid: uidOf(file, nodeName, value), value: sealedPod(value, vault) };
      const { errors } = staticPod(sealed, nodeName);
      if (errors) throw new Error(`invalid pod: ${aggregate(errors)}`);
      return sealed;
    });
    return { manifest, object: null, error };
  } catch (error) {
    const isObject = kindName !== 'pod' && !(error instanceof DocumentError);
    return failedFile(file, isObject ? new Error(`invalid ${kindName}: ${messageOf(error)}`) : error, before);
  }
}

function failedFile(file: string, error: unknown, before?: FileState): Decoded {
  const problem = messageOf(error);
  const why = error instanceof DocumentError ? `couldn't parse as pod(${problem}), please check config file` : problem;
  const { manifest = null, object = null } = before ?? {};
  const kept = manifest
    ? '; the pod of its last good content keeps running until the file is removed'
    : object && '; its last good content stays in use until the file is removed';
  return { manifest, object, error: { file, message: `Can't process manifest file "${file}": ${why}${kept ?? ''}` } };
}

/**
 * The uid of a static pod: the uid in the manifest, or the hash of content, node and path, so that an edit creates a
 * new pod. The Go kubelet hashes its own memory layout, so its uids cannot be the same, and need not be.
 */
export function uidOf(file: string, nodeName: string, value: Json): string {
  const uid = field(field(value, 'metadata'), 'uid');
  if (typeof uid === 'string' && uid !== '') return uid;
  const hash = createHash('md5').update(canonicalJson(value)).update(`host:${nodeName}`).update(`file:${file}`);
  return hash.digest('hex');
}

const field = (value: Json | undefined, name: string): Json | undefined =>
  isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;

/** JSON with sorted keys, equal for equal documents. */
function canonicalJson(value: Json | undefined): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value ?? null);
  const keys = Object.keys(value).sort(byCodePoint);
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key])}`).join(',')}}`;
}
