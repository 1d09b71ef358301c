/**
 * `allocated_pods_state` and `actuated_pods_state`: the resources of pods that a resize may change, as granted and as
 * the running instances have them, in the kubelet's format. Pure.
 *
 * Invariant: files of a Go kubelet are readable here, and the reverse.
 * Upstream: pkg/kubelet/allocation/state (JSON in JSON, with the checksum of the inner text).
 */
import { isObject } from '../../../kernel/xstate.ts';
import type { ResourceRequirements } from '../api/pod.ts';
import type { Allocation } from '../operations/grants.ts';
import type { SoftState } from '../operations/host.ts';
import { fnv1a32 } from '../spec/hash.ts';
import { decodeJson } from '../values/json-document.ts';
import { CORRUPTED, decoded, sortedEntries } from './checkpoint.ts';
import { WHOLE_POD } from './request.ts';

/** By uid of a pod. */
type Allocations = Readonly<Record<string, Allocation>>;

const ALLOCATED_FILE = 'allocated_pods_state';
const ACTUATED_FILE = 'actuated_pods_state';

/** The files below the root directory of the kubelet: the granted resources, and those of the running instances. */
export const podStatePaths = (rootDir: string): readonly [allocated: string, actuated: string] => [
  `${rootDir}/${ALLOCATED_FILE}`,
  `${rootDir}/${ACTUATED_FILE}`,
];

/** The contents of the files, without pods that have ended. */
export function podStateTexts({
  grants = {},
  resizes = {},
}: SoftState): readonly [allocated: string, actuated: string] {
  const active = Object.entries(grants).filter(([, { ended }]) => ended !== true);
  const allocated = active.map(([uid, { allocation }]) => [uid, allocation] as const);
  const actuated = allocated.map(([uid, allocation]) => [uid, resizes[uid] ?? allocation] as const);
  const running = actuated.map(([uid, allocation]) => [uid, withPodLimits(allocation)] as const);
  return [textOf(Object.fromEntries(allocated)), textOf(Object.fromEntries(running))];
}

/** The resources of the whole pod that limit a container without a limit of its own. */
const SHARED = ['cpu', 'memory'];

/** A running container is recorded with the limits of its pod; else the kubelet finds a resize that is not complete. */
function withPodLimits(allocation: Allocation): Allocation {
  const { limits = {} } = allocation[WHOLE_POD] ?? {};
  const shared = Object.entries(limits).filter(([name]) => SHARED.includes(name));
  if (shared.length === 0) return allocation;
  const containers = Object.entries(allocation).map(([name, each]) => {
    const all = Object.fromEntries(sortedEntries({ ...Object.fromEntries(shared), ...each.limits }));
    return [name, name === WHOLE_POD ? each : { ...each, limits: all }] as const;
  });
  return Object.fromEntries(containers);
}

function textOf(pods: Allocations): string {
  const entries = sortedEntries(pods).map(([uid, { [WHOLE_POD]: whole, ...containers }]) => [
    uid,
    {
      ContainerResources: Object.fromEntries(sortedEntries(containers).map(([name, each]) => [name, inOrder(each)])),
      PodLevelResources: whole === undefined ? null : inOrder(whole),
    },
  ]);
  const data = JSON.stringify(entries.length === 0 ? {} : { entries: Object.fromEntries(entries) });
  return JSON.stringify({ data, checksum: checksum(data) });
}

const inOrder = ({ limits, requests, ...rest }: ResourceRequirements) => ({
  ...(limits === undefined ? {} : { limits }),
  ...(requests === undefined ? {} : { requests }),
  ...rest,
});

const checksum = (data: string): number => fnv1a32(`(string)${data}`);

/**
 * Adds the resources that the files of another kubelet record for pods without a grant in the soft state. Also returns
 * the error of an unreadable file.
 */
export function withPodStates(
  state: SoftState,
  [allocatedText, actuatedText]: readonly (string | null | undefined)[],
): { readonly state: SoftState; readonly error: string } {
  const allocated = read(allocatedText);
  if (typeof allocated === 'string') return { state, error: allocated };
  const unknownPods = Object.entries(allocated).filter(([uid]) => !Object.hasOwn(state.grants ?? {}, uid));
  if (unknownPods.length === 0) return { state, error: '' };
  const actuated = read(actuatedText);
  const error = typeof actuated === 'string' ? actuated : '';
  const running = typeof actuated === 'string' ? {} : actuated;
  const resizes = unknownPods.flatMap(([uid, allocation]) => {
    const current = { ...allocation, ...running[uid] };
    return textOf({ uid: withPodLimits(current) }) === textOf({ uid: withPodLimits(allocation) })
      ? []
      : [[uid, current] as const];
  });
  return {
    state: {
      ...state,
      handedOver: { ...state.handedOver, ...Object.fromEntries(unknownPods) },
      ...(resizes.length === 0 ? {} : { resizes: { ...state.resizes, ...Object.fromEntries(resizes) } }),
    },
    error,
  };
}

/** The resources that a file names, by uid of a pod; or why it cannot be read. */
function read(text: string | null | undefined): Allocations | string {
  if (text == null) return {};
  const found = decoded(text, 'state.Checkpoint');
  if ('error' in found) return found.error;
  const { data, checksum: written } = found.value;
  if (typeof data !== 'string' || written !== checksum(data)) return CORRUPTED;
  const document = decodeJson(data);
  const value = document.error === undefined ? document.value : null;
  const entries = isObject(value) ? (value['entries'] ?? {}) : null;
  if (!isObject(entries)) return CORRUPTED;
  const pods = Object.entries(entries).map(([uid, entry]) => [uid, allocationIn(entry)] as const);
  return Object.fromEntries(pods.flatMap(([uid, allocation]) => (allocation === null ? [] : [[uid, allocation]])));
}

function allocationIn(entry: unknown): Allocation | null {
  const { ContainerResources: containers = null, PodLevelResources: whole = null } = isObject(entry) ? entry : {};
  if (!isObject(containers)) return null;
  const all = { ...(whole === null ? {} : { [WHOLE_POD]: whole }), ...containers };
  return Object.values(all).every(isResources) ? (all as Allocation) : null;
}

const isResources = (value: unknown): value is ResourceRequirements =>
  isObject(value) && isAmounts(value['limits'] ?? {}) && isAmounts(value['requests'] ?? {});

const isAmounts = (value: unknown): boolean =>
  isObject(value) && Object.values(value).every((amount) => typeof amount === 'string');
