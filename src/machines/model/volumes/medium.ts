/** The mount of an `emptyDir` that is in memory: tmpfs or huge pages. */
import type { Pod, Volume } from '../api/pod.ts';
import { memoryBound } from '../cgroups/pod-cgroup.ts';
import type { VolumeMount } from '../operations/volume.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { podContainers } from '../spec/qos.ts';
import { nanoOf, wholeUnits } from '../values/quantity.ts';

const HUGE_PAGES = 'HugePages';

export function mediumMount(
  emptyDir: NonNullable<Volume['emptyDir']>,
  pod: Pod,
  node: NodeSettings,
): VolumeMount | null {
  const { medium = '', sizeLimit } = emptyDir;
  if (medium === '') return null;
  if (medium === 'Memory') return memoryMount(pod, node, sizeLimit);
  if (medium === HUGE_PAGES || medium.startsWith(`${HUGE_PAGES}-`)) return hugePagesMount(medium, pod, node);
  throw new Error(`unknown storage medium "${medium}"; use Memory, HugePages, or none for the disk`);
}

/** Secrets must not be swapped out: `noswap` if the kernel has it. */
export function memoryMount(pod: Pod, node: NodeSettings, sizeLimit?: string): VolumeMount {
  const bytes = memoryBytes(pod, node, sizeLimit);
  return { type: 'tmpfs', options: [`size=${bytes}`, 'noswap'], optional: false };
}

/** The minimum of the volume's limit, the pod's memory limit and the node's allocatable memory. */
function memoryBytes(pod: Pod, node: NodeSettings, sizeLimit: string | undefined): bigint {
  const allocatable = wholeUnits(nanoOf(node.allocatable?.['memory'] ?? node.memoryCapacityBytes));
  const bounds = [
    allocatable,
    memoryBound(pod, node),
    ...(sizeLimit === undefined ? [] : [wholeUnits(nanoOf(sizeLimit))]),
  ].filter((bytes) => bytes > 0n);
  return bounds.reduce((least, bytes) => (bytes < least ? bytes : least), allocatable);
}

/** Without a size limit, as upstream: the pod's cgroup limits its pages. */
function hugePagesMount(medium: string, pod: Pod, node: NodeSettings): VolumeMount {
  const pages = pageBytes(medium, pod);
  const known = (node.hugePageSizes ?? []).map((each) => wholeUnits(nanoOf(binarySize(each))));
  if (!known.includes(pages)) {
    throw new Error(
      `emptyDir medium ${medium}: this node has no huge pages of ${pages} bytes; ` +
        `reserve them in the kernel, or use medium Memory`,
    );
  }
  return { type: 'hugetlbfs', options: [`pagesize=${pages}`], optional: false };
}

/** The page size of `HugePages-2Mi`, or for plain `HugePages` the only size that the pod requests. */
function pageBytes(medium: string, pod: Pod): bigint {
  const requestedSizes = pageSizesOf(pod);
  const isPlain = medium === HUGE_PAGES;
  if (isPlain && requestedSizes.size > 1) {
    throw new Error(`medium: ${medium} can't be used if container requests multiple huge page sizes`);
  }
  const [pages] = isPlain ? requestedSizes : [wholeUnits(nanoOf(medium.slice(HUGE_PAGES.length + 1)))];
  if (pages !== undefined && requestedSizes.has(pages)) return pages;
  throw new Error(`medium ${medium}: hugePages storage requested, but there is no resource request for huge pages`);
}

/** The runtime writes `2MB` for two mebibytes. */
const binarySize = (size: string): string => size.replace(/([KMG])B$/, '$1i');

const PAGES = 'hugepages-';

/** Page sizes in bytes that the pod or one of its containers requests. */
function pageSizesOf(pod: Pod): ReadonlySet<bigint> {
  const resources = [pod.spec.resources, ...podContainers(pod).map((container) => container.resources)];
  const names = resources.flatMap((each) => Object.keys({ ...each?.requests, ...each?.limits }));
  const sizes = names.flatMap((name) => (name.startsWith(PAGES) ? [name.slice(PAGES.length)] : []));
  return new Set(sizes.map((size) => wholeUnits(nanoOf(size))));
}
