/**
 * The RPCs of CRI v1 on top of the runtime: validates requests, and converts records to responses.
 *
 * Decides nothing about the life cycle of containers. Requests that need isolation fail with UNIMPLEMENTED and the
 * reason.
 */
import packageJson from '../../../package.json' with { type: 'json' };
import type * as cri from '../../machines/model/api/cri.ts';
import { nowNanos } from './clock.ts';
import type { Containers, Sandboxes } from './containers.ts';
import { invalid, unimplemented, wrongState } from './errors.ts';
import { checkExec, execStreams, execSync } from './exec.ts';
import type { Stats } from './status.ts';
import * as view from './status.ts';
import type { Images } from './store/images.ts';
import { type Container, findByPrefix, type Store } from './store/store.ts';
import type { CommandStreams, StreamsAsked } from './streaming/command-streams.ts';
import { attachStreams, checkAttach, exitStatus, SUCCESS } from './streaming/command-streams.ts';
import type { StreamServer } from './streaming/stream-server.ts';

export interface RuntimeParts {
  readonly root: string;
  readonly store: Store;
  readonly images: Images;
  readonly containers: Containers;
  readonly sandboxes: Sandboxes;
  readonly stats: Stats;
  readonly streams: StreamServer;
}

/** Every unary method by name. `signal` is aborted when the caller disconnects or the runtime closes. */
export type Methods = Readonly<Record<string, RequestHandler['answer']>>;

/** Declared as a method, so that each implementation may declare the request type that the contract decodes for it. */
interface RequestHandler {
  answer(request: unknown, signal: AbortSignal): unknown;
}

export function runtimeMethods(parts: RuntimeParts): Methods {
  return {
    ...nodeMethods(parts),
    ...sandboxMethods(parts),
    ...containerMethods(parts),
    ...streamMethods(parts),
    ...statsMethods(parts),
  };
}

function nodeMethods({ root }: RuntimeParts): Methods {
  return {
    Version: (): cri.VersionResponse => ({
      version: '0.1.0',
      runtime_name: 'statelet-embedded',
      runtime_version: packageJson.version,
      runtime_api_version: 'v1',
    }),
    Status: ({ verbose }: cri.StatusRequest) => view.runtimeStatus(verbose === true, root),
    RuntimeConfig: (): cri.RuntimeConfigResponse => ({ linux: { cgroup_driver: 'CGROUPFS' } }),
    UpdateRuntimeConfig: () => ({}),
    CheckpointContainer: refuse('CheckpointContainer', 'plain processes cannot be checkpointed'),
    UpdateContainerResources: refuse('UpdateContainerResources', 'plain processes have no limits'),
    UpdatePodSandboxResources: refuse('UpdatePodSandboxResources', 'plain processes have no limits'),
  };
}

/** The methods that return the URL of a stream. Each checks the request first, as containerd does. */
function streamMethods({ store, streams }: RuntimeParts): Methods {
  return {
    Exec: async ({ container_id = '', cmd = [], ...request }: cri.ExecRequest): Promise<cri.ExecResponse> => {
      const container = store.container(container_id);
      checkExec(container, cmd);
      const asked = requestedStreams(request);
      const run = async (client: CommandStreams) =>
        exitStatus(cmd, await execStreams(container, cmd, asked.tty, client));
      return { url: await streams.place({ kind: 'exec', asked, run }) };
    },
    Attach: async ({ container_id = '', ...request }: cri.AttachRequest): Promise<cri.AttachResponse> => {
      const container = store.container(container_id);
      checkAttach(container);
      const run = async (client: CommandStreams) => {
        await attachStreams(container, client);
        return SUCCESS;
      };
      return { url: await streams.place({ kind: 'attach', asked: requestedStreams(request), run }) };
    },
    PortForward: async ({ pod_sandbox_id = '' }: cri.PortForwardRequest): Promise<cri.PortForwardResponse> => {
      const { id, ready } = store.sandbox(pod_sandbox_id);
      if (!ready) throw wrongState(`sandbox container "${id}" is not running`);
      return { url: await streams.place({ kind: 'portforward', sandboxId: id }) };
    },
  };
}

