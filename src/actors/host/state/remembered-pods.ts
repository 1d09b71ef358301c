/**
 * `host.loadPods` and `host.savePod`: the pods of the API server that this node may start without it, one file a pod.
 *
 * Decides: other files in the folder are ignored. Invariants: a reader finds the old pod or the new one, never a part;
 * a uid never leads out of the folder; only the owner can read the files; tokens and literal values of a pod are
 * encrypted with the node's key (`Vault.wrap`): an unreadable token is left out, and so is a pod with an unreadable
 * value.
 */
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isSecretHandle, type Vault } from '../../../kernel/journal/index.ts';
import { memberOf, OperationError } from '../../../kernel/json.ts';
import type { Ports } from '../../../kernel/operation.ts';
import type { hostOperations, RememberedPod } from '../../../machines/model/operations/host.ts';
import { valueNames } from '../../pod-values.ts';
import { errnoOf } from '../root-folder.ts';

type Operations = typeof hostOperations;

const OWNER_ONLY = 0o600;
const FOLDER_MODE = 0o700;
/** The limit of pods: far more than a node runs. */
const PODS_MAX = 2_000;
/** The limit of a file: a pod of the API server has at most 1.5 MiB, and so has each of its ConfigMaps. */
const BYTES_MAX = 8 * 1_048_576;
const UID = /^[A-Za-z0-9][A-Za-z0-9-]{0,127}$/;

type RememberingPorts = Ports<Pick<Operations, 'host.loadPods' | 'host.savePod'>>;

export const rememberingPorts = (vault: Vault): RememberingPorts => ({
  'host.loadPods': async ({ input: { directory } }) => await loadPods(directory, vault),
  'host.savePod': async ({ input: { directory, uid, remembered } }) => {
    await savePod(directory, uid, remembered && wrapped(remembered, vault));
    return null;
  },
});

async function loadPods(directory: string, vault: Vault): Promise<{ pods: readonly RememberedPod[] }> {
  const names = await readdir(directory).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  });
  const files = names.filter((name) => name.endsWith('.json')).toSorted((a, b) => (a < b ? -1 : 1));
  const pods = await Promise.all(files.slice(0, PODS_MAX).map((name) => readPod(join(directory, name))));
  return { pods: pods.filter((pod) => pod !== null).flatMap((pod) => unwrapped(pod, vault)) };
}

async function readPod(path: string): Promise<StoredPod | null> {
  try {
    if ((await stat(path)).size > BYTES_MAX) return null;
    const value: Partial<StoredPod> = JSON.parse(await readFile(path, 'utf8'));
    const isPod = typeof value.pod === 'object' && typeof value.objects === 'object';
    return isPod ? (value as StoredPod) : null;
  } catch {
    return null;
  }
}

async function savePod(directory: string, uid: string, remembered: object | null): Promise<void> {
  if (!UID.test(uid)) throw new OperationError(`"${uid}" is no uid of a pod`, { code: 'EINVAL' });
  const path = join(directory, `${uid}.json`);
  const draft = `${path}.tmp`;
  if (remembered === null) {
    await Promise.all([rm(path, { force: true }), rm(draft, { force: true })]);
    return;
  }
  await mkdir(directory, { recursive: true, mode: FOLDER_MODE });
  const file = await open(draft, 'w', OWNER_ONLY);
  try {
    await file.writeFile(JSON.stringify(remembered));
    await file.datasync();
  } finally {
    await file.close();
  }
  await rename(draft, path);
}

/** The content of a file. */
interface StoredPod extends RememberedPod {
  /** By name of a handle, its encrypted value. */
  readonly values?: Readonly<Record<string, string>>;
}

/** The form of a secret in a file. */
interface WrappedSecret {
  readonly $wrapped: string;
}

const isWrapped = (value: unknown): value is WrappedSecret => typeof memberOf(value, '$wrapped') === 'string';

const wrapped = (remembered: RememberedPod, vault: Vault): object => ({
  ...remembered,
  values: Object.fromEntries(
    valueNames(remembered.pod).map(($secret) => [$secret, vault.wrap({ $secret, len: 0 })] as const),
  ),
  objects: mapValues(remembered.objects, (value) => (isSecretHandle(value) ? { $wrapped: vault.wrap(value) } : value)),
});

/**
 * The pods with their secrets restored: objects with unreadable secrets are left out, and so are pods with unreadable
 * values.
 */
function unwrapped(remembered: StoredPod, vault: Vault): readonly RememberedPod[] {
  const values = Object.values(remembered.values ?? {});
  if (values.some((value) => vault.unwrap(value) === null)) return [];
  let isWhole = true;
  const open = (value: unknown): unknown => {
    if (!isWrapped(value)) return value;
    const handle = vault.unwrap(value.$wrapped);
    isWhole &&= handle !== null;
    return handle;
  };
  const objects = Object.entries(remembered.objects).flatMap(([key, object]) => {
    isWhole = true;
    const opened = mapValues(object, open) as typeof object;
    return isWhole ? [[key, opened] as const] : [];
  });
  return [{ pod: remembered.pod, objects: Object.fromEntries(objects) }];
}

/** A copy in which `change` was applied to every value, from the outside in. */
function mapValues(value: unknown, change: (value: unknown) => unknown): unknown {
  const changed = change(value);
  if (changed !== value || typeof value !== 'object' || value === null) return changed;
  if (Array.isArray(value)) return value.map((part) => mapValues(part, change));
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, mapValues(part, change)]));
}
