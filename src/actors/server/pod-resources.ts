/**
 * `server.serveLocal` for pod resources: the machine's resources of each container, for agents that monitor devices.
 *
 * Owns a gRPC server on `<root>/pod-resources/kubelet.sock`. CPUs and memory are reported under the static policies of
 * their managers, devices under their plugins. Questions about pods wait until these are known: an agent must not take
 * an empty list during the start for free resources. Upstream: pkg/kubelet/apis/podresources.
 */

import { chmod, mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import type { PortCall } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import { type Devices, healthyIds } from '../../machines/model/allocation/device-state.ts';
import { allocatableMemory } from '../../machines/model/allocation/memory-state.ts';
import type { Container } from '../../machines/model/api/pod.ts';
import { allOf, type ClaimSettings, containerClaims } from '../../machines/model/dra/claims.ts';
import type { PreparedClaims } from '../../machines/model/dra/messages.ts';
import type { Holding, MemoryBlock } from '../../machines/model/operations/grants.ts';
import type { LocalSocket, ServerItem } from '../../machines/model/operations/server.ts';
import type { NodeSettings } from '../../machines/model/settings/node-settings.ts';
import { cpuIds } from '../../machines/model/values/cpu-set.ts';
import { valueIn } from '../../machines/model/values/tables.ts';
import { Contract } from '../contract.ts';
import { serveSocket } from '../grpc-socket.ts';
import { aborted, pause } from '../pause.ts';
import { TokenBucket } from '../token-bucket.ts';
import type { PodResourcesMethod, PodResourcesMetrics } from './metrics/calls/request-metrics.ts';
import { isWanted, type NodePod, podNamed } from './node-pods.ts';
import type { NodeView } from './node-view.ts';

/** The versions of the API, all on one socket. */
type Version = 'v1' | 'v1alpha1';
/** Upstream's rate limit of all callers together. */
const QPS = 100;
const BURST = 10;
/** The limit of parallel calls of one connection; an agent makes one at a time. Further calls wait in the agent. */
const CALLS_MAX = 4;
const LIMITED = { code: grpc.status.RESOURCE_EXHAUSTED, details: 'rejected by rate limit' };
/** How long a question waits for the pods of all sources. Agents wait ten seconds for an answer. */
const PODS_AWAITED_MS = 5_000;
const PODS_PERIOD_MS = 50;
const OWNER_ONLY = 0o600;
/** The mode that the start gives the folder, which it may be creating at the same time. */
const FOLDER_MODE = 0o750;

interface PodResourcesOptions {
  readonly view: Pick<NodeView, 'pods' | 'allocatableCpus' | 'contexts'>;
  readonly seen: PodResourcesMetrics;
}

interface PodResources {
  readonly name: string;
  readonly namespace: string;
  readonly containers: readonly ({ readonly name: string; readonly cpu_ids: readonly number[] } & Given)[];
}

export async function servePodResources(
  call: PortCall<LocalSocket, ServerItem>,
  options: PodResourcesOptions,
): Promise<null> {
  const { path } = call.input;
  const server = new grpc.Server({ 'grpc.max_concurrent_streams': CALLS_MAX });
  const limit = new TokenBucket(QPS, BURST);
  const gate = { limit, podsKnown: () => podsKnown(options.view, call.signal) };
  server.addService(serviceDefinition('v1'), methods(options, call.input.settings, gate));
  server.addService(serviceDefinition('v1alpha1'), olderMethods(options, gate));
  await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE });
  await rm(path, { force: true });
  const close = await serveSocket(server, path);
  await chmod(path, OWNER_ONLY);
  call.emit({ type: 'server.listening', address: path, port: 0 });
  try {
    await aborted(call.signal);
  } finally {
    close();
    await rm(path, { force: true });
  }
  return null;
}

const serviceDefinition = (version: Version): grpc.ServiceDefinition =>
  new Contract([`podresources/${version}/api.proto`]).service(`${version}.PodResourcesLister`);

/** What a question passes before its answer. */
interface Gate {
  readonly limit: TokenBucket;
  readonly podsKnown: () => Promise<void>;
}

