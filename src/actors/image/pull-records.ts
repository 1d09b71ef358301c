/**
 * Records of the credentials accepted for images: files below `image_manager` of the root directory, in upstream's
 * format, so that either agent can continue the other's records.
 *
 * Invariants: files are replaced atomically, and only their owner can read them; changes of one record are serialized;
 * a credential's hash on disk is readable by the owner only, and leaves this module as a handle.
 */
import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { SecretHandle, Vault } from '../../kernel/journal/secrets.ts';
import { isObject, toPlainError } from '../../kernel/json.ts';
import type { Ports } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { imageOperations, PulledCredentials } from '../../machines/model/operations/image.ts';
import { valueIn } from '../../machines/model/values/tables.ts';
import { rfc3339 } from '../../machines/model/values/time.ts';
import { serializer } from '../serializer.ts';

type Operations = typeof imageOperations;
type RecordPorts = Pick<
  Ports<Operations>,
  | 'images.pullRecord'
  | 'images.recordIntent'
  | 'images.recordPulled'
  | 'images.forgetIntent'
  | 'images.listIntents'
  | 'images.pruneRecords'
>;

export function recordPorts(vault: Vault): RecordPorts {
  const inTurn = serializer();
  return {
    'images.pullRecord': async ({ input: { root, image, imageRef } }) => {
      const [intent, record] = await Promise.all([
        readJson(pulling(root, image)),
        readRecord(pulled(root, imageRef), imageRef),
      ]);
      return { intended: intent?.['image'] === image, record: record && sealed(record, vault) };
    },
    'images.recordIntent': async ({ input: { root, image } }) => {
      await write(pulling(root, image), { kind: 'ImagePullIntent', apiVersion: VERSION, image });
      return null;
    },
    'images.recordPulled': ({ input: { root, image, imageRef, repository, credentials } }) =>
      inTurn(imageRef, async () => {
        const path = pulled(root, imageRef);
        const before = await readRecord(path, imageRef).catch(() => null);
        const added = credentials && stored(credentials, vault);
        const after = merged(before, imageRef, repository, added);
        if (after !== before) await write(path, { ...after, lastUpdatedTime: rfc3339(Date.now()) });
        await rm(pulling(root, image), { force: true });
        return null;
      }),
    'images.forgetIntent': async ({ input: { root, image } }) => {
      await rm(pulling(root, image), { force: true });
      return null;
    },
    'images.listIntents': async ({ input: { root } }) => {
      const files = await recordFiles(join(root, PULLING));
      const intents = await Promise.allSettled(files.map((path) => readJson(path)));
      const unread = intents.flatMap((each) => (each.status === 'rejected' ? [messageOf(each.reason)] : []));
      const images = intents.flatMap((each) => {
        const image = each.status === 'fulfilled' ? each.value?.['image'] : undefined;
        return typeof image === 'string' ? [image] : [];
      });
      return { images, ...(unread.length > 0 ? { unread } : {}) };
    },
    'images.pruneRecords': async ({ input: { root, keep, untilMs } }) => {
      const kept = new Set(keep.map((imageRef) => pulled(root, imageRef)));
      const files = (await recordFiles(join(root, PULLED))).filter((path) => !kept.has(path));
      for (const path of files) await prune(path, untilMs);
      return null;
    },
  };
}

/** A record that cannot be read stays, because it may be newer: without it every pod could use its image. */
async function prune(path: string, untilMs: number): Promise<void> {
  const record = await readJson(path).catch(() => null);
  if (Date.parse(String(record?.['lastUpdatedTime'])) < untilMs) await rm(path, { force: true });
}

/** Returns `before` itself if nothing is new. */
function merged(
  before: StoredRecord | null,
  imageRef: string,
  repository: string,
  added: StoredCredentials | null,
): StoredRecord | null {
  const empty = { kind: 'ImagePulledRecord', apiVersion: VERSION, lastUpdatedTime: '', imageRef };
  const record = before ?? { ...empty, credentialMapping: {} };
  if (added === null) return record;
  const known = valueIn(record.credentialMapping, repository);
  const next = known === undefined ? added : mergedCredentials(known, added);
  if (next === known) return before;
  return { ...record, apiVersion: VERSION, credentialMapping: { ...record.credentialMapping, [repository]: next } };
}

function mergedCredentials(known: StoredCredentials, added: StoredCredentials): StoredCredentials {
  if (known.nodePodsAccessible === true) return known;
  if (added.nodePodsAccessible === true) return { nodePodsAccessible: true };
  const before = new Map((known.kubernetesSecrets ?? []).map((each) => [placeOf(each), each]));
  const isNew = (each: StoredSecret) => before.get(placeOf(each))?.credentialHash !== each.credentialHash;
  const secrets = (added.kubernetesSecrets ?? []).filter(isNew);
  const accounts = known.kubernetesServiceAccounts ?? [];
  const places = new Set(accounts.map(placeOf));
  const more = (added.kubernetesServiceAccounts ?? []).filter((each) => !places.has(placeOf(each)));
  if (secrets.length + more.length === 0) return known;
  for (const each of secrets) before.set(placeOf(each), each);
  return {
    ...known,
    ...(before.size === 0 ? {} : { kubernetesSecrets: byPlace([...before.values()]) }),
    ...(accounts.length + more.length === 0 ? {} : { kubernetesServiceAccounts: byPlace([...accounts, ...more]) }),
  };
}

