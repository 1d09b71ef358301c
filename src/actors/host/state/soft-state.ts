/**
 * `host.loadSoftState` and `host.saveSoftState`: facts that only the agent knows, kept across its restarts.
 *
 * Decides: a missing or damaged file counts as empty, because a node must start; a damaged one is moved to
 * `<path>.damaged` for inspection. Invariant: a reader finds the old state or the new one, never a part.
 */
import { readFile, rename } from 'node:fs/promises';
import type { Port } from '../../../kernel/operation.ts';
import type { hostOperations, SoftState } from '../../../machines/model/operations/host.ts';
import { errnoOf } from '../root-folder.ts';
import { replaceFile } from './checkpoints.ts';

type Operations = typeof hostOperations;
type ContainerState = SoftState['containers'][string];
type PulledState = NonNullable<SoftState['pulls']>[string];
type ProbedState = SoftState['probes'][string];
type Grant = NonNullable<SoftState['grants']>[string];
type Rejection = NonNullable<SoftState['rejections']>[string];

const EMPTY: SoftState = { containers: {}, probes: {} };

export const loadSoftState: Port<Operations['host.loadSoftState']> = async ({ input: { path } }) => {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return EMPTY;
    throw error;
  }
  const state = decode(text);
  if (!state) await rename(path, `${path}.damaged`);
  return state ?? EMPTY;
};

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
} satisfies Record<keyof SoftState, (value: never) => boolean>;

export const saveSoftState: Port<Operations['host.saveSoftState']> = async ({ id, input: { path, state } }) => {
  await replaceFile(path, `${JSON.stringify(state)}\n`, id);
  return null;
};
