/** Gauges of pods and their containers. */

import { readdirSync, type Stats, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isStaticPod } from '../../../../machines/model/api/pod.ts';
import { isWanted, type NodePod } from '../../node-pods.ts';
import { type Family, gaugeOf, one, type Sample } from '../instruments.ts';

const conditionOf = (status: NodePod['status'], wanted: string) =>
  status?.conditions?.find(({ type, status: value }) => type === wanted && value === 'True');

/** The room on the disk of the files in the log folder of each container that runs. */
function logSizes(pods: readonly NodePod[]): Family {
  const samples = pods.flatMap(({ uid, namespace, name, runtime }) => {
    const folders = new Map(
      (runtime?.containers ?? [])
        .filter(({ state }) => state === 'CONTAINER_RUNNING')
        .map((each) => [each.metadata?.name ?? '', dirname(each.log_path)]),
    );
    return [...folders].map(([container, folder]) =>
      one(bytesBelow(folder, blockBytes), { container, namespace, pod: name, uid }),
    );
  });
  return gaugeOf(
    'kubelet_container_log_filesystem_used_bytes',
    "[ALPHA] Bytes used by the container's logs on the filesystem.",
    samples,
  );
}

const isSandboxed = ({ runtime }: NodePod): boolean =>
  runtime?.sandboxes.some(({ state }) => state === 'SANDBOX_READY') === true;

/** `mirrorPods`: their number in the API server. */
export const podGauges = (pods: readonly NodePod[], mirrorPods: number): Family[] => [
  ...wantedGauges(pods),
  mirrorGauge(mirrorPods),
  ...resizeGauges(pods),
  ...runningGauges(pods),
];

function wantedGauges(pods: readonly NodePod[]): Family[] {
  const desiredPods = pods.filter(isWanted);
  const byStatic = (known: readonly NodePod[]) =>
    ([true, false] as const).map((isStatic) =>
      one(known.filter(({ pod }) => pod !== null && isStaticPod(pod) === isStatic).length, {
        static: isStatic ? 'true' : '',
      }),
    );
  return [
    gaugeOf(
      'kubelet_desired_pods',
      '[ALPHA] The number of pods the kubelet is being instructed to run. static is true if the pod is not from the apiserver.',
      byStatic(desiredPods),
    ),
    gaugeOf(
      'kubelet_active_pods',
      '[ALPHA] The number of pods the kubelet considers active and which are being considered when admitting new pods. static is true if the pod is not from the apiserver.',
      byStatic(desiredPods.filter((known) => lifecycleOf(known) !== 'terminated')),
    ),
    gaugeOf(
      'kubelet_managed_ephemeral_containers',
      '[ALPHA] Current number of ephemeral containers in pods managed by this kubelet.',
      [one(desiredPods.reduce((sum, { pod }) => sum + (pod.spec.ephemeralContainers?.length ?? 0), 0))],
    ),
  ];
}

const mirrorGauge = (mirrorPods: number): Family =>
  gaugeOf(
    'kubelet_mirror_pods',
    '[ALPHA] The number of mirror pods the kubelet will try to create (one per admitted static pod)',
    [one(mirrorPods)],
  );

function resizeGauges(pods: readonly NodePod[]): Family[] {
  const pending = Object.groupBy(
    pods.flatMap(({ status }) => conditionOf(status, 'PodResizePending')?.reason ?? []),
    (reason) => reason.toLowerCase(),
  );
  return [
    gaugeOf('kubelet_pod_in_progress_resizes', '[ALPHA] Number of in-progress resizes for pods.', [
      one(pods.filter(({ status }) => conditionOf(status, 'PodResizeInProgress')).length),
    ]),
    gaugeOf(
      'kubelet_pod_pending_resizes',
      '[ALPHA] Number of pending resizes for pods.',
      Object.entries(pending).map(([reason, all = []]) => one(all.length, { reason })),
    ),
  ];
}

function runningGauges(pods: readonly NodePod[]): Family[] {
  const states = Object.entries(
    Object.groupBy(
      pods.flatMap(({ runtime }) => runtime?.containers ?? []),
      ({ state }) => state.replace('CONTAINER_', '').toLowerCase(),
    ),
  );
  return [
    logSizes(pods),
    gaugeOf('kubelet_running_pods', '[ALPHA] Number of pods that have a running pod sandbox', [
      one(pods.filter(isSandboxed).length),
    ]),
    gaugeOf(
      'kubelet_running_containers',
      '[ALPHA] Number of containers currently running',
      states.map(([container_state, all = []]) => one(all.length, { container_state })),
    ),
    gaugeOf(
      'kubelet_working_pods',
      '[ALPHA] Number of pods the kubelet is actually running, broken down by lifecycle phase, whether the pod is desired, orphaned, or runtime only (also orphaned), and whether the pod is static. An orphaned pod has been removed from local configuration or force deleted in the API and consumes resources that are not otherwise visible.',
      working(pods),
    ),
  ];
}

/** The source of a pod, and whether it is static: `unknown` if only the runtime knows the pod. */
const ORIGINS = [
  { config: 'desired', static: '' },
  { config: 'desired', static: 'true' },
  { config: 'orphan', static: '' },
  { config: 'orphan', static: 'true' },
  { config: 'runtime_only', static: 'unknown' },
] as const;

/**
 * The counts of pods for every possible combination of labels, even if the count is 0. As in the kubelet, without
 * rejected pods.
 */
function working(pods: readonly NodePod[]): Sample[] {
  const workedFor = pods.filter(({ ending }) => ending?.isRejected !== true);
  const counts = Object.groupBy(workedFor, (pod) => JSON.stringify(labelsOf(pod)));
  return (['sync', 'terminating', 'terminated'] as const).flatMap((lifecycle) =>
    ORIGINS.map((origin) => {
      const labels = { config: origin.config, lifecycle, static: origin.static };
      return one(counts[JSON.stringify(labels)]?.length ?? 0, labels);
    }),
  );
}

/** A pod that has completed or failed is ending, as in the kubelet, until its sandbox has stopped. */
function lifecycleOf(known: NodePod): 'sync' | 'terminating' | 'terminated' {
  const { ending, status } = known;
  if (ending !== undefined) return ending.isStopped ? 'terminated' : 'terminating';
  if (status?.phase !== 'Succeeded' && status?.phase !== 'Failed') return 'sync';
  return isSandboxed(known) ? 'terminating' : 'terminated';
}

function labelsOf(known: NodePod) {
  const { pod, ending } = known;
  const lifecycle = lifecycleOf(known);
  if (pod === null) return { config: 'runtime_only', lifecycle, static: 'unknown' };
  return { config: ending?.isOrphan ? 'orphan' : 'desired', lifecycle, static: isStaticPod(pod) ? 'true' : '' };
}

/** Bytes of all files below a folder; files removed in the meantime are ignored. */
export function bytesBelow(directory: string, sizeOf: (file: Stats) => number = ({ size }) => size): number {
  try {
    return readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => statSync(join(parentPath, name), { throwIfNoEntry: false }))
      .reduce((sum, file) => sum + (file === undefined ? 0 : sizeOf(file)), 0);
  } catch {
    return 0;
  }
}

/** The unit in which the kernel counts the blocks of a file. */
const BLOCK_BYTES = 512;
const blockBytes = ({ blocks }: Stats): number => blocks * BLOCK_BYTES;