/** The used part of the sync loop's context. */
interface SyncLoopState {
  readonly sources: Readonly<Record<string, readonly string[] | null>>;
}

/** Waits until each source of pods has published, or as long as an agent can wait. */
async function podsKnown(view: View, signal: AbortSignal): Promise<void> {
  const isKnown = (): boolean => {
    const [syncLoop] = view.contexts<SyncLoopState>(SYNC_LOOP);
    return syncLoop !== undefined && !Object.values(syncLoop.sources).includes(null);
  };
  const untilMs = performance.now() + PODS_AWAITED_MS;
  while (!isKnown() && !signal.aborted && performance.now() < untilMs) await pause(PODS_PERIOD_MS, signal);
}

type Unary<Request> = (call: grpc.ServerUnaryCall<Request, unknown>, done: grpc.sendUnaryData<unknown>) => void;

/** A failure is an answer, too. */
const unary =
  <Request>(handle: (...call: Parameters<Unary<Request>>) => Promise<void>): Unary<Request> =>
  (asked, done) =>
    void handle(asked, done);

function methods(
  { view, seen }: PodResourcesOptions,
  { listsEndedPods = false }: LocalSocket['settings'],
  { limit, podsKnown }: Gate,
): grpc.UntypedServiceImplementation {
  const limited = <Request>(method: PodResourcesMethod, answer: (request: Request) => object): Unary<Request> =>
    unary(async (asked, done) => {
      if (!limit.takeNow()) return done(LIMITED);
      seen.asked(method);
      try {
        if (method !== 'GetAllocatableResources') await podsKnown();
        done(null, answer(asked.request));
      } catch (error) {
        seen.failed(method);
        done({ code: grpc.status.UNKNOWN, details: messageOf(error) });
      }
    });
  const isListed = (each: NodePod): boolean => isWanted(each) && (listsEndedPods || isActive(each));
  const inView = (pod: NodePod): PodResources => resourcesOf(view, pod);
  return {
    List: limited('List', () => ({ pod_resources: view.pods().filter(isListed).map(inView) })),
    GetAllocatableResources: limited('GetAllocatableResources', () => ({
      ...allocatable(view),
      cpu_ids: view.allocatableCpus(),
    })),
    Get: limited('Get', ({ pod_name, pod_namespace }: { pod_name: string; pod_namespace: string }) => {
      const found = podNamed(view.pods(), pod_namespace, pod_name);
      if (!found || !isActive(found)) throw new Error(`pod ${pod_name} in namespace ${pod_namespace} not found`);
      return { pod_resources: inView(found) };
    }),
  };
}

/** The methods of v1alpha1, which lists only devices of containers, and ended pods as well. */
function olderMethods(
  { view, seen }: PodResourcesOptions,
  { limit, podsKnown }: Gate,
): grpc.UntypedServiceImplementation {
  const inView = ({ uid, name, namespace, pod }: NodePod): object => ({
    name,
    namespace,
    containers: (pod?.spec.containers ?? []).map((each) => ({
      name: each.name,
      devices: givenTo(view, uid, each.name).devices,
    })),
  });
  const list = unary<object>(async (_, done) => {
    if (!limit.takeNow()) return done(LIMITED);
    seen.askedOlder();
    try {
      await podsKnown();
      done(null, { pod_resources: view.pods().filter(isWanted).map(inView) });
    } catch (error) {
      done({ code: grpc.status.UNKNOWN, details: messageOf(error) });
    }
  });
  return { List: list };
}

/** Whether the pod can hold resources: ended pods hold none. */
const isActive = ({ status }: NodePod): boolean => status?.phase !== 'Succeeded' && status?.phase !== 'Failed';

