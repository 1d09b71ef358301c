/** Probes and hooks of real containers: the results of the programs determine the status of their pod. */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, readText, SLEEP, shellPod } from '../support/daemon.ts';
import { ObservedNode, type RuntimeChoice, runtimes } from '../support/observed-node.ts';
import { patient } from '../support/patience.ts';
import { requirement } from '../support/require.ts';

for (const runtime of runtimes) {
  const { skip } = requirement('containerd', runtime.unavailable);
  describe.skipIf(skip)(`a node on ${runtime.name}`, () => probeCases(runtime));
}

function probeCases(choice: RuntimeChoice): void {
  let node: ObservedNode;
  beforeAll(async () => {
    node = await ObservedNode.on(choice);
    await node.start();
  });
  afterAll(() => node.close());

  /** A pod that sees the test's folder under the same path. */
  const pod = (name: string, script: string, container: object, spec: object = {}) => {
    const { spec: made, ...rest } = shellPod(name, node.image, script);
    const mounted = { volumeMounts: [{ name: 'shared', mountPath: node.directory }], ...container };
    const volumes = [{ name: 'shared', hostPath: { path: node.directory } }];
    return { ...rest, spec: { ...made, containers: [{ ...made.containers[0], ...mounted }], volumes, ...spec } };
  };
  const exists = (file: string, more: object = {}) => ({
    exec: { command: ['test', '-f', node.file(file)] },
    periodSeconds: 1,
    timeoutSeconds: patient(1),
    ...more,
  });
  const container = async (name: string) => (await node.status(name))?.containerStatuses?.[0];
  const ready = (name: string, wanted: boolean) =>
    eventually(`${name} is ${wanted ? '' : 'not '}ready`, async () => (await container(name))?.ready === wanted);

  it('readiness goes to and fro, and costs no restart', async () => {
    node.write('ready.json', pod('ready', SLEEP, { readinessProbe: exists('is-ready', { failureThreshold: 1 }) }));
    const before = await node.running('ready');
    await eventually('the event', () => node.log.includes('Readiness probe failed'));
    expect((await container('ready'))?.ready).toBe(false);
    writeFileSync(node.file('is-ready'), '');
    await ready('ready', true);
    const status = await node.status('ready');
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'True' }));
    rmSync(node.file('is-ready'));
    await ready('ready', false);
    expect(await node.instances('ready')).toEqual([before]);
  });

  it('liveness that fails restarts the container, and only then', async () => {
    writeFileSync(node.file('is-alive'), '');
    node.write('alive.json', pod('alive', SLEEP, { livenessProbe: exists('is-alive', { failureThreshold: 2 }) }));
    const before = await node.running('alive');
    await sleep(2_500);
    expect((await node.running('alive')).id).toBe(before.id);
    rmSync(node.file('is-alive'));
    await eventually('the restart', async () => (await node.running('alive')).attempt === 1);
    writeFileSync(node.file('is-alive'), '');
    expect(node.log).toContain('Container c failed liveness probe, will be restarted');
  });

  it('startup holds back the other probes until it succeeds', async () => {
    const probes = {
      startupProbe: exists('is-up', { failureThreshold: 60 }),
      livenessProbe: exists('is-up', { failureThreshold: 1 }),
    };
    node.write('up.json', pod('up', SLEEP, probes));
    const before = await node.running('up');
    await sleep(2_500);
    expect(await container('up')).toMatchObject({ started: false, ready: false, restartCount: 0 });
    writeFileSync(node.file('is-up'), '');
    await ready('up', true);
    expect(await node.running('up')).toEqual(before);
  });

  it('a command that hangs fails in its time', async () => {
    const readinessProbe = { exec: { command: ['sleep', '600'] }, periodSeconds: 1, failureThreshold: 1 };
    node.write('hangs.json', pod('hangs', SLEEP, { readinessProbe }));
    await eventually('the event', () => /probe failed: command timed out: .*sleep 600/.test(node.log));
    node.remove('hangs.json');
    await node.gone('hangs');
  });

  it('a restart of the daemon takes no readiness away', async () => {
    writeFileSync(node.file('stays'), '');
    const probe = exists('stays', { periodSeconds: 60 });
    node.write('stays.json', pod('stays', SLEEP, { readinessProbe: probe }));
    await ready('stays', true);
    await sleep(1_500);
    const before = await node.running('stays');
    await node.stop();
    await node.start();
    await eventually('its status', async () => (await container('stays'))?.state?.running !== undefined);
    expect((await container('stays'))?.ready).toBe(true);
    expect(await node.running('stays')).toEqual(before);
  });

  it('hooks run after the start and before the end', async () => {
    const [begun, ended] = [node.file('begun'), node.file('ended')];
    const hook = (file: string) => ({ exec: { command: ['sh', '-c', `echo hook > ${file}`] } });
    const lifecycle = { postStart: hook(begun), preStop: hook(ended) };
    node.write('hooks.json', pod('hooks', SLEEP, { lifecycle }, { terminationGracePeriodSeconds: 10 }));
    await eventually('postStart', () => existsSync(begun));
    await node.untilPhase('hooks', 'Running');
    expect(existsSync(ended)).toBe(false);
    node.remove('hooks.json');
    await node.gone('hooks');
    expect(readText(ended)).toBe('hook\n');
  });

  it.runIf(choice.name === 'containerd')('network probes and hooks find the pod at its own address', async () => {
    const script = `trap 'exit 0' TERM; mkdir /w; echo ok > /w/ok; httpd -p 8080 -h /w; ${SLEEP}`;
    const network = {
      ports: [{ name: 'web', containerPort: 8080 }],
      startupProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1, timeoutSeconds: patient(5), failureThreshold: 30 },
      readinessProbe: { httpGet: { path: '/ok', port: 'web' }, periodSeconds: 1, timeoutSeconds: patient(5) },
      lifecycle: { preStop: { httpGet: { path: '/ok', port: 'web' } } },
    };
    node.write('web.json', pod('web', script, network, { terminationGracePeriodSeconds: 10 }));
    await ready('web', true);
    node.remove('web.json');
    await node.gone('web');
    expect(node.log).not.toContain('FailedPreStopHook');
  });

  it('probes that say the same again and again write nothing', async () => {
    for (const name of ['a', 'b', 'c']) {
      // Longer than a busy machine needs to start a command: a late probe is reported as such.
      const always = exists('config.yaml', { timeoutSeconds: patient(10) });
      const probes = { readinessProbe: always, livenessProbe: always };
      node.write(`${name}.json`, pod(name, SLEEP, probes));
    }
    for (const name of ['a', 'b', 'c']) await ready(name, true);
    for (const name of ['ready', 'alive', 'up', 'stays']) node.remove(`${name}.json`);
    for (const name of ['ready', 'alive', 'up', 'stays']) await node.gone(name);
    await sleep(2_000);
    const before = node.journalText().length;
    await sleep(4_000);
    const written = node.journalText().slice(before);
    // Other writers meanwhile, such as the soft state after the ends above, may mention probes, too.
    const ofProbes = /"type":"prober?\.|\/prober-/;
    expect(written.split('\n').filter((line) => ofProbes.test(line))).toEqual([]);
  });

  it('what was recorded verifies and replays', async () => {
    await node.stop();
    expect(node.journalFaults()).toEqual([]);
  });
}
