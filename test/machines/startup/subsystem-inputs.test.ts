/** Inputs of subsystems that are not only copied from fields of the configuration. */
import { expect, it } from 'vitest';
import { NEWEST_BEHAVIOR } from '../../../src/machines/model/settings/behaviors.ts';
import type { EstablishedContext } from '../../../src/machines/startup/context/types.ts';
import { nodeStatusInput } from '../../../src/machines/startup/subsystem-inputs.ts';
import { nodeBefore } from '../charts/pods/support.ts';
import { MACHINE_INFO } from './boot-node.ts';

const inputOf = (swapBytes: string, behavior = NEWEST_BEHAVIOR, localStorageCapacityIsolation = true) => {
  const period = { nodeStatusUpdateFrequency: '10s', nodeStatusReportFrequency: '5m' };
  const context = {
    flags: { nodeLabels: {}, cloudProvider: '', nodeIP: '' },
    config: {
      ...period,
      featureGates: {},
      registerNode: true,
      registerWithTaints: [],
      providerID: '',
      port: 10_250,
      localStorageCapacityIsolation,
    },
    node: { nodeName: 'n', hostname: 'n', nodeIPs: [] },
    machineInfo: { ...MACHINE_INFO, swapBytes },
    runtime: { name: 'containerd', version: '2.0.0' },
    resources: { capacity: {}, allocatable: {} },
    input: { behavior, version: 'v1' },
  };
  return nodeStatusInput(context as unknown as EstablishedContext);
};
const infoOf = (swapBytes: string, behavior?: number) => inputOf(swapBytes, behavior).facts.info;

it('the Node says how much its machine can swap, if it can', () => {
  expect(infoOf('4096').swap).toEqual({ capacity: 4_096 });
  expect(infoOf('0')).not.toHaveProperty('swap');
  expect(infoOf('4096', 0)).not.toHaveProperty('swap');
});

it('local storage is no condition of a ready node that does not count it; on a node of 0.2.0 it was', () => {
  const ignores = (behavior: number, counts: boolean) => inputOf('0', behavior, counts).reports.ignoresStorage;
  expect([ignores(NEWEST_BEHAVIOR, false), ignores(NEWEST_BEHAVIOR, true)]).toEqual([true, undefined]);
  expect(ignores(nodeBefore('managersAsKubelet'), false)).toBeUndefined();
});