const requestedStreams = ({
  stdin = false,
  stdout = false,
  stderr = false,
  tty = false,
}: Partial<StreamsAsked>): StreamsAsked => {
  if (tty && stderr) throw invalid('tty and stderr cannot both be true');
  if (!stdin && !stdout && !stderr) throw invalid('one of stdin, stdout, or stderr must be set');
  return { stdin, stdout, stderr, tty };
};

function refuse(method: string, why: string): () => never {
  return () => {
    throw unimplemented(`${method} is not possible in the embedded runtime: ${why}`);
  };
}

function sandboxMethods({ store, sandboxes }: RuntimeParts): Methods {
  return {
    RunPodSandbox: ({ config, runtime_handler = '' }: cri.RunPodSandboxRequest): cri.RunPodSandboxResponse => ({
      pod_sandbox_id: sandboxes.run(config, runtime_handler),
    }),
    StopPodSandbox: async ({ pod_sandbox_id = '' }: cri.StopPodSandboxRequest) => {
      const record = findByPrefix(store.sandboxes, pod_sandbox_id);
      if (record) await sandboxes.stop(record);
      return {};
    },
    RemovePodSandbox: async ({ pod_sandbox_id = '' }: cri.RemovePodSandboxRequest) => {
      const record = findByPrefix(store.sandboxes, pod_sandbox_id);
      if (record) await sandboxes.remove(record);
      return {};
    },
    PodSandboxStatus: ({ pod_sandbox_id = '', verbose }: cri.PodSandboxStatusRequest): cri.PodSandboxStatusResponse => {
      const record = store.sandbox(pod_sandbox_id);
      return {
        status: view.sandboxStatus(record),
        info: verbose ? { info: JSON.stringify({ isolation: 'none', logDirectory: record.logDirectory }) } : {},
        containers_statuses: store.containersOf(record.id).map(view.containerStatus),
        timestamp: String(nowNanos()),
      };
    },
    ListPodSandbox: ({ filter }: cri.ListPodSandboxRequest): cri.ListPodSandboxResponse => {
      const only = filter?.id ? findByPrefix(store.sandboxes, filter.id)?.id : undefined;
      if (filter?.id && only === undefined) return { items: [] };
      const items = [...store.sandboxes.values()].map(view.listedSandbox);
      return {
        items: items.filter(
          ({ id, state, labels }) =>
            (only === undefined || id === only) &&
            (!filter?.state || state === filter.state.state) &&
            view.hasLabels(labels, filter?.label_selector),
        ),
      };
    },
  };
}

function containerMethods({ store, containers }: RuntimeParts): Methods {
  return {
    CreateContainer: (request: cri.CreateContainerRequest): cri.CreateContainerResponse => ({
      container_id: containers.create(request).id,
    }),
    StartContainer: async ({ container_id = '' }: cri.StartContainerRequest) => {
      await containers.start(store.container(container_id));
      return {};
    },
    StopContainer: async ({ container_id = '', timeout = '0' }: cri.StopContainerRequest, signal) => {
      const container = findByPrefix(store.containers, container_id);
      if (container) await containers.stop(container, Number(timeout), signal);
      return {};
    },
    RemoveContainer: async ({ container_id = '' }: cri.RemoveContainerRequest) => {
      const container = findByPrefix(store.containers, container_id);
      if (container) await containers.remove(container);
      return {};
    },
    ListContainers: ({ filter }: cri.ListContainersRequest): cri.ListContainersResponse => {
      const state = filter?.state?.state;
      const found = select(store, filter ?? {}).map(view.listedContainer);
      return { containers: found.filter((container) => !state || container.state === state) };
    },
    ContainerStatus: ({ container_id = '', verbose }: cri.ContainerStatusRequest): cri.ContainerStatusResponse => {
      const container = store.container(container_id);
      return { status: view.containerStatus(container), info: verbose ? { info: details(container) } : {} };
    },
    ReopenContainerLog: async ({ container_id = '' }: cri.ReopenContainerLogRequest) => {
      await containers.reopenLog(store.container(container_id));
      return {};
    },
    ExecSync: ({ container_id = '', cmd = [], timeout = '0' }: cri.ExecSyncRequest, signal) =>
      execSync({ container: store.container(container_id), command: cmd, timeoutSeconds: Number(timeout), signal }),
  };
}

