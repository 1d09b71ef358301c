import { expect, it } from 'vitest';
import { memoryQoSGauges } from '../../../../../src/actors/server/metrics/node/node-gauges.ts';
import type { NodeView } from '../../../../../src/actors/server/node-view.ts';

interface Node {
  readonly isOn?: boolean;
  readonly policy?: string;
  readonly version?: 1 | 2;
}

function amounts({ isOn = true, policy = 'TieredReservation', version = 2 }: Node = {}) {
  const demand = { burstableCpuMilli: '0', burstableMemoryBytes: '300', guaranteedMemoryBytes: '200' };
  const view = {
    contexts: () => [{ demand }],
    configuration: () => ({ featureGates: { MemoryQoS: isOn }, memoryReservationPolicy: policy }),
    cgroupVersion: () => version,
  } as unknown as NodeView;
  return memoryQoSGauges(view).map(({ name, samples }) => [name, samples[0]?.value]);
}

it('the protected memory of pods is counted by kind, as by the kubelet', () => {
  expect(amounts()).toEqual([
    ['kubelet_memory_qos_node_memory_min_bytes', 200],
    ['kubelet_memory_qos_node_memory_low_bytes', 300],
  ]);
  expect(amounts({ isOn: false })).toEqual([]);
  const none = [0, 0];
  expect(amounts({ policy: 'None' }).map(([, value]) => value)).toEqual(none);
  expect(amounts({ version: 1 }).map(([, value]) => value)).toEqual(none);
});
