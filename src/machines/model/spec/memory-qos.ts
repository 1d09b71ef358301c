/**
 * What a kernel with one hierarchy of groups does about memory beyond limits (gate MemoryQoS): what it keeps for whom,
 * and from when on it slows those that take more than they asked for. Pure.
 *
 * Upstream: KEP-2570. Invariant: without the gate, or with hierarchies of version 1, nothing.
 */
import type { QOSClass } from '../api/pod.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { type Nano, parseQuantity, wholeUnits } from './quantity.ts';

type Unified = Readonly<Record<string, string>>;
type MemorySettings = Pick<NodeSettings, 'memoryQoS' | 'cgroupVersion' | 'allocatable'>;

/** Bytes: limits are whole pages. */
const PAGE = 4096;

/** What is never reclaimed of a guaranteed pod, and only in need of one that may burst. */
export function reservedMemory(qos: QOSClass, memory: Nano, { memoryQoS, cgroupVersion }: MemorySettings): Unified {
  const bytes = wholeUnits(memory);
  if (cgroupVersion !== 2 || memoryQoS?.reserves !== true || bytes === 0n || qos === 'BestEffort') return {};
  return { [qos === 'Guaranteed' ? 'memory.min' : 'memory.low']: String(bytes) };
}

/** From when on a container is slowed: between what it asked for and its limit, or what the node has. */
export function throttledMemory(
  { request, limit }: { readonly request: bigint; readonly limit: bigint },
  { memoryQoS, cgroupVersion, allocatable }: MemorySettings,
): Unified {
  if (cgroupVersion !== 2 || !memoryQoS || request === limit) return {};
  const most = limit === 0n ? wholeUnits(parseQuantity(allocatable?.['memory'] ?? '0')) : limit;
  if (most === 0n) return {};
  const high = Number(request) + (Number(most) - Number(request)) * memoryQoS.throttlingFactor;
  const bytes = Math.floor(high / PAGE) * PAGE;
  return bytes > Number(request) ? { 'memory.high': String(bytes) } : {};
}
