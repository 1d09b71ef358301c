/** Values that users write into pods: the machines decide with handles, and the runtime gets the values. */
import { afterEach, expect, it } from 'vitest';
import { withSecrets } from '../../../../src/actors/cri/secrets.ts';
import { openedText, sealedPod } from '../../../../src/actors/pod-values.ts';
import { Vault } from '../../../../src/kernel/journal/secrets.ts';
import type { SecretHandle } from '../../../../src/kernel/xstate.ts';
import type { ContainerConfig } from '../../../../src/machines/model/api/cri.ts';
import type { ProbeWatch } from '../../../../src/machines/model/operations/probe.ts';
import { image, manifest, PodsNode } from '../../../support/pods-node.ts';

const vault = new Vault(Buffer.alloc(32, 1));
const headers = (value: string) => ({ httpGet: { port: 80, httpHeaders: [{ name: 'X-Token', value }] } });
const app = {
  name: 'app',
  image: 'app:1',
  command: ['serve', '--password=$(PASSWORD)', '$$', '$(UNKNOWN)-canary-$(PASSWORD)'],
  args: ['--token', 'canary-argument'],
  env: [
    { name: 'PASSWORD', value: 'canary-password' },
    { name: 'URL', value: 'db://me:canary-url-$(PASSWORD)@db' },
    { name: 'PLACE', value: 'here' },
  ],
  volumeMounts: [{ name: 'v', mountPath: '/v', subPathExpr: '$(PLACE)' }],
  readinessProbe: { exec: { command: ['check', '$(PASSWORD)', '--as=canary-word'] }, periodSeconds: 1 },
  livenessProbe: { ...headers('canary-probe'), periodSeconds: 1 },
  lifecycle: { preStop: headers('canary-"hook"') },
};

let node: PodsNode;
afterEach(() => node.assertReplays());

function effects<Input>(name: string): Input[] {
  return node.sink.records.flatMap((each) => (each.k === 'effect' && each.name === name ? [each.input as Input] : []));
}

it('reach runtime and probes as they were written, and no record', () => {
  node = new PodsNode();
  node.world.runtime.images.set('app:1', image('app:1'));
  const spec = { volumes: [{ name: 'v', emptyDir: {} }] };
  const written = manifest({ uid: 'u1', spec, containers: [app] });
  node.world.setManifests([{ ...written, value: sealedPod(written.value, vault) }]);
  node.boot().until('running', () => node.phase('u1') === 'Running');
  node.run(2_000);
  expect(JSON.stringify(node.sink.records)).not.toContain('canary');

  type Created = { config: ContainerConfig; written: SecretHandle[]; words: SecretHandle[] };
  const [created] = effects<Created>('cri.createContainer');
  const sent = withSecrets(created!.config, [...created!.written, ...created!.words], vault);
  expect(sent.command).toEqual(['serve', '--password=canary-password', '$', '$(UNKNOWN)-canary-canary-password']);
  expect(sent.args).toEqual(['--token', 'canary-argument']);
  const opened = sent.envs?.map(({ key, value = '' }) => ({ key, value: Buffer.from(value, 'base64').toString() }));
  expect(opened).toEqual(
    expect.arrayContaining([
      { key: 'PASSWORD', value: 'canary-password' },
      { key: 'URL', value: 'db://me:canary-url-canary-password@db' },
    ]),
  );
  expect(sent.annotations?.['io.kubernetes.container.preStopHandler']).toContain(String.raw`canary-\"hook\"`);
  expect(sent.mounts?.some(({ host_path: path }) => path?.endsWith('/here') || path?.includes('subpath'))).toBe(true);

  const handlers = effects<ProbeWatch>('probe.watch').map(({ handler }) => handler);
  const exec = handlers.find((handler) => handler.kind === 'exec')!;
  expect(exec.secrets).toHaveLength(1);
  expect(exec.command.map((word) => openedText(word, vault))).toEqual(['check', 'canary-password', '--as=canary-word']);
  expect(exec.words).toHaveLength(2);
  const get = handlers.find((handler) => handler.kind === 'httpGet')!;
  expect(openedText(get.headers[0]!.value, vault)).toBe('canary-probe');
});
