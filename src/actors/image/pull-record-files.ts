/**
 * The files of pull records: their names, format and limits.
 *
 * Invariants: a file is replaced atomically; only its owner can read it.
 */
import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { isObject, toPlainError } from '../../kernel/json.ts';

const GROUP = 'kubelet.config.k8s.io';
export const VERSION = `${GROUP}/v1beta1`;
const READABLE = [VERSION, `${GROUP}/v1alpha1`];
const PREFIX = 'sha256-';
const UNFINISHED = '.tmp';
/** The limit of a record, which has about 200 bytes for each tenant. */
const MAX_RECORD_BYTES = 1_048_576;

export interface StoredSecret {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly credentialHash: string;
}

export type StoredAccount = Pick<StoredSecret, 'uid' | 'namespace' | 'name'>;

export interface StoredCredentials {
  readonly kubernetesSecrets?: readonly StoredSecret[];
  readonly kubernetesServiceAccounts?: readonly StoredAccount[];
  readonly nodePodsAccessible?: boolean;
}

export interface StoredRecord {
  readonly kind: string;
  readonly apiVersion: string;
  readonly lastUpdatedTime: string;
  readonly imageRef: string;
  readonly credentialMapping: Readonly<Record<string, StoredCredentials>>;
}

export const PULLING = 'image_manager/pulling';
export const PULLED = 'image_manager/pulled';

const fileName = (name: string): string => `${PREFIX}${createHash('sha256').update(name).digest('hex')}`;
export const pulling = (root: string, image: string): string => join(root, PULLING, fileName(image));
export const pulled = (root: string, imageRef: string): string => join(root, PULLED, fileName(imageRef));

/** The number of records of each kind below the root directory. */
export async function recordCounts(root: string): Promise<{ readonly pulling: number; readonly pulled: number }> {
  const [begun, done] = await Promise.all([recordFiles(join(root, PULLING)), recordFiles(join(root, PULLED))]);
  return { pulling: begun.length, pulled: done.length };
}

export async function recordFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const isRecord = (name: string) => name.startsWith(PREFIX) && !name.endsWith(UNFINISHED);
  return entries.filter((each) => each.isFile() && isRecord(each.name)).map(({ name }) => join(folder, name));
}

/**
 * Reads a record; `null` if there is no file. Fails for an invalid file: then a credential has to be presented again.
 */
export async function readRecord(path: string, imageRef: string): Promise<StoredRecord | null> {
  const value = await readJson(path);
  if (value === null) return null;
  const { kind, apiVersion, credentialMapping = {} }: Partial<StoredRecord> = value;
  if (kind !== 'ImagePulledRecord' || !READABLE.includes(apiVersion ?? '') || !isObject(credentialMapping)) {
    throw new Error(`${path} is not an ImagePulledRecord; remove it, and the image is pulled again`);
  }
  return value['imageRef'] === imageRef ? ({ ...value, credentialMapping } as StoredRecord) : null;
}

export async function readJson(path: string): Promise<Readonly<Record<string, unknown>> | null> {
  try {
    const text = await readFile(path, 'utf8');
    if (text.length > MAX_RECORD_BYTES) throw new Error(`${path} has more than ${MAX_RECORD_BYTES} bytes`);
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
    throw new Error(`${path} is not a JSON object; remove it, and the image is pulled again`);
  } catch (error) {
    if (toPlainError(error).code === 'ENOENT') return null;
    throw error;
  }
}

export async function write(path: string, value: object): Promise<void> {
  await mkdir(join(path, '..'), { recursive: true, mode: 0o700 });
  const draft = `${path}${UNFINISHED}`;
  const file = await open(draft, 'w', 0o600);
  try {
    await file.writeFile(JSON.stringify(value));
  } finally {
    await file.close();
  }
  await rename(draft, path);
}
