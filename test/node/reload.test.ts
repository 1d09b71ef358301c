/** A daemon whose configuration changes while it runs: by a file, by a drop-in, by SIGHUP. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, runtimes } from '../support/observed-node.ts';
import { freePort } from '../support/ports.ts';

let node: ObservedNode;
const file = () => join(node.directory, 'config.yaml');
const dropIns = () => join(node.directory, 'conf.d');
const header = 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n';
const append = (text: string) => writeFileSync(file(), `${readFileSync(file(), 'utf8')}${text}\n`);
const config = async () => (await node.context('kubelet'))!['config'] as Record<string, unknown>;

beforeAll(async () => {
  node = await ObservedNode.on(runtimes[0]!);
  mkdirSync(dropIns());
  node.write('web.json', shellPod('web', node.image, SLEEP));
  await node.start([`--config-dir=${dropIns()}`]);
  await node.untilPhase('web', 'Running');
});
afterAll(() => node.close());

it('a field that can change is in force soon after the file has it', async () => {
  append('registryPullQPS: 3');
  await eventually('the new value', async () => (await config())['registryPullQPS'] === 3);
  expect(node.log).toContain('"The configuration was changed" fields="registryPullQPS" readers="images"');
  expect((await node.context('kubelet/images'))!['qps']).toBe(3);
});

it('a drop-in is over the file, and its removal gives the file’s value back', async () => {
  const path = join(dropIns(), '10.conf');
  writeFileSync(path, `${header}registryPullQPS: 4\n`);
  await eventually('the drop-in', async () => (await config())['registryPullQPS'] === 4);
  rmSync(path);
  await eventually('the file', async () => (await config())['registryPullQPS'] === 3);
});

it('a field that cannot change is named and keeps its value', async () => {
  append('maxPods: 7');
  await eventually('the line', () => node.log.includes('restart it to change them" fields="maxPods"'));
  expect((await config())['maxPods']).toBe(110);
  expect(node.log).toContain('reason="KubeletConfigRefused"');
  writeFileSync(file(), readFileSync(file(), 'utf8').replace('maxPods: 7\n', ''));
});

it('an invalid file changes nothing, in upstream’s words', async () => {
  const good = readFileSync(file(), 'utf8');
  append('registryBurst: -1');
  await eventually('the refusal', () => node.log.includes('registryBurst (--registry-burst) -1 must not be'));
  writeFileSync(file(), '}{');
  await eventually('the other refusal', () => node.log.includes('failed to load kubelet config file'));
  expect(await config()).toMatchObject({ registryPullQPS: 3, registryBurst: 10 });
  writeFileSync(file(), good);
});

it('pods take new settings, and no container is touched', async () => {
  const before = await node.instances('web');
  append('clusterDomain: other.example\nclusterDNS: [10.9.9.9]');
  await eventually('the new settings', async () => {
    const pods = (await node.context('kubelet/pods')) as { settings?: { clusterDomain: string } } | null;
    return pods?.settings?.clusterDomain === 'other.example';
  });
  await node.untilPhase('web', 'Running');
  await sleep(1_500);
  expect(await node.instances('web')).toEqual(before);
});

it('healthz moves to another port, and the old one is free', async () => {
  const port = await freePort();
  const old = node.healthzPort;
  writeFileSync(file(), readFileSync(file(), 'utf8').replace(/healthzPort: \d+/, `healthzPort: ${port}`));
  node.healthzPort = port;
  await eventually('healthz at its new port', () => node.healthz());
  await expect(fetch(`http://127.0.0.1:${old}/healthz`)).rejects.toThrow();
});

it('SIGHUP asks at once and ends nothing', async () => {
  process.kill(node.pid, 'SIGHUP');
  await eventually('an answer', () => node.log.includes('"The configuration is unchanged"'));
  expect(node.isRunning).toBe(true);
});

it('more is printed from the moment the verbosity says so', async () => {
  append('logging: { verbosity: 5 }');
  await eventually('the new verbosity', async () => {
    const known = await node.context('kubelet/logging');
    return known?.['verbosity'] === 5;
  });
});

it('the pod went on all the time', async () => {
  const instances = await node.instances('web');
  expect(instances).toMatchObject([{ state: 'CONTAINER_RUNNING', attempt: 0 }]);
});

it('the journal verifies and replays', async () => {
  await node.stop();
  expect(node.journalFaults()).toEqual([]);
});
