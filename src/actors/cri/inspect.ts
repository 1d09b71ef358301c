/** One pod as the runtime has it now: the full status of each sandbox and container, requested in parallel. */
import { steadyNow } from '../../kernel/clock.ts';
import { OperationError } from '../../kernel/json.ts';
import type { ContainerStatus, PodSandboxStatus } from '../../machines/model/api/cri.ts';
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';
import { containerAnnotationKeys } from '../../machines/model/spec/annotations.ts';
import type { CallOptions, RuntimeClient } from './client.ts';
import type { Ids, PodIds } from './pod-ids.ts';
import { POD_UID_LABEL, podRuntimeStatus } from './relist.ts';
import type { OnRuntime } from './seen.ts';

type InspectOptions = CallOptions & {
  readonly observedAtMs: number;
  readonly podIds: PodIds;
  readonly ids?: Ids;
  readonly onSeen?: OnRuntime;
};

async function listIds(client: RuntimeClient, uid: string, options: CallOptions): Promise<Ids> {
  const filter = { label_selector: { [POD_UID_LABEL]: uid } };
  const [{ items }, { containers }] = await Promise.all([
    client.call('ListPodSandbox', { filter }, options),
    client.call('ListContainers', { filter }, options),
  ]);
  return { sandboxIds: items.map(({ id }) => id), containerIds: containers.map(({ id }) => id) };
}

/** What was removed between the list and the inspection is no error. */
async function unlessGone<Status>(status: Promise<{ status?: Status }>): Promise<Status | undefined> {
  try {
    return (await status).status ?? undefined;
  } catch (error) {
    if (error instanceof OperationError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

const present = <Status>(statuses: readonly (Status | undefined)[]): Status[] =>
  statuses.filter((status) => status !== undefined);

/**
 * Inspects one pod. Two lists give its ids, unless `ids` does or `podIds` is certain; `observedAtMs` is when that
 * list, or else this inspection, began.
 */
export async function inspectPod(
  client: RuntimeClient,
  uid: string,
  options: InspectOptions,
): Promise<PodRuntimeStatus> {
  const beganMs = steadyNow();
  try {
    return await statusOf(client, uid, options);
  } finally {
    options.onSeen?.({ kind: 'inspected', durationMs: steadyNow() - beganMs });
  }
}

async function statusOf(client: RuntimeClient, uid: string, options: InspectOptions): Promise<PodRuntimeStatus> {
  const { podIds } = options;
  const { sandboxIds, containerIds } =
    options.ids ?? podIds.of(uid) ?? (await podIds.listing(uid, () => listIds(client, uid, options)));
  const [sandboxes, containers] = await Promise.all([
    Promise.all(
      sandboxIds.map((id) =>
        unlessGone<PodSandboxStatus>(client.call('PodSandboxStatus', { pod_sandbox_id: id }, options)),
      ),
    ),
    Promise.all(
      containerIds.map((id) =>
        unlessGone<ContainerStatus>(client.call('ContainerStatus', { container_id: id }, options)),
      ),
    ),
  ]);
  const [ofSandboxes, ofContainers] = [present(sandboxes), present(containers)];
  const found = new Set([...ofSandboxes, ...ofContainers].map(({ id }) => id));
  podIds.gone(uid, new Set([...sandboxIds, ...containerIds].filter((id) => !found.has(id))));
  return podRuntimeStatus(uid, ofSandboxes, ofContainers.map(withoutPreStop), options.observedAtMs);
}

/** What the hook sends is written in the pod, where its values are handles; here they would be plain. */
function withoutPreStop(status: ContainerStatus): ContainerStatus {
  const { [containerAnnotationKeys.preStopHandler]: hook, ...annotations } = status.annotations;
  return hook === undefined ? status : { ...status, annotations };
}
