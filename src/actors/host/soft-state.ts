/**
 * The agent's own files: `host.loadSoftState` and `host.saveSoftState`, facts that only the agent knows and keeps
 * across restarts, with the resources of pods from the kubelet's files; `host.readCheckpoints` and
 * `host.writeCheckpoint`, the checkpoint files of a kubelet's resource managers; `host.loadPods` and `host.savePod`,
 * the pods of the API server that this node may start while the API server is unreachable, one file a pod.
 *
 * Decides: a missing or damaged soft state counts as empty, because a node must start; a damaged file is moved to
 * `<path>.damaged` for inspection. Other files in the folder of pods are ignored.
 *
 * Invariants: a reader finds the old file or the new one, never a part; a failed write leaves no file; a uid never
 * leads out of the folder; only the owner can read the files of pods; tokens and literal values of a pod are encrypted
 * with the node's key (`Vault.wrap`): an unreadable token is left out, and so is a pod with an unreadable value.
 */
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isSecretHandle, type Vault } from '../../kernel/journal/secrets.ts';
import { memberOf, OperationError } from '../../kernel/json.ts';
import type { Port, Ports } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import { podStatePaths, podStateTexts, withPodStates } from '../../machines/model/allocation/pod-state-files.ts';
import type { hostOperations, RememberedPod, SoftState } from '../../machines/model/operations/host.ts';
import { mapValues } from '../../machines/model/values/tables.ts';
import { valueNames } from '../pod-values.ts';
import { readTextFile } from './files.ts';

type Operations = typeof hostOperations;
type ContainerState = SoftState['containers'][string];
type PulledState = NonNullable<SoftState['pulls']>[string];
type ProbedState = SoftState['probes'][string];
type Grant = NonNullable<SoftState['grants']>[string];
type Rejection = NonNullable<SoftState['rejections']>[string];

const EMPTY: SoftState = { containers: {}, probes: {} };

export const loadSoftState: Port<Operations['host.loadSoftState']> = async (call) => {
  const { path, rootDir } = call.input;
  const agentState = await ownState(path);
  if (rootDir === undefined) return agentState;
  try {
    const { contents } = await readCheckpoints({ ...call, input: { paths: podStatePaths(rootDir) } });
    const { state, error } = withPodStates(agentState, contents);
    return error === '' ? state : { ...state, unread: error };
  } catch (error) {
    return { ...agentState, unread: messageOf(error) };
  }
};

async function ownState(path: string): Promise<SoftState> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return EMPTY;
    throw error;
  }
  const state = decode(text);
  if (!state) await rename(path, `${path}.damaged`);
  return state ?? EMPTY;
}

/** Empty tables are left out, except those that every state has. */
function decode(text: string): SoftState | null {
  try {
    const parsed: Partial<Record<string, object>> = JSON.parse(text);
    const read: typeof parsed = { probes: {}, ...parsed };
    if (read['containers'] === undefined) return null;
    const state: Record<string, object> = {};
    for (const [name, isGood] of Object.entries(CHECKS) as [keyof SoftState, (value: never) => boolean][]) {
      const table = read[name] ?? {};
      if (typeof table !== 'object' || !Object.values(table).every((value) => isGood(value as never))) return null;
      if (name in EMPTY || Object.keys(table).length > 0) state[name] = table;
    }
    return state as unknown as SoftState;
  } catch {
    return null;
  }
}

const isContainerState = (state: ContainerState): boolean =>
  [state.restartCount, state.backoffMs, state.backoffUntilMs].every((value) => Number.isFinite(value) && value >= 0);

const isPulledState = ({ backoffMs, untilMs, message }: PulledState): boolean =>
  [backoffMs, untilMs].every((value) => Number.isFinite(value) && value >= 0) && typeof message === 'string';

const isGrant = ({ demand, allocation, cpus = {}, memory = {}, devices = {} }: Grant): boolean =>
  Array.isArray(demand.ports) &&
  Object.values(demand.requests).every((amount) => /^\d+$/.test(amount)) &&
  Object.values(cpus).every((list) => /^\d+(-\d+)?(,\d+(-\d+)?)*$/.test(list)) &&
  Object.values(memory).flat().every(isBlock) &&
  Object.values(devices).every((resources) => Object.values(resources).every(isDeviceHolding)) &&
  isAllocation(allocation);

