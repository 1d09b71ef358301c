/**
 * Assigns devices of plugins to containers. Pure.
 *
 * Upstream: devicemanager/manager.go (devicesToAllocate) and topology_hints.go. Invariants: no device is given to two
 * pods; an unhealthy device is never allocated; devices of an ended init container are reused by later containers.
 */

import type { Device, DeviceQuestion, DeviceResponse } from '../operations/devices.ts';
import type { DeviceHolding, DeviceHoldings, NumaSet } from '../operations/grants.ts';
import { valueIn } from '../values/tables.ts';
import { type DeviceResource, type Devices, healthyIds, heldIds, holdingOf, idsOf } from './device-state.ts';
import type { Rejection } from './request.ts';
import { type NumaHint, type ProviderHints, subsetsOf } from './topology-manager.ts';

/** Answers of plugins, by question as JSON. */
export type DeviceAnswers = Readonly<Record<string, readonly string[]>>;

/** The devices of a pod so far, while its containers are assigned one after the other. */
export interface DeviceProgress {
  readonly given: DeviceHoldings;
  /** By resource, devices of init containers that have ended and that no later container got. */
  readonly reusable: Readonly<Record<string, readonly string[]>>;
}

export type DeviceStep = DeviceProgress | { readonly rejection: Rejection } | { readonly question: DeviceQuestion };

/** The devices of the node while one pod is evaluated. */
export interface DeviceInventory {
  readonly devices: Devices;
  readonly others: readonly DeviceHoldings[];
  readonly answers: DeviceAnswers;
  readonly nodes: NumaSet;
  /** Hints are about all NUMA nodes of the machine, as on a node of an earlier version. */
  readonly hintsOnAllNodes?: boolean;
}

export const unexpected = (error: string): Rejection => ({
  reason: 'UnexpectedAdmissionError',
  message: `Allocate failed due to ${error}, which is unexpected`,
});

const noHealthyDevices = (resource: string): string =>
  `no healthy devices present; cannot allocate unhealthy devices ${resource}`;

const failed = (error: string): { readonly rejection: Rejection } => ({ rejection: unexpected(error) });

interface DeviceRequest {
  readonly container: string;
  readonly isInit: boolean;
  readonly devices: Readonly<Record<string, number>>;
}

/** True for resources of device plugins; other resources are accounted for elsewhere. */
const isOfPlugin = ({ devices, others }: DeviceInventory, resource: string): boolean =>
  devices[resource] !== undefined || heldIds(others, resource).length > 0;

/** For a resource whose plugin is gone. */
const NO_OFFER: DeviceResource = { devices: [], prefers: false };

/** Devices for one container, or the request that a plugin has to answer first. */
export function allocateDevices(
  inventory: DeviceInventory,
  progress: DeviceProgress,
  { container, isInit, devices }: DeviceRequest,
  hint: NumaHint,
): DeviceStep {
  let { reusable } = progress;
  const holdings: Record<string, ReturnType<typeof holdingOf>> = {};
  for (const [resource, count] of Object.entries(devices)) {
    if (count === 0 || !isOfPlugin(inventory, resource)) continue;
    const before = reusable[resource] ?? [];
    const answer = choose(inventory, progress, { resource, count, before, hint });
    if (!('ids' in answer)) return answer;
    holdings[resource] = holdingOf(answer.ids, inventory.devices[resource] ?? NO_OFFER);
    const chosen = new Set(answer.ids);
    const unused = before.filter((id) => !chosen.has(id));
    reusable = { ...reusable, [resource]: isInit ? [...unused, ...answer.ids] : unused };
  }
  if (Object.keys(holdings).length === 0) return progress;
  return { given: { ...progress.given, [container]: holdings }, reusable };
}

interface Choice {
  readonly resource: string;
  readonly count: number;
  readonly before: readonly string[];
  readonly hint: NumaHint;
}

type Chosen =
  | { readonly ids: readonly string[] }
  | { readonly rejection: Rejection }
  | { readonly question: DeviceQuestion };

function choose(inventory: DeviceInventory, { given }: DeviceProgress, choice: Choice): Chosen {
  const { resource, count, before } = choice;
  const offer = inventory.devices[resource];
  if (offer === undefined) return failed(`cannot allocate unregistered device ${resource}`);
  const healthy = healthyIds(offer);
  if (healthy.length === 0) {
    return failed(noHealthyDevices(resource));
  }
  const again = before.slice(0, count);
  if (again.length === count) return { ids: again };
  const inUse = new Set(heldIds([...inventory.others, given], resource));
  const available = healthy.filter((id) => !inUse.has(id)).toSorted();
  const needed = count - again.length;
  if (available.length < needed) {
    const amounts = `Requested: ${needed}, Available: ${available.length}`;
    return failed(`requested number of devices unavailable for ${resource}. ${amounts}`);
  }
  return chooseOf(inventory, offer, choice, { again, available });
}

/** Devices of the wanted nodes first; a plugin with preferences is asked whenever there is a choice. */
function chooseOf(
  { answers }: DeviceInventory,
  offer: DeviceResource,
  { resource, count, hint }: Choice,
  { again, available }: { readonly again: readonly string[]; readonly available: readonly string[] },
): Chosen {
  const [aligned, unaligned, elsewhere] = byAffinity(offer, available, hint);
  const needed = count - again.length;
  const isChoice = needed < aligned.length;
  const taken = isChoice ? again : [...again, ...aligned.slice(0, needed)];
  if (taken.length === count) return { ids: taken.toSorted() };
  const pool = isChoice ? aligned : available;
  const all = [...new Set([...pool, ...taken])].toSorted();
  const question = { resource, available: all, mustInclude: taken.toSorted(), size: count };
  const preferred = offer.prefers ? answers[JSON.stringify(question)] : [];
  if (preferred === undefined) return { question };
  const inPool = new Set(pool);
  const usable = preferred.filter((id) => inPool.has(id));
  const order = isChoice ? aligned : [...unaligned, ...elsewhere];
  return { ids: [...new Set([...taken, ...usable, ...order])].slice(0, count).toSorted() };
}

