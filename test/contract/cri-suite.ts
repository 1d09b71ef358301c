/** Statelet's requirements of a CRI runtime, as one suite for every runtime. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Bench, eventually, PATIENT, type RuntimeUnderTest, SOON_MS } from './cri-bench.ts';
import { listCases, logCases, resumeCases, unknownCases, watchCases } from './cri-observing-cases.ts';

const TRAPS_TERM = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
const IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 0.05; done";

export function describeRuntime(runtime: RuntimeUnderTest, skip: boolean): void {
  describe.skipIf(skip)(`CRI runtime ${runtime.name}`, () => {
    const bench = new Bench(runtime);
    beforeAll(() => bench.start());
    afterAll(() => bench.close());
    afterEach(() => bench.removeAll());
    describe('runtime and images', () => runtimeCases(bench));
    describe('sandboxes', () => sandboxCases(bench));
    describe('containers', () => containerCases(bench));
    describe('stopping', () => stopCases(bench));
    describe('logs and exec', () => logCases(bench));
    describe('lists', () => listCases(bench));
    describe('watching', () => watchCases(bench));
    describe('an outcome that was lost', () => resumeCases(bench));
    describe('unknown ids', () => unknownCases(bench));
  });
}

function runtimeCases(bench: Bench): void {
  it('says its name and speaks v1', async () => {
    const version = await bench.ask('cri.version', {});
    expect(version.runtimeApiVersion).toBe('v1');
    expect(version.runtimeName).not.toBe('');
    expect(version.runtimeVersion).not.toBe('');
  });

  it('is ready, and so is its network', async () => {
    const { conditions } = await bench.ask('cri.status', {});
    expect(conditions).toContainEqual(expect.objectContaining({ type: 'RuntimeReady', status: true }));
    expect(conditions).toContainEqual(expect.objectContaining({ type: 'NetworkReady', status: true }));
  });

  it('knows its cgroup driver or says that it does not tell', async () => {
    const { cgroupDriver } = await bench.ask('cri.runtimeConfig', {});
    expect([null, 'cgroupfs', 'systemd']).toContain(cgroupDriver);
  });

  it('has the image, by name and in the list', async () => {
    const { image } = await bench.ask('cri.imageStatus', { image: bench.image });
    expect(image?.repo_tags).toContain(bench.image);
    const { images } = await bench.ask('cri.listImages', {});
    expect(images.map(({ id }) => id)).toContain(image?.id);
  });

  it('answers for an absent image with nothing, not with an error', async () => {
    expect(await bench.ask('cri.imageStatus', { image: 'localhost/absent:1' })).toEqual({ image: null });
  });

  it('fails to pull what is nowhere', async () => {
    const pull = bench.ask('cri.pullImage', {
      image: 'localhost:1/absent:1',
      annotations: {},
      sandboxConfig: null,
      auth: null,
    });
    await expect(pull).rejects.toMatchObject({ message: expect.stringMatching(/^rpc error: code = \w+ desc = ./) });
  });

  it('tells where images are kept', async () => {
    const { mountpoint, usedBytes } = await bench.ask('cri.imageFsInfo', {});
    expect(mountpoint).toMatch(/^\//);
    expect(usedBytes).toMatch(/^\d+$/);
  });
}

function sandboxCases(bench: Bench): void {
  it('run, stop and remove, the last two as often as one likes', async () => {
    const { podSandboxId, uid } = await bench.sandbox();
    expect((await bench.ask('cri.podStatus', { uid })).sandboxes).toMatchObject([
      { id: podSandboxId, state: 'SANDBOX_READY' },
    ]);
    for (let time = 1; time <= 2; time += 1) await bench.ask('cri.stopPodSandbox', { podSandboxId });
    expect((await bench.ask('cri.podStatus', { uid })).sandboxes).toMatchObject([
      { id: podSandboxId, state: 'SANDBOX_NOTREADY' },
    ]);
    for (let time = 1; time <= 2; time += 1) await bench.ask('cri.removePodSandbox', { podSandboxId });
    expect(await bench.ask('cri.podStatus', { uid })).toMatchObject({ sandboxes: [], containers: [] });
  });

  it('keeps metadata, labels and annotations, and gives the pod an address', async () => {
    const config = { ...bench.pod(), annotations: { 'example.com/note': 'kept: {"a":1}' } };
    const { uid, podSandboxId } = await bench.sandbox(config);
    const { status } = await bench.client.call('PodSandboxStatus', { pod_sandbox_id: podSandboxId }, PATIENT);
    expect(status).toMatchObject({ labels: config.labels, annotations: config.annotations });
    const { sandboxes, name, namespace } = await bench.ask('cri.podStatus', { uid });
    expect({ name, namespace }).toEqual({ name: config.metadata?.name, namespace: 'contract' });
    expect(sandboxes[0]).toMatchObject({
      metadata: config.metadata,
      network: { ip: expect.stringMatching(/^[0-9a-f.:]+$/) },
    });
  });

  it('the answers to calls show what an inspection of the pod shows after them', async () => {
    const inspected = async () => {
      const { sandboxes, containers } = await bench.ask('cri.podStatus', { uid });
      return { sandbox: sandboxes[0], container: containers[0] };
    };
    const { uid, podSandboxId, containerId, sandboxShown, shown } = await bench.started('sleep 600');
    expect(sandboxShown).toMatchObject({ id: podSandboxId, state: 'SANDBOX_READY' });
    expect(shown).toMatchObject({ id: containerId, state: 'CONTAINER_RUNNING' });
    expect(await inspected()).toEqual({ sandbox: sandboxShown, container: shown });
    const container = (await bench.ask('cri.stopContainer', { containerId, timeoutSeconds: 0 })).status;
    const sandbox = (await bench.ask('cri.stopPodSandbox', { podSandboxId })).status;
    expect(container).toMatchObject({ id: containerId, state: 'CONTAINER_EXITED', exit_code: 137 });
    expect(sandbox).toMatchObject({ id: podSandboxId, state: 'SANDBOX_NOTREADY' });
    expect(await inspected()).toEqual({ sandbox, container });
  });

  it('reserves the name of a sandbox, and the port adopts the one that has it', async () => {
    const { config, podSandboxId } = await bench.sandbox();
    await expect(bench.client.call('RunPodSandbox', { config }, PATIENT)).rejects.toThrow(/reserved/);
    expect(await bench.ask('cri.runPodSandbox', { config, runtimeHandler: '' })).toEqual({
      podSandboxId,
      status: null,
    });
  });

  it('another attempt is another sandbox, and the newest comes first', async () => {
    const first = await bench.sandbox();
    await bench.ask('cri.stopPodSandbox', { podSandboxId: first.podSandboxId });
    const metadata = { ...first.config.metadata, attempt: 1 };
    const second = await bench.sandbox({ ...first.config, metadata });
    const { sandboxes } = await bench.ask('cri.podStatus', { uid: first.uid });
    expect(sandboxes.map(({ id, state }) => [id, state])).toEqual([
      [second.podSandboxId, 'SANDBOX_READY'],
      [first.podSandboxId, 'SANDBOX_NOTREADY'],
    ]);
  });

  it('removing a sandbox that runs takes its containers with it', async () => {
    const { podSandboxId, uid, containerId } = await bench.started('sleep 600');
    await bench.ask('cri.removePodSandbox', { podSandboxId });
    expect(await bench.ask('cri.podStatus', { uid })).toMatchObject({ sandboxes: [], containers: [] });
    await expect(bench.status(containerId)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('refuses a runtime handler that it does not have', async () => {
    const run = bench.ask('cri.runPodSandbox', { config: bench.pod(), runtimeHandler: 'nohandler' });
    await expect(run).rejects.toThrow(/nohandler/);
  });
}

function containerCases(bench: Bench): void {
  it('created, running, exited: each with its time', async () => {
    const sandbox = await bench.sandbox();
    const created = await bench.container(sandbox, 'exit 0');
    expect(await bench.status(created)).toMatchObject({ state: 'CONTAINER_CREATED', started_at: '0' });
    const { containerId, release } = await bench.held('exit 0');
    expect(await bench.status(containerId)).toMatchObject({ state: 'CONTAINER_RUNNING', finished_at: '0' });
    await release();
    const ended = await bench.exit(containerId);
    expect(ended).toMatchObject({ exit_code: 0, reason: 'Completed' });
    expect(BigInt(ended.started_at)).toBeGreaterThanOrEqual(BigInt(ended.created_at));
    expect(BigInt(ended.finished_at)).toBeGreaterThan(BigInt(ended.started_at));
  });

  it.each([
    ['exit 0', 0, 'Completed'],
    ['exit 3', 3, 'Error'],
    ['exit 255', 255, 'Error'],
    ["sh -c 'kill -9 $$'; exit $?", 137, 'Error'],
    ["sh -c 'kill -15 $$'; exit $?", 143, 'Error'],
    ['no-such-command-at-all', 127, 'Error'],
  ])('`%s` ends with %i, %s', async (script, code, reason) => {
    const { containerId } = await bench.started(script);
    expect(await bench.exit(containerId)).toMatchObject({ exit_code: code, reason });
  });

  it('a command that does not exist fails the start, and the container stays to be looked at', async () => {
    const { config, podSandboxId, uid } = await bench.sandbox();
    const containerConfig = { ...bench.containerConfig(config, ''), command: ['/no/such/file'] };
    const created = await bench.ask('cri.createContainer', {
      podSandboxId,
      sandboxConfig: config,
      config: containerConfig,
    });
    await expect(bench.ask('cri.startContainer', created)).rejects.toThrow(/no such file/);
    const { containers } = await bench.ask('cri.podStatus', { uid });
    expect(containers).toMatchObject([{ id: created.containerId, state: 'CONTAINER_EXITED', exit_code: 128 }]);
  });

  it('an image that is absent fails the creation', async () => {
    const { config, podSandboxId } = await bench.sandbox();
    const create = bench.ask('cri.createContainer', {
      podSandboxId,
      sandboxConfig: config,
      config: { ...bench.containerConfig(config, ''), image: { image: 'localhost/absent:1' } },
    });
    await expect(create).rejects.toMatchObject({ code: expect.stringMatching(/^(NOT_FOUND|UNKNOWN)$/) });
  });

  it('reserves the name of a container, and the port adopts the one that has it', async () => {
    const sandbox = await bench.sandbox();
    const containerId = await bench.container(sandbox, 'sleep 600');
    const request = {
      pod_sandbox_id: sandbox.podSandboxId,
      sandbox_config: sandbox.config,
      // The bare client uses the form of the wire, in which values of variables are base64.
      config: { ...bench.containerConfig(sandbox.config, 'sleep 600'), envs: [] },
    };
    await expect(bench.client.call('CreateContainer', request, PATIENT)).rejects.toThrow(/reserved/);
    expect(await bench.container(sandbox, 'sleep 600')).toBe(containerId);
  });

  it('does not start twice', async () => {
    const { containerId } = await bench.started('sleep 600');
    await expect(bench.ask('cri.startContainer', { containerId })).rejects.toThrow(/CONTAINER_RUNNING/);
  });

  it('removing kills what runs, and may be repeated', async () => {
    const { containerId, uid } = await bench.started('sleep 600');
    for (let time = 1; time <= 2; time += 1) await bench.ask('cri.removeContainer', { containerId });
    expect((await bench.ask('cri.podStatus', { uid })).containers).toEqual([]);
  });

  it('the environment, the arguments and the working directory arrive', async () => {
    const sandbox = await bench.sandbox();
    const config = {
      ...bench.containerConfig(sandbox.config, ''),
      command: ['sh', '-c', 'echo "$GREETING $0 $(pwd)"'],
      args: ['first'],
      working_dir: '/tmp',
    };
    const { containerId } = await bench.ask('cri.createContainer', {
      podSandboxId: sandbox.podSandboxId,
      sandboxConfig: sandbox.config,
      config,
    });
    await bench.ask('cri.startContainer', { containerId });
    await bench.exit(containerId);
    expect(await bench.log(sandbox)).toEqual([expect.stringMatching(/ stdout F hello first \/tmp$/)]);
  });

  it.skipIf(!bench.runtime.isolates)('has process ids and a host name of its own', async () => {
    const config = { ...bench.pod(), hostname: 'of-its-own' };
    const sandbox = await bench.sandbox(config);
    const containerId = await bench.container(sandbox, 'echo $$ $(hostname)');
    await bench.ask('cri.startContainer', { containerId });
    await bench.exit(containerId);
    expect(await bench.log(sandbox)).toEqual([expect.stringMatching(/ stdout F 1 of-its-own$/)]);
  });
}

function stopCases(bench: Bench): void {
  const readied = async (script: string) => {
    const started = await bench.started(script);
    await eventually(async () => ((await bench.log(started)).length > 0 ? true : undefined));
    return started;
  };

  it('SIGTERM first: the container may end on its own terms', async () => {
    const { containerId } = await readied(TRAPS_TERM);
    const begun = performance.now();
    await bench.ask('cri.stopContainer', { containerId, timeoutSeconds: 30 });
    expect(performance.now() - begun).toBeLessThan(SOON_MS);
    expect(await bench.exit(containerId)).toMatchObject({ exit_code: 7 });
  });

  it('SIGKILL when the grace is over, not before', async () => {
    const { containerId } = await readied(IGNORES_TERM);
    const begun = performance.now();
    await bench.ask('cri.stopContainer', { containerId, timeoutSeconds: 1 });
    const tookMs = performance.now() - begun;
    expect(tookMs).toBeGreaterThan(990);
    expect(tookMs).toBeLessThan(1_000 + SOON_MS);
    expect(await bench.exit(containerId)).toMatchObject({ exit_code: 137 });
  });

  it('without grace SIGKILL comes at once', async () => {
    const { containerId } = await readied(IGNORES_TERM);
    const begun = performance.now();
    await bench.ask('cri.stopContainer', { containerId, timeoutSeconds: 0 });
    expect(performance.now() - begun).toBeLessThan(SOON_MS);
    expect(await bench.exit(containerId)).toMatchObject({ exit_code: 137 });
  });

  it('stopping what has stopped changes nothing', async () => {
    const { containerId } = await bench.started('exit 5');
    await bench.exit(containerId);
    for (let time = 1; time <= 2; time += 1) await bench.ask('cri.stopContainer', { containerId, timeoutSeconds: 1 });
    expect(await bench.status(containerId)).toMatchObject({ exit_code: 5 });
  });

  it('stopping the sandbox stops its containers', async () => {
    const { containerId, podSandboxId } = await readied(IGNORES_TERM);
    await bench.ask('cri.stopPodSandbox', { podSandboxId });
    expect(await bench.exit(containerId)).toMatchObject({ exit_code: 137 });
  });
}