function resourcesOf(
  view: PodResourcesOptions['view'],
  { uid, name, namespace, pod, exclusiveCpus = {}, prepared = {} }: NodePod,
): PodResources {
  const sidecars = (pod?.spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always');
  const containers = [...sidecars, ...(pod?.spec.containers ?? [])].map((each) => ({
    name: each.name,
    cpu_ids: cpuIds(valueIn(exclusiveCpus, each.name) ?? ''),
    ...givenTo(view, uid, each.name),
    ...dynamicResources(pod, each, prepared, allocationState(view)?.settings ?? {}),
  }));
  return { name, namespace, containers };
}

/** Prepared claims of a container; absent if there are none. */
function dynamicResources(
  pod: NodePod['pod'],
  container: Container,
  prepared: PreparedClaims,
  settings: ClaimSettings,
): { readonly dynamic_resources?: readonly object[] } {
  const claims = pod === null ? {} : containerClaims(pod, container, settings, prepared);
  const resources = Object.entries(claims).map(([claim_name, devices]) => ({
    claim_name,
    claim_namespace: pod?.metadata.namespace ?? '',
    claim_resources: allOf(devices).map(([driver_name, { pool, device, share, cdi }]) => ({
      cdi_devices: cdi.map((name) => ({ name })),
      driver_name,
      pool_name: pool,
      device_name: device,
      ...(share === null ? {} : { share_id: share }),
    })),
  }));
  return resources.length === 0 ? {} : { dynamic_resources: resources };
}

const ALLOCATION = 'kubelet/allocation';
const SYNC_LOOP = 'kubelet/syncLoop';

/** The used part of the allocation manager's context. */
interface AllocationState {
  readonly settings: NodeSettings;
  readonly grants: Readonly<Record<string, Holding>>;
  readonly devices: Devices;
}

interface NumaTopology {
  readonly nodes: readonly { readonly ID: number }[];
}

interface GivenDevice {
  readonly resource_name: string;
  readonly device_ids: readonly string[];
  readonly topology: NumaTopology | null;
}

interface GivenMemory {
  readonly memory_type: string;
  readonly size: string;
  readonly topology: NumaTopology;
}

/** The resources that single containers hold exclusively, for agents that monitor devices. */
interface Given {
  readonly devices: readonly GivenDevice[];
  readonly memory: readonly GivenMemory[];
}

type View = Pick<NodeView, 'contexts'>;

const allocationState = (view: View): AllocationState | undefined => view.contexts<AllocationState>(ALLOCATION)[0];

const topologyOf = (nodes: readonly number[]): NumaTopology => ({ nodes: nodes.map((ID) => ({ ID })) });

const memoryOf = ({ type, size, numaAffinity }: MemoryBlock): GivenMemory => ({
  memory_type: type,
  size,
  topology: topologyOf(numaAffinity),
});

/** One entry for each NUMA node of a device, as upstream; one without topology for a device that has none. */
function entriesOf(resource_name: string, id: string, nodes: readonly number[] | null): readonly GivenDevice[] {
  const topologies = nodes === null ? [null] : nodes.map((node) => topologyOf([node]));
  return topologies.map((topology) => ({ resource_name, device_ids: [id], topology }));
}

function devicesOf(holding: Holding, container: string): readonly GivenDevice[] {
  return Object.entries(valueIn(holding.devices, container) ?? {}).flatMap(([resource, { nodes }]) => {
    const byDevice = new Map<string, number[]>();
    for (const [node, ids] of Object.entries(nodes)) {
      for (const id of ids) byDevice.set(id, [...(byDevice.get(id) ?? []), Number(node)]);
    }
    return [...byDevice].flatMap(([id, all]) => {
      const known = all.filter((node) => node >= 0).toSorted((a, b) => a - b);
      return entriesOf(resource, id, known.length === 0 ? null : known);
    });
  });
}

/** The resources of a container of a pod. */
function givenTo(view: View, uid: string, container: string): Given {
  const holding = allocationState(view)?.grants[uid] ?? {};
  return { devices: devicesOf(holding, container), memory: (valueIn(holding.memory, container) ?? []).map(memoryOf) };
}

/** The resources that containers may have. */
function allocatable(view: View): Given {
  const state = allocationState(view);
  const manager = state?.settings.admission?.memoryManager;
  const devices = Object.entries(state?.devices ?? {}).flatMap(([resource, offer]) => {
    const healthy = new Set(healthyIds(offer));
    const free = offer.devices.filter(({ id }) => healthy.has(id));
    return free.flatMap(({ id, nodes }) => entriesOf(resource, id, nodes));
  });
  return { devices, memory: manager === undefined ? [] : allocatableMemory(manager).map(memoryOf) };
}