const placeOf = ({ namespace, name, uid }: StoredAccount): string => JSON.stringify([namespace, name, uid]);

const byPlace = <Stored extends StoredAccount>(all: readonly Stored[]): readonly Stored[] =>
  all.toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));

function stored({ nodePodsAccessible, secrets, accounts }: PulledCredentials, vault: Vault): StoredCredentials {
  if (nodePodsAccessible) return { nodePodsAccessible };
  const kubernetesSecrets = secrets.map(({ uid, namespace, name, hash }) => ({
    uid,
    namespace,
    name,
    credentialHash: vault.open(hash),
  }));
  const kubernetesServiceAccounts = (accounts ?? []).map(({ uid, namespace, name }) => ({ uid, namespace, name }));
  return {
    ...(kubernetesSecrets.length > 0 ? { kubernetesSecrets } : {}),
    ...(kubernetesServiceAccounts.length > 0 ? { kubernetesServiceAccounts } : {}),
  };
}

const sealed = ({ credentialMapping }: StoredRecord, vault: Vault): Record<string, PulledCredentials> =>
  Object.fromEntries(
    Object.entries(credentialMapping).map(([repository, stored]) => {
      const { nodePodsAccessible = false, kubernetesSecrets = [], kubernetesServiceAccounts = [] } = stored;
      const secrets = kubernetesSecrets.map(({ uid, namespace, name, credentialHash }) => {
        const hash: SecretHandle = vault.seal(credentialHash);
        return { uid, namespace, name, hash };
      });
      const accounts = kubernetesServiceAccounts.map(({ uid, namespace, name }) => ({ uid, namespace, name }));
      return [repository, { nodePodsAccessible, secrets, ...(accounts.length > 0 ? { accounts } : {}) }];
    }),
  );

const GROUP = 'kubelet.config.k8s.io';
const VERSION = `${GROUP}/v1beta1`;
const READABLE = [VERSION, `${GROUP}/v1alpha1`];
const PREFIX = 'sha256-';
const UNFINISHED = '.tmp';
/** The limit of a record, which has about 200 bytes for each tenant. */
const MAX_RECORD_BYTES = 1_048_576;

interface StoredSecret {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly credentialHash: string;
}

type StoredAccount = Pick<StoredSecret, 'uid' | 'namespace' | 'name'>;

interface StoredCredentials {
  readonly kubernetesSecrets?: readonly StoredSecret[];
  readonly kubernetesServiceAccounts?: readonly StoredAccount[];
  readonly nodePodsAccessible?: boolean;
}

interface StoredRecord {
  readonly kind: string;
  readonly apiVersion: string;
  readonly lastUpdatedTime: string;
  readonly imageRef: string;
  readonly credentialMapping: Readonly<Record<string, StoredCredentials>>;
}

const PULLING = 'image_manager/pulling';
const PULLED = 'image_manager/pulled';

const fileName = (name: string): string => `${PREFIX}${createHash('sha256').update(name).digest('hex')}`;
const pulling = (root: string, image: string): string => join(root, PULLING, fileName(image));
const pulled = (root: string, imageRef: string): string => join(root, PULLED, fileName(imageRef));

export async function recordCounts(root: string): Promise<{ readonly pulling: number; readonly pulled: number }> {
  const [begun, done] = await Promise.all([recordFiles(join(root, PULLING)), recordFiles(join(root, PULLED))]);
  return { pulling: begun.length, pulled: done.length };
}

async function recordFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const isRecord = (name: string) => name.startsWith(PREFIX) && !name.endsWith(UNFINISHED);
  return entries.filter((each) => each.isFile() && isRecord(each.name)).map(({ name }) => join(folder, name));
}

/**
 * Reads a record; `null` if there is no file. Fails for an invalid file: then a credential has to be presented again.
 */
async function readRecord(path: string, imageRef: string): Promise<StoredRecord | null> {
  const value = await readJson(path);
  if (value === null) return null;
  const { kind, apiVersion, credentialMapping = {} }: Partial<StoredRecord> = value;
  if (kind !== 'ImagePulledRecord' || !READABLE.includes(apiVersion ?? '') || !isObject(credentialMapping)) {
    throw new Error(`${path} is not an ImagePulledRecord; remove it, and the image is pulled again`);
  }
  return value['imageRef'] === imageRef ? ({ ...value, credentialMapping } as StoredRecord) : null;
}

async function readJson(path: string): Promise<Readonly<Record<string, unknown>> | null> {
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

async function write(path: string, value: object): Promise<void> {
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
