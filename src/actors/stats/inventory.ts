/**
 * The running pods according to the runtime: names for cgroups, and statistics that only the runtime has.
 *
 * Invariant: missing answers of the runtime are treated as unknown; statistics never fail because of one missing part.
 */
import type { ContainerStats, FilesystemUsage } from '../../machines/model/api/cri.ts';
import type { RuntimeClient } from '../cri/client.ts';

export type RuntimeCall = RuntimeClient['call'];

/** Statistics that take longer are useless to the client. */
const TIMEOUT_MS = 10_000;
const NANOS_PER_MILLI = 1_000_000n;

export interface RunningContainer {
  readonly id: string;
  readonly name: string;
  /** As the runtime names its image: by id, by digest, or as the pod does. */
  readonly imageIds: readonly string[];
  readonly createdAtMs: number;
  readonly stats: ContainerStats | null;
}

export interface RunningPod {
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  readonly sandboxId: string;
  readonly createdAtMs: number;
  readonly containers: readonly RunningContainer[];
}

export interface RuntimeFileSystems {
  readonly imageFs: FilesystemUsage | null;
  /** The file system of the containers' writable layers; that of images when the runtime does not report it. */
  readonly containerFs: FilesystemUsage | null;
}

export interface Inventory extends RuntimeFileSystems {
  readonly pods: readonly RunningPod[];
}

export const millis = (nanos: string): number => Number(BigInt(nanos) / NANOS_PER_MILLI);

const optionsWith = (signal?: AbortSignal) => ({ timeoutMs: TIMEOUT_MS, ...(signal ? { signal } : {}) });

/** Rejects if the runtime does not answer: callers that decide by it must notice. */
export async function runtimeFileSystems(call: RuntimeCall, signal?: AbortSignal): Promise<RuntimeFileSystems> {
  const info = await call('ImageFsInfo', {}, optionsWith(signal));
  const imageFs = info.image_filesystems[0] ?? null;
  return { imageFs, containerFs: info.container_filesystems[0] ?? imageFs };
}

export async function inventory(call: RuntimeCall, signal?: AbortSignal): Promise<Inventory> {
  const options = optionsWith(signal);
  const [sandboxes, containers, stats, fileSystems] = await Promise.all([
    call('ListPodSandbox', { filter: { state: { state: 'SANDBOX_READY' } } }, options).then(({ items }) => items),
    call('ListContainers', { filter: { state: { state: 'CONTAINER_RUNNING' } } }, options).then(
      (all) => all.containers,
    ),
    call('ListContainerStats', {}, options).then(
      (all) => all.stats,
      () => [],
    ),
    runtimeFileSystems(call, signal).catch(() => ({ imageFs: null, containerFs: null })),
  ]);
  const statsById = new Map(stats.map((each) => [each.attributes?.id ?? '', each]));
  const bySandbox = Map.groupBy(containers, ({ pod_sandbox_id: id }) => id);
  const pods = sandboxes.map(
    ({ id, metadata, created_at }): RunningPod => ({
      uid: metadata?.uid ?? '',
      name: metadata?.name ?? '',
      namespace: metadata?.namespace ?? '',
      sandboxId: id,
      createdAtMs: millis(created_at),
      containers: (bySandbox.get(id) ?? []).map((container) => ({
        id: container.id,
        name: container.metadata?.name ?? '',
        imageIds: [container.image?.image, container.image_id, container.image_ref].flatMap((id) => (id ? [id] : [])),
        createdAtMs: millis(container.created_at),
        stats: statsById.get(container.id) ?? null,
      })),
    }),
  );
  return { pods, ...fileSystems };
}

/** By container of one pod, the bytes of its writable layer. */
export async function podLayers(call: RuntimeCall, uid: string, signal: AbortSignal): Promise<Map<string, bigint>> {
  const filter = { label_selector: { 'io.kubernetes.pod.uid': uid } };
  const { stats } = await call('ListContainerStats', { filter }, { timeoutMs: TIMEOUT_MS, signal });
  return new Map(
    stats.map((each) => [each.attributes?.metadata?.name ?? '', BigInt(each.writable_layer?.used_bytes?.value ?? '0')]),
  );
}