const isBlock = ({ numaAffinity, type, size }: NonNullable<Grant['memory']>[string][number]): boolean =>
  numaAffinity.every(Number.isInteger) && typeof type === 'string' && /^\d+$/.test(size);

const isDeviceHolding = ({ nodes, response }: NonNullable<Grant['devices']>[string][string]): boolean =>
  Object.values(nodes)
    .flat()
    .every((id) => typeof id === 'string') &&
  typeof response?.envs === 'object' &&
  [response.mounts, response.devices, response.cdiDevices].every(Array.isArray);

const isAllocation = (allocation: Grant['allocation']): boolean =>
  Object.values(allocation).every((resources) => typeof resources === 'object');

const isRejection = ({ reason, message }: Rejection): boolean =>
  typeof reason === 'string' && typeof message === 'string';

const isProbedState = ({ id, started, ready }: ProbedState): boolean =>
  typeof id === 'string' && typeof started === 'boolean' && typeof ready === 'boolean';

const CHECKS = {
  containers: isContainerState,
  begun: Number.isInteger,
  probes: isProbedState,
  pulls: isPulledState,
  grants: isGrant,
  rejections: isRejection,
  resizes: isAllocation,
  handedOver: isAllocation,
} satisfies Record<keyof SoftState, (value: never) => boolean>;

export const saveSoftState: Port<Operations['host.saveSoftState']> = async (call) => {
  const { path, rootDir, state } = call.input;
  await replaceFile(path, `${JSON.stringify(state)}\n`, call.id);
  if (rootDir === undefined) return null;
  const paths = podStatePaths(rootDir);
  const { contents } = await readCheckpoints({ ...call, input: { paths } });
  for (const [at, text] of podStateTexts(state).entries()) {
    if (contents[at] !== text) await replaceFile(paths[at]!, text, call.id);
  }
  return null;
};

/** The limit of a checkpoint file: far above the checkpoints of any node's pods. */
const CHECKPOINT_MAX_BYTES = 16 * 1_024 * 1_024;
const OWNER_ONLY = 0o600;
const FOLDER_MODE = 0o750;

export const readCheckpoints: Port<(typeof hostOperations)['host.readCheckpoints']> = async (call) => {
  const read = call.input.paths.map((path) =>
    readTextFile({ ...call, input: { path, maxBytes: CHECKPOINT_MAX_BYTES } }),
  );
  return { contents: (await Promise.all(read)).map(({ content }) => content) };
};

export const writeCheckpoint: Port<(typeof hostOperations)['host.writeCheckpoint']> = async ({
  id,
  input: { path, content },
}) => {
  await replaceFile(path, content, id);
  return null;
};

/** Replaces a file so that it survives a crash of the machine right after. `id` makes the temporary name unique. */
export async function replaceFile(path: string, content: string, id: number): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: FOLDER_MODE });
  const draft = join(folder, `.${basename(path)}.${process.pid}.${id}`);
  try {
    await writeSynced(draft, content);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  const directory = await open(folder, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

async function writeSynced(path: string, content: string): Promise<void> {
  const file = await open(path, 'w', OWNER_ONLY);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

const PODS_FOLDER_MODE = 0o700;
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
    if (codeOf(error) === 'ENOENT') return [];
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
  await mkdir(directory, { recursive: true, mode: PODS_FOLDER_MODE });
  try {
    await writeSynced(draft, JSON.stringify(remembered));
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
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
  objects: mapDeep(remembered.objects, (value) => (isSecretHandle(value) ? { $wrapped: vault.wrap(value) } : value)),
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
    const opened = mapDeep(object, open) as typeof object;
    return isWhole ? [[key, opened] as const] : [];
  });
  return [{ pod: remembered.pod, objects: Object.fromEntries(objects) }];
}

/** A copy in which `change` was applied to every value, from the outside in. */
function mapDeep(value: unknown, change: (value: unknown) => unknown): unknown {
  const changed = change(value);
  if (changed !== value || typeof value !== 'object' || value === null) return changed;
  if (Array.isArray(value)) return value.map((part) => mapDeep(part, change));
  return mapValues({ ...value }, (part) => mapDeep(part, change));
}
