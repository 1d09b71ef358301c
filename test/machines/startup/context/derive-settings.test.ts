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

it('CPUs that count their throttling reach the containers that must not see it', () => {
  const machine = (throttled: object) =>
    new BootNode({
      argv: ['--fail-swap-on=true'],
      answers: { 'host.machineInfo': ok({ ...MACHINE_INFO, ...throttled }) },
    });
  const settings = (throttled: object) =>
    (machine(throttled).boot().run(1_000).kernel.snapshotOf('kubelet') as { context: KubeletContext }).context.settings;
  expect(settings({ throttledCpus: [3] })).toMatchObject({ throttledCpus: [3] });
  expect(settings({})).not.toHaveProperty('throttledCpus');
});

it('gates reach what they decide about', () => {
  const featureGates = { PodLevelResources: false, InPlacePodLevelResourcesVerticalScaling: false, EnvFiles: false };
  const settings = settingsOf({ featureGates, crashLoopBackOff: { maxContainerRestartPeriod: '2s' } });
  expect(settings).toMatchObject({ unseenFields: ['fileKeyRef'], admission: { lacks: ['podLevelResources'] } });
  expect(settings?.crashLoopBackOffMaxMs).toBe(2_000);
});