function details({ record, process }: Container): string {
  const { command, cwd } = record.process;
  return JSON.stringify({ pid: process?.pid, command, cwd, isolation: 'none', notHonoured: record.ignored });
}

type Selection = Pick<cri.ContainerFilter, 'id' | 'pod_sandbox_id' | 'label_selector'>;

function select(store: Store, { id, pod_sandbox_id, label_selector }: Selection): readonly Container[] {
  const only = id ? findByPrefix(store.containers, id)?.id : undefined;
  const sandbox = pod_sandbox_id ? findByPrefix(store.sandboxes, pod_sandbox_id)?.id : undefined;
  return [...store.containers.values()].filter(
    ({ record }) =>
      (!id || record.id === only) &&
      (!pod_sandbox_id || record.sandboxId === sandbox) &&
      view.hasLabels(record.labels, label_selector),
  );
}

function statsMethods({ store, stats }: RuntimeParts): Methods {
  const ofSandbox = (id: string) => stats.sandbox(store.sandbox(id), store.containersOf(id));
  return {
    ContainerStats: async ({ container_id = '' }: cri.ContainerStatsRequest): Promise<cri.ContainerStatsResponse> => ({
      stats: await stats.container(store.container(container_id)),
    }),
    ListContainerStats: async ({ filter }: cri.ListContainerStatsRequest): Promise<cri.ListContainerStatsResponse> => {
      const running = select(store, filter ?? {}).filter((container) => container.running);
      return { stats: await Promise.all(running.map((container) => stats.container(container))) };
    },
    PodSandboxStats: async ({
      pod_sandbox_id = '',
    }: cri.PodSandboxStatsRequest): Promise<cri.PodSandboxStatsResponse> => ({
      stats: await ofSandbox(store.sandbox(pod_sandbox_id).id),
    }),
    ListPodSandboxStats: async ({
      filter,
    }: cri.ListPodSandboxStatsRequest): Promise<cri.ListPodSandboxStatsResponse> => {
      const only = filter?.id ? (findByPrefix(store.sandboxes, filter.id)?.id ?? '') : undefined;
      const found = [...store.sandboxes.values()].filter(
        ({ id, ready, labels }) =>
          ready && (only === undefined || id === only) && view.hasLabels(labels, filter?.label_selector),
      );
      return { stats: await Promise.all(found.map(({ id }) => ofSandbox(id))) };
    },
    ListMetricDescriptors: (): cri.ListMetricDescriptorsResponse => ({ descriptors: [] }),
    ListPodSandboxMetrics: (): cri.ListPodSandboxMetricsResponse => ({ pod_metrics: [] }),
  };
}

export function imageMethods({ images, stats }: RuntimeParts): Methods {
  return {
    ListImages: ({ filter }: cri.ListImagesRequest): cri.ListImagesResponse => ({
      images: images.list(filter?.image?.image ?? ''),
    }),
    ImageStatus: ({ image, verbose }: cri.ImageStatusRequest): cri.ImageStatusResponse => {
      const found = images.find(image?.image ?? '');
      return { ...(found ? { image: found } : {}), info: verbose && found ? { info: '{"isolation":"none"}' } : {} };
    },
    PullImage: ({ image }: cri.PullImageRequest): cri.PullImageResponse => ({
      image_ref: images.pull(image?.image ?? ''),
    }),
    RemoveImage: ({ image }: cri.RemoveImageRequest) => {
      images.remove(image?.image ?? '');
      return {};
    },
    ImageFsInfo: async (): Promise<cri.ImageFsInfoResponse> => {
      const usage = await stats.filesystem(true);
      return { image_filesystems: [usage], container_filesystems: [usage] };
    },
  };
}
