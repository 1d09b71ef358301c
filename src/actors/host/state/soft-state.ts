/**
 * `host.loadSoftState` and `host.saveSoftState`: facts that the world forgets when the agent restarts.
 *
 * Decides: a file that is missing or damaged is no state, because a node must start; a damaged one is moved aside to
 * `<path>.damaged` for its owner to look at. Invariant: a reader finds the old state or the new one, never a part.
 */
import { readFile, rename } from 'node:fs/promises';
import type { Port } from '../../../kernel/operation.ts';
import type { hostOperations, SoftState } from '../../../machines/operations/host.ts';
import { errnoOf } from '../beneath.ts';
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

function decode(text: string): SoftState | null {
  try {
    const { containers, probes = {}, pulls = {}, grants = {}, rejections = {}, resizes = {} } = JSON.parse(text);
    const entries: [string, ContainerState][] = Object.entries(containers);
    if (!entries.every(([, state]) => isContainerState(state))) return null;
    const probed: [string, ProbedState][] = Object.entries(probes);
    if (!probed.every(([, state]) => isProbedState(state))) return null;
    const pulled: [string, PulledState][] = Object.entries(pulls);
    if (!pulled.every(([, state]) => isPulledState(state))) return null;
    const given: [string, Grant][] = Object.entries(grants);
    if (!given.every(([, grant]) => isGrant(grant))) return null;
    const refused: [string, Rejection][] = Object.entries(rejections);
    if (!refused.every(([, rejection]) => isRejection(rejection))) return null;
    const resized: [string, Grant['allocation']][] = Object.entries(resizes);
    if (!resized.every(([, allocation]) => isAllocation(allocation))) return null;
    return {
      ...(resized.length === 0 ? {} : { resizes: Object.fromEntries(resized) }),
      ...(given.length === 0 ? {} : { grants: Object.fromEntries(given) }),
      ...(refused.length === 0 ? {} : { rejections: Object.fromEntries(refused) }),
      containers: Object.fromEntries(entries),
      probes: Object.fromEntries(probed),
      ...(pulled.length === 0 ? {} : { pulls: Object.fromEntries(pulled) }),
    };
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

export const saveSoftState: Port<Operations['host.saveSoftState']> = async ({ id, input: { path, state } }) => {
  await replaceFile(path, `${JSON.stringify(state)}\n`, id);
  return null;
};
