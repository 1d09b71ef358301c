/** The resources that single containers hold exclusively, for agents that monitor devices. */

import type { Devices } from '../../machines/model/allocation/device-state.ts';
import { allocatableMemory } from '../../machines/model/allocation/memory-state.ts';
import type { Holding, MemoryBlock } from '../../machines/model/operations/grants.ts';
import type { NodeSettings } from '../../machines/model/settings/node-settings.ts';
import type { NodeView } from './node-view.ts';

const ALLOCATION = 'kubelet/allocation';

/** Of the allocation manager. */
interface Books {
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

export interface Given {
  readonly devices: readonly GivenDevice[];
  readonly memory: readonly GivenMemory[];
}

type View = Pick<NodeView, 'contexts'>;

const booksOf = (view: View): Books | undefined => view.contexts(ALLOCATION)[0] as Books | undefined;

const topologyOf = (nodes: readonly number[]): NumaTopology => ({ nodes: nodes.map((ID) => ({ ID })) });

const memoryOf = ({ type, size, numaAffinity }: MemoryBlock): GivenMemory => ({
  memory_type: type,
  size,
  topology: topologyOf(numaAffinity),
});

/** One entry a device, as upstream lists them. */
function devicesOf(holding: Holding, container: string): readonly GivenDevice[] {
  return Object.entries(holding.devices?.[container] ?? {}).flatMap(([resource, { nodes }]) => {
    const byDevice = new Map<string, number[]>();
    for (const [node, ids] of Object.entries(nodes)) {
      for (const id of ids) byDevice.set(id, [...(byDevice.get(id) ?? []), Number(node)]);
    }
    return [...byDevice].map(([id, all]) => {
      const known = all.filter((node) => node >= 0).toSorted((a, b) => a - b);
      return { resource_name: resource, device_ids: [id], topology: known.length === 0 ? null : topologyOf(known) };
    });
  });
}

/** What a container of a pod holds. */
export function givenTo(view: View, uid: string, container: string): Given {
  const holding = booksOf(view)?.grants[uid] ?? {};
  return { devices: devicesOf(holding, container), memory: (holding.memory?.[container] ?? []).map(memoryOf) };
}

/** What containers may have. */
export function allocatable(view: View): Given {
  const books = booksOf(view);
  const manager = books?.settings.admission?.memoryManager;
  const devices = Object.entries(books?.devices ?? {}).flatMap(([resource, offer]) =>
    offer.devices.flatMap(({ id, isHealthy, nodes }) =>
      isHealthy
        ? [{ resource_name: resource, device_ids: [id], topology: nodes === null ? null : topologyOf(nodes) }]
        : [],
    ),
  );
  return { devices, memory: manager === undefined ? [] : allocatableMemory(manager).map(memoryOf) };
}