/** Devices of the wanted NUMA nodes, of other nodes, of no node. */
function byAffinity(
  { devices }: DeviceResource,
  available: readonly string[],
  { nodes }: NumaHint,
): readonly [readonly string[], readonly string[], readonly string[]] {
  if (nodes === null || devices.every((device) => device.nodes === null)) return [[], [], available];
  const nodesOf = new Map(devices.map((device) => [device.id, device.nodes ?? []]));
  const isOf = (id: string): boolean => nodesOf.get(id)?.some((node) => nodes.includes(node)) === true;
  const hasNode = (id: string): boolean => (nodesOf.get(id) ?? []).length > 0;
  return [
    available.filter(isOf),
    available.filter((id) => hasNode(id) && !isOf(id)),
    available.filter((id) => !hasNode(id)),
  ];
}

/** The sets of NUMA nodes that have enough devices, by resource. */
export function deviceHints(
  inventory: DeviceInventory,
  { given, reusable }: DeviceProgress,
  devices: Readonly<Record<string, number>>,
): ProviderHints {
  const requests = Object.entries(devices).filter(([name, count]) => count > 0 && isOfPlugin(inventory, name));
  return Object.fromEntries(
    requests.map(([resource, count]) => {
      const offer = inventory.devices[resource] ?? NO_OFFER;
      const inUse = new Set(heldIds([...inventory.others, given], resource));
      const free = healthyIds(offer).filter((id) => !inUse.has(id));
      return [resource, hintsOf(inventory, offer, { free, again: reusable[resource] ?? [], count })];
    }),
  );
}

interface Supply {
  readonly free: readonly string[];
  readonly again: readonly string[];
  readonly count: number;
}

/** The nodes of the machine that have devices of a resource: hints name no others. */
function nodesWith(devices: readonly Device[], { nodes, hintsOnAllNodes }: DeviceInventory): NumaSet {
  const having = nodes.filter((node) => devices.some((device) => device.nodes?.includes(node)));
  return having.length === 0 || hintsOnAllNodes === true ? nodes : having;
}

/** Whether a plugin says of no device where it is. */
const isAnywhere = (devices: readonly Device[], { hintsOnAllNodes }: DeviceInventory): boolean =>
  devices.every(({ nodes }) => nodes === null || (nodes.length === 0 && hintsOnAllNodes !== true));

function hintsOf(inventory: DeviceInventory, { devices }: DeviceResource, { free, again, count }: Supply) {
  if (isAnywhere(devices, inventory)) return null;
  if (free.length + again.length < count) return [];
  const of = new Map(devices.map(({ id, nodes }) => [id, nodes]));
  const isIn = (id: string, set: NumaSet): boolean => (of.get(id) ?? []).some((node) => set.includes(node));
  const countIn = (ids: readonly string[], set: NumaSet): number => ids.filter((id) => isIn(id, set)).length;
  const placed = again.filter((id) => (of.get(id) ?? null) !== null);
  const ids = devices.map(({ id }) => id);
  const all = nodesWith(devices, inventory);
  const sets = subsetsOf(all);
  const fewest = sets.find((set) => countIn(ids, set) >= count)?.length ?? all.length;
  return sets
    .filter((set) => countIn(placed, set) === placed.length)
    .filter((set) => placed.length + countIn(free, set) >= count)
    .map((set): NumaHint => ({ nodes: set, preferred: set.length === fewest }));
}

/** Adds a plugin's answer to the earlier ones. */
export const withAnswer = (
  answers: DeviceAnswers,
  question: DeviceQuestion,
  ids: readonly string[],
): DeviceAnswers => ({
  ...answers,
  [JSON.stringify(question)]: ids,
});

/** The rejection of a pod whose devices are not offered now, or are unhealthy; `null` if it can start with them. */
export function unusableDevices(holdings: DeviceHoldings, devices: Devices): Rejection | null {
  for (const [resource, holding] of Object.values(holdings).flatMap((resources) => Object.entries(resources))) {
    const healthy = new Set(healthyIds(valueIn(devices, resource) ?? NO_OFFER));
    if (healthy.size === 0) return unexpected(noHealthyDevices(resource));
    if (idsOf(holding).some((id) => !healthy.has(id))) {
      const what = 'previously allocated devices are no longer healthy';
      return unexpected(`${what}; cannot allocate unhealthy devices ${resource}`);
    }
  }
  return null;
}

/** Containers and resources whose devices are chosen, but not yet allocated by their plugin. */
export const callsWithoutAnswer = (holdings: DeviceHoldings) =>
  Object.entries(holdings).flatMap(([container, resources]) =>
    Object.entries(resources).flatMap(([resource, holding]) =>
      holding.response === null ? [{ container, resource, ids: idsOf(holding) }] : [],
    ),
  );

export function withResponses<Held extends { readonly devices?: DeviceHoldings }>(
  holding: Held,
  answers: readonly { readonly container: string; readonly resource: string; readonly response: DeviceResponse }[],
): Held {
  const devices: Record<string, Record<string, DeviceHolding>> = {};
  for (const [container, resources] of Object.entries(holding.devices ?? {})) devices[container] = { ...resources };
  for (const { container, resource, response } of answers) {
    const holdings = valueIn(devices, container);
    const before = holdings?.[resource];
    if (holdings !== undefined && before !== undefined) holdings[resource] = { ...before, response };
  }
  return { ...holding, devices };
}
