/** What the containers of a pod are to have for themselves: whole CPUs, memory of chosen nodes. Pure. */
import type { Pod } from '../../api/pod.ts';
import type { NodeSettings } from '../../node-settings.ts';
import { podContainers } from '../spec/qos.ts';
import { isSidecar } from '../spec/resources.ts';
import { exclusiveCount } from './cpu-manager.ts';
import { pinnedMemory } from './memory-manager.ts';

export interface ContainerWish {
  readonly container: string;
  /** It has ended before the next one begins. */
  readonly isInit: boolean;
  /** CPUs of its own; absent: it shares. */
  readonly cpus?: number;
  /** Bytes by resource (`memory`, `hugepages-2Mi`) that come from chosen nodes; absent: from anywhere. */
  readonly memory?: Readonly<Record<string, string>>;
}

/** In the order in which they begin, those that are to have something. */
export function containerWishes(pod: Pod, { admission }: Pick<NodeSettings, 'admission'>): readonly ContainerWish[] {
  const inits = pod.spec.initContainers ?? [];
  return podContainers(pod).flatMap((container) => {
    const cpus = exclusiveCount(pod, container);
    const memory = admission?.memoryManager === undefined ? null : pinnedMemory(pod, container);
    if (cpus === 0 && memory === null) return [];
    return [
      {
        container: container.name,
        isInit: inits.includes(container) && !isSidecar(container),
        ...(cpus === 0 ? {} : { cpus }),
        ...(memory === null ? {} : { memory }),
      },
    ];
  });
}
