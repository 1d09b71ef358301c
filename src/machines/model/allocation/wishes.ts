/** What the containers of a pod are to have for themselves: whole CPUs, memory of chosen nodes, devices. Pure. */
import type { Container, Pod } from '../api/pod.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { podContainers } from '../spec/qos.ts';
import { parseQuantity, wholeUnits } from '../spec/quantity.ts';
import { exclusiveCount, isSidecar } from '../spec/resources.ts';
import { pinnedMemory } from './memory-manager.ts';

export interface ContainerWish {
  readonly container: string;
  /** It has ended before the next one begins. */
  readonly isInit: boolean;
  /** CPUs of its own; absent: it shares. */
  readonly cpus?: number;
  /** Bytes by resource (`memory`, `hugepages-2Mi`) that come from chosen nodes; absent: from anywhere. */
  readonly memory?: Readonly<Record<string, string>>;
  /** Devices by resource, if a plugin has them; absent: none. */
  readonly devices?: Readonly<Record<string, number>>;
}

/** In the order in which they begin, those that are to have something. */
export function containerWishes(pod: Pod, { admission }: Pick<NodeSettings, 'admission'>): readonly ContainerWish[] {
  const inits = pod.spec.initContainers ?? [];
  return podContainers(pod).flatMap((container) => {
    const cpus = exclusiveCount(pod, container);
    const memory = admission?.memoryManager === undefined ? null : pinnedMemory(pod, container);
    const devices = extendedResources(container);
    const hasDevices = Object.keys(devices).length > 0;
    if (cpus === 0 && memory === null && !hasDevices) return [];
    return [
      {
        container: container.name,
        isInit: inits.includes(container) && !isSidecar(container),
        ...(cpus === 0 ? {} : { cpus }),
        ...(memory === null ? {} : { memory }),
        ...(hasDevices ? { devices } : {}),
      },
    ];
  });
}

/** Not of Kubernetes, but of some vendor: those that plugins may have. Upstream: IsExtendedResourceName. */
export const isExtendedResource = (name: string): boolean =>
  name.includes('/') && !name.includes('kubernetes.io/') && !name.startsWith('requests.');

/** They are never overcommitted: the limit is the request. */
const extendedResources = ({ resources }: Container): Readonly<Record<string, number>> =>
  Object.fromEntries(
    Object.entries(resources?.limits ?? {})
      .filter(([name]) => isExtendedResource(name))
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, amount]) => [name, Number(wholeUnits(parseQuantity(amount)))]),
  );
