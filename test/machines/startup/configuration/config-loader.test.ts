/** Proves F1 and F2 of the config loader; the corpus covers the rules themselves. */
import { describe, expect, it } from 'vitest';
import {
  configLoaderMachine,
  type LoadedConfiguration,
} from '../../../../src/machines/startup/configuration/config-loader.ts';
import type { Answer } from '../../../../src/machines/startup/context/types.ts';
import { type Answers, fail, ok, runUnder } from '../../../support/answering-world.ts';

const document = (path: string, value: object) => ({
  kind: 'document',
  path,
  text: JSON.stringify(value),
  format: 'json',
  duplicates: [],
  value: { apiVersion: 'kubelet.config.k8s.io/v1beta1', kind: 'KubeletConfiguration', failCgroupV1: false, ...value },
});
const v1 = ok({ version: 1, controllers: ['cpu'], swapCounted: false });

function load(argv: readonly string[], answers: Answers = {}) {
  const run = runUnder(configLoaderMachine, { argv }, { 'host.cgroups': v1, ...answers });
  const done = run.sent().at(-1) as unknown as { output: Answer<LoadedConfiguration> };
  return { ...run, answer: done.output };
}

describe('the config loader', () => {
  it('lets flags win over drop-ins, drop-ins over the file, the file over the defaults', () => {
    const { answer, asked, divergence } = load(['--config=/k.yaml', '--config-dir=/d', '--max-pods=7'], {
      'host.readConfiguration': ok(document('/k.yaml', { maxPods: 5, podsPerCore: 5, healthzPort: 5 })),
      'host.readDropIns': ok({ kind: 'files', files: [document('/d/a.conf', { maxPods: 6, podsPerCore: 6 })] }),
    });
    const config = answer.ok ? answer.value.config : null;
    expect(config).toMatchObject({ maxPods: 7, podsPerCore: 6, healthzPort: 5, readOnlyPort: 0 });
    expect(asked()).toEqual(['host.readConfiguration', 'host.readDropIns', 'host.cgroups']);
    expect(divergence()).toBeNull();
  });

  it('asks for no file that no flag names', () => {
    const { answer, asked } = load([]);
    expect(asked()).toEqual(['host.cgroups']);
    expect(answer).toMatchObject({ ok: false, message: expect.stringContaining('cgroup v1') });
  });

  it('knows whether the runtime was configured', () => {
    const named = { 'host.readConfiguration': ok(document('/k', { containerRuntimeEndpoint: 'unix:///x.sock' })) };
    const silent = { 'host.readConfiguration': ok(document('/k', {})) };
    expect(load(['--config=/k'], named).answer).toMatchObject({ value: { endpointNamed: true } });
    expect(load(['--config=/k'], silent).answer).toMatchObject({ value: { endpointNamed: false } });
  });

  it('answers with the reason when the file cannot be read', () => {
    const { answer } = load(['--config=/k.yaml'], {
      'host.readConfiguration': fail('open /k.yaml: permission denied'),
    });
    expect(answer).toMatchObject({ ok: false, message: expect.stringContaining('permission denied') });
  });
});
