/**
 * `cpu_manager_state`: the exclusive CPUs of containers in the kubelet's format, derived from the grants of
 * `allocation`. Pure. Upstream: cpumanager/state/checkpoint.go (form 2) and policy_static.go (validateState).
 */

import { isObject } from '../../../kernel/xstate.ts';
import type { ExclusiveCpus } from '../operations/grants.ts';
import type { CpuManagerSettings } from '../settings/node-settings.ts';
import { cpuIds, formatCpuSet, parseCpuSet } from '../values/cpu-set.ts';
import { quote } from '../values/go-text.ts';
import { CORRUPTED, checksumOf, decoded, goField, goMap, goStruct, sortedEntries } from './checkpoint.ts';

/** Kubelets since 1.36 print the type with its number, and read the older name as well. */
const TYPE = 'state.CPUManagerCheckpoint';
const NUMBERED_TYPE = 'state.CPUManagerCheckpointV2';
/** The oldest format, which is tried last. */
const OLDEST_TYPE = 'state.CPUManagerCheckpointV1';

export interface CpuState {
  readonly policy: string;
  /** The shared CPUs: `0-3`. */
  readonly shared: string;
  /** Exclusive CPUs by pod uid. */
  readonly entries: Readonly<Record<string, ExclusiveCpus>>;
}

const checksum = ({ policy, shared, entries }: CpuState, type = TYPE): number =>
  checksumOf(
    type,
    goStruct(
      goField('PolicyName', 'string', policy),
      goField('DefaultCPUSet', 'string', shared),
      goField(
        'Entries',
        'map[string]map[string]string',
        goMap(sortedEntries(entries).map(([uid, cpus]) => [uid, goMap(sortedEntries(cpus))])),
      ),
      goField('Checksum', 'checksum.Checksum', '0'),
    ),
  );

export function cpuStateText(state: CpuState): string {
  const entries = Object.fromEntries(
    sortedEntries(state.entries).map(([uid, cpus]) => [uid, Object.fromEntries(sortedEntries(cpus))]),
  );
  return JSON.stringify({
    policyName: state.policy,
    defaultCpuSet: state.shared,
    ...(Object.keys(entries).length === 0 ? {} : { entries }),
    checksum: checksum(state),
  });
}

export interface CpuStateProblem {
  /** Empty without an error. */
  readonly error: string;
  /** False for a readable file of a machine with other CPUs. */
  readonly isOfMachine: boolean;
}

/** Why an existing file keeps the node from starting. */
export function cpuStateProblem(
  text: string,
  policy: string,
  manager: CpuManagerSettings | undefined,
): CpuStateProblem {
  const state = read(text, policy);
  if (typeof state === 'string') return { error: state, isOfMachine: false };
  const isEmpty = manager === undefined || state.shared === '';
  return { error: isEmpty ? '' : mismatch(state, manager), isOfMachine: true };
}

/** The content of the file, or why it cannot be used. */
function read(text: string, policy: string): CpuState | string {
  const found = decoded(text, OLDEST_TYPE);
  if ('error' in found) return found.error;
  const state = stateOf(found.value);
  if (state === null) return CORRUPTED;
  const hasValidChecksum = [0, checksum(state), checksum(state, NUMBERED_TYPE)].includes(
    Number(found.value['checksum'] ?? 0),
  );
  if (!hasValidChecksum) return CORRUPTED;
  if (state.policy !== policy) {
    return `configured policy ${JSON.stringify(policy)} differs from state checkpoint policy ${JSON.stringify(state.policy)}`;
  }
  return unparsed(state) ?? state;
}

/** The exclusive CPUs that the file names, by pod uid. */
export function cpuEntries(text: string, policy: string): CpuState['entries'] {
  const state = read(text, policy);
  return typeof state === 'string' ? {} : state.entries;
}

/** Upstream's error about the first list of CPUs that cannot be parsed. */
function unparsed({ shared, entries }: CpuState): string | null {
  const lists = [
    [shared, 'default cpu set', ''] as const,
    ...sortedEntries(entries).flatMap(([uid, cpus]) =>
      sortedEntries(cpus).map(
        ([name, list]) => [list, 'cpuset', ` for container ${quote(name)} in pod ${quote(uid)}`] as const,
      ),
    ),
  ];
  for (const [list, what, where] of lists) {
    const { error } = parseCpuSet(list);
    if (error !== undefined) return `could not parse ${what} ${quote(list)}${where}: ${error}`;
  }
  return null;
}

/** Upstream's error about a file of a machine with other CPUs, or with another reservation. */
function mismatch({ shared, entries }: CpuState, { cpus, reserved, isReservationStrict }: CpuManagerSettings): string {
  const common = cpuIds(shared);
  const missing = reserved.some((id) => !common.includes(id));
  const names = `reserved cpus: "${formatCpuSet(reserved)}"`;
  if (missing && !isReservationStrict) return `not all ${names} are present in defaultCpuSet: "${shared}"`;
  if (isReservationStrict && reserved.some((id) => common.includes(id))) {
    return `some of strictly ${names} are present in defaultCpuSet: "${shared}"`;
  }
  const assigned = Object.values(entries).flatMap((each) => Object.values(each).flatMap(cpuIds));
  const known = formatCpuSet(
    [...new Set([...common, ...assigned, ...(isReservationStrict ? reserved : [])])].toSorted((a, b) => a - b),
  );
  const available = formatCpuSet(cpus.map(({ id }) => id));
  return known === available
    ? ''
    : `current set of available CPUs "${available}" doesn't match with CPUs in state "${known}"`;
}

/** Field names are case-insensitive, as in Go. */
function stateOf(value: Readonly<Record<string, unknown>>): CpuState | null {
  const field = (name: string): unknown => Object.entries(value).find(([key]) => key.toLowerCase() === name)?.[1];
  const [policy, shared, entries] = [field('policyname') ?? '', field('defaultcpuset') ?? '', field('entries') ?? {}];
  if (typeof policy !== 'string' || typeof shared !== 'string' || !isEntries(entries)) return null;
  return { policy, shared, entries };
}

const isEntries = (value: unknown): value is CpuState['entries'] =>
  isObject(value) &&
  Object.values(value).every((cpus) => isObject(cpus) && Object.values(cpus).every((text) => typeof text === 'string'));
