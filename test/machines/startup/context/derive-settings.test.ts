/** Flags and fields that affect pods only through the settings of the node. */
import { expect, it } from 'vitest';
import type { Json } from '../../../../src/kernel/json.ts';
import type { KubeletContext } from '../../../../src/machines/startup/context/types.ts';
import { ok } from '../../../support/answering-world.ts';
import { BootNode, document, MACHINE_INFO } from '../boot-node.ts';

function settingsOf(fields: Record<string, Json>, ...flags: string[]) {
  const argv = ['--config=/k.yaml', '--fail-swap-on=true', ...flags];
  const node = new BootNode({ argv, answers: { 'host.readConfiguration': ok(document(fields)) } }).boot().run(1_000);
  const { context } = node.kernel.snapshotOf('kubelet') as { context: KubeletContext };
  return context.settings;
}

it('the default profile of seccomp is asked for by the flag as by the field', () => {
  expect(settingsOf({})?.seccompDefault).toBe(false);
  expect(settingsOf({}, '--seccomp-default')?.seccompDefault).toBe(true);
  expect(settingsOf({ seccompDefault: true }, '--seccomp-default=false')?.seccompDefault).toBe(true);
});

it('CPUs are sent again after the configured period', () => {
  expect(settingsOf({})?.cpuReconcilePeriodMs).toBe(10_000);
  expect(settingsOf({ cpuManagerReconcilePeriod: '3s' })?.cpuReconcilePeriodMs).toBe(3_000);
});

/** The settings of a node whose machine has these facts. */
function settingsOfMachine(facts: object, fields: Record<string, Json> = {}) {
  const answers = {
    'host.machineInfo': ok({ ...MACHINE_INFO, ...facts }),
    'host.readConfiguration': ok(document(fields)),
  };
  const node = new BootNode({ argv: ['--config=/k.yaml', '--fail-swap-on=true'], answers }).boot().run(1_000);
  return (node.kernel.snapshotOf('kubelet') as { context: KubeletContext }).context.settings;
}

it('CPUs that count their throttling reach the containers that must not see it', () => {
  expect(settingsOfMachine({ throttledCpus: [3] })).toMatchObject({ throttledCpus: [3] });
  expect(settingsOfMachine({})).not.toHaveProperty('throttledCpus');
});

it.each([
  ['no label for files', { seLinux: true }, {}, { seLinux: true }],
  [
    'a label for files',
    { seLinux: true, seLinuxFileLabel: 'u:r:t:s0' },
    {},
    { seLinux: true, seLinuxMounts: { fileLabel: 'u:r:t:s0', everyVolume: false } },
  ],
  [
    'the gate SELinuxMount',
    { seLinux: true, seLinuxFileLabel: 'u:r:t:s0' },
    { featureGates: { SELinuxMount: true } },
    { seLinux: true, seLinuxMounts: { fileLabel: 'u:r:t:s0', everyVolume: true } },
  ],
  ['no policy', { seLinux: false, seLinuxFileLabel: 'u:r:t:s0' }, {}, {}],
])('SELinux and %s', (_, machine, config, expected) => {
  const { seLinux, seLinuxMounts } = settingsOfMachine(machine, config) ?? {};
  expect({ seLinux, seLinuxMounts }).toEqual(expected);
});

it('with MemoryQoS, containers without a limit are throttled below what all pods may use', () => {
  const fields = { featureGates: { MemoryQoS: true }, kubeReserved: { memory: '1Gi' }, memoryThrottlingFactor: 0.8 };
  const settings = settingsOfMachine({ memoryBytes: String(8 * 1024 ** 3) }, fields);
  expect(settings?.memoryQoS).toEqual({ throttlingFactor: 0.8, reserves: false, unlimited: '7Gi' });
  expect(settings?.allocatable?.['memory']).toBe('7068Mi');
});

it('gates reach what they decide about', () => {
  const featureGates = { PodLevelResources: false, InPlacePodLevelResourcesVerticalScaling: false, EnvFiles: false };
  const settings = settingsOf({ featureGates, crashLoopBackOff: { maxContainerRestartPeriod: '2s' } });
  expect(settings).toMatchObject({ unseenFields: ['fileKeyRef'], admission: { lacks: ['podLevelResources'] } });
  expect(settings?.crashLoopBackOffMaxMs).toBe(2_000);
});
