/**
 * What Statelet relies on in a CRI runtime, as one suite for any of them.
 *
 * Everything goes through the ports that the machines use, or through their client where a port would hide the answer.
 */
import { mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { connectRuntime, type RuntimeClient } from '../../src/actors/cri/client.ts';
import { type CriPorts, criPorts } from '../../src/actors/cri/ports.ts';
import type { InputOf, ItemOf, OutputOf, PortCall } from '../../src/kernel/operation.ts';
import type { ContainerStatus, PodSandboxConfig } from '../../src/machines/api/cri.ts';
import type { criOperations, WatchPodsItem } from '../../src/machines/operations/cri.ts';

export interface RuntimeUnderTest {
  readonly name: string;
  start(): Promise<{
    readonly endpoint: string;
    /** An image with `sh` and the usual small tools, present from the start. */
    readonly image: string;
    readonly cgroupParent?: string;
    close(): Promise<void>;
  }>;
  /** Whether containers have namespaces of their own. */
  readonly isolates: boolean;
}

type Table = typeof criOperations;
type Call = { -readonly [Key in keyof PortCall<unknown, WatchPodsItem>]?: PortCall<unknown, WatchPodsItem>[Key] };

/** How soon a runtime must show what it was asked to do. */
const SOON_MS = 5_000;
/** A relist so rare that only an event can explain what is seen sooner. */
const NEVER_MS = 600_000;
const PATIENT = { timeoutMs: 30_000 };

class Bench {
  readonly runtime: RuntimeUnderTest;
  #started: Awaited<ReturnType<RuntimeUnderTest['start']>> | undefined;
  #cri: CriPorts | undefined;
  #client: RuntimeClient | undefined;
  logs = '';
  #pods = 0;

  constructor(runtime: RuntimeUnderTest) {
    this.runtime = runtime;
  }

  get client(): RuntimeClient {
    if (!this.#client) throw new Error('the runtime is not started');
    return this.#client;
  }

  get image(): string {
    return this.#started?.image ?? '';
  }

  async start(): Promise<void> {
    this.#started = await this.runtime.start();
    this.#cri = criPorts({ endpoint: this.#started.endpoint });
    this.#client = connectRuntime({ endpoint: this.#started.endpoint });
    this.logs = await mkdtemp(join(tmpdir(), 'statelet-contract-'));
  }

  async close(): Promise<void> {
    this.#cri?.close();
    this.#client?.close();
    await this.#started?.close();
    await rm(this.logs, { recursive: true, force: true });
  }

  /** Performs one operation as the kernel would. */
  ask<Name extends keyof Table>(
    name: Name,
    input: InputOf<Table[Name]>,
    over: Call = {},
  ): Promise<OutputOf<Table[Name]>> {
    if (!this.#cri) throw new Error('the runtime is not started');
    const call = { id: 1, resume: false, signal: new AbortController().signal, emit: () => {}, ...over, input };
    const port = this.#cri.ports[name] as (
      call: PortCall<InputOf<Table[Name]>, ItemOf<Table[Name]>>,
    ) => Promise<OutputOf<Table[Name]>>;
    return port(call);
  }

  /** The configuration of a pod that no other test has. */
  pod(): PodSandboxConfig {
    this.#pods += 1;
    const [name, uid] = [`pod-${this.#pods}`, `uid-${process.pid}-${this.#pods}`];
    return {
      metadata: { name, uid, namespace: 'contract', attempt: 0 },
      labels: {
        'io.kubernetes.pod.name': name,
        'io.kubernetes.pod.namespace': 'contract',
        'io.kubernetes.pod.uid': uid,
      },
      log_directory: join(this.logs, name),
      linux: this.#started?.cgroupParent ? { cgroup_parent: this.#started.cgroupParent } : {},
    };
  }

  async sandbox(config = this.pod()) {
    const { podSandboxId } = await this.ask('cri.runPodSandbox', { config, runtimeHandler: '' });
    return { config, podSandboxId, uid: config.metadata?.uid ?? '' };
  }

  /** A created container that runs `script`. */
  async container(sandbox: { config: PodSandboxConfig; podSandboxId: string }, script: string, name = 'app') {
    const { containerId } = await this.ask('cri.createContainer', {
      podSandboxId: sandbox.podSandboxId,
      sandboxConfig: sandbox.config,
      config: this.containerConfig(sandbox.config, script, name),
    });
    return containerId;
  }

  containerConfig(sandboxConfig: PodSandboxConfig, script: string, name = 'app') {
    return {
      metadata: { name, attempt: 0 },
      image: { image: this.image },
      command: ['sh', '-c', script],
      envs: [{ key: 'GREETING', value: Buffer.from('hello').toString('base64') }],
      labels: { ...sandboxConfig.labels, 'io.kubernetes.container.name': name },
      log_path: `${name}.log`,
      linux: { security_context: { namespace_options: { pid: 'CONTAINER' as const } } },
    };
  }

  async started(script: string) {
    const sandbox = await this.sandbox();
    const containerId = await this.container(sandbox, script);
    await this.ask('cri.startContainer', { containerId });
    return { ...sandbox, containerId };
  }

  async status(containerId: string): Promise<ContainerStatus> {
    const { status } = await this.client.call('ContainerStatus', { container_id: containerId }, PATIENT);
    if (!status) throw new Error(`no status of ${containerId}`);
    return status;
  }

  /** The status once the container has ended. */
  exit(containerId: string): Promise<ContainerStatus> {
    return eventually(async () => {
      const status = await this.status(containerId);
      return status.state === 'CONTAINER_EXITED' ? status : undefined;
    });
  }

  async log({ config }: { config: PodSandboxConfig }, name = 'app'): Promise<string[]> {
    const text = await readFile(join(config.log_directory ?? '', `${name}.log`), 'utf8');
    return text.split('\n').slice(0, -1);
  }

  async removeAll(): Promise<void> {
    const { items } = await this.client.call('ListPodSandbox', {}, PATIENT);
    await Promise.all(
      items.map(async ({ id }) => {
        await this.client.call('StopPodSandbox', { pod_sandbox_id: id }, PATIENT);
        await this.client.call('RemovePodSandbox', { pod_sandbox_id: id }, PATIENT);
      }),
    );
  }
}

async function eventually<Value>(look: () => Promise<Value | undefined> | Value | undefined): Promise<Value> {
  const deadline = performance.now() + SOON_MS;
  for (;;) {
    const seen = await look();
    if (seen !== undefined) return seen;
    if (performance.now() > deadline) throw new Error(`not seen within ${SOON_MS} ms`);
    await sleep(10);
  }
}

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
  test('says its name and speaks v1', async () => {
    const version = await bench.ask('cri.version', {});
    expect(version.runtimeApiVersion).toBe('v1');
    expect(version.runtimeName).not.toBe('');
    expect(version.runtimeVersion).not.toBe('');
  });

  test('is ready, and so is its network', async () => {
    const { conditions } = await bench.ask('cri.status', {});
    expect(conditions).toContainEqual(expect.objectContaining({ type: 'RuntimeReady', status: true }));
    expect(conditions).toContainEqual(expect.objectContaining({ type: 'NetworkReady', status: true }));
  });

  test('knows its cgroup driver or says that it does not tell', async () => {
    const { cgroupDriver } = await bench.ask('cri.runtimeConfig', {});
    expect([null, 'cgroupfs', 'systemd']).toContain(cgroupDriver);
  });

  test('has the image, by name and in the list', async () => {
    const { image } = await bench.ask('cri.imageStatus', { image: bench.image });
    expect(image?.repo_tags).toContain(bench.image);
    const { images } = await bench.ask('cri.listImages', {});
    expect(images.map(({ id }) => id)).toContain(image?.id);
  });

  test('answers for an absent image with nothing, not with an error', async () => {
    expect(await bench.ask('cri.imageStatus', { image: 'localhost/absent:1' })).toEqual({ image: null });
  });

  test('fails to pull what is nowhere', async () => {
    const pull = bench.ask('cri.pullImage', { image: 'localhost:1/absent:1', sandboxConfig: null });
    await expect(pull).rejects.toMatchObject({ message: expect.stringMatching(/^rpc error: code = \w+ desc = ./) });
  });

  test('tells where images are kept', async () => {
    const { mountpoint, usedBytes } = await bench.ask('cri.imageFsInfo', {});
    expect(mountpoint).toMatch(/^\//);
    expect(usedBytes).toMatch(/^\d+$/);
  });
}

function sandboxCases(bench: Bench): void {
  test('run, stop and remove, the last two as often as one likes', async () => {
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

  test('keeps metadata, labels and annotations, and gives the pod an address', async () => {
    const config = { ...bench.pod(), annotations: { 'example.com/note': 'kept: {"a":1}' } };
    const { uid } = await bench.sandbox(config);
    const { sandboxes, name, namespace } = await bench.ask('cri.podStatus', { uid });
    expect({ name, namespace }).toEqual({ name: config.metadata?.name, namespace: 'contract' });
    expect(sandboxes[0]).toMatchObject({
      metadata: config.metadata,
      labels: config.labels,
      annotations: config.annotations,
      network: { ip: expect.stringMatching(/^[0-9a-f.:]+$/) },
    });
  });

  test('reserves the name of a sandbox, and the port adopts the one that has it', async () => {
    const { config, podSandboxId } = await bench.sandbox();
    await expect(bench.client.call('RunPodSandbox', { config }, PATIENT)).rejects.toThrow(/reserved/);
    expect(await bench.ask('cri.runPodSandbox', { config, runtimeHandler: '' })).toEqual({ podSandboxId });
  });

  test('another attempt is another sandbox, and the newest comes first', async () => {
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

  test('removing a sandbox that runs takes its containers with it', async () => {
    const { podSandboxId, uid, containerId } = await bench.started('sleep 600');
    await bench.ask('cri.removePodSandbox', { podSandboxId });
    expect(await bench.ask('cri.podStatus', { uid })).toMatchObject({ sandboxes: [], containers: [] });
    await expect(bench.status(containerId)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('refuses a runtime handler that it does not have', async () => {
    const run = bench.ask('cri.runPodSandbox', { config: bench.pod(), runtimeHandler: 'nohandler' });
    await expect(run).rejects.toThrow(/nohandler/);
  });
}

function containerCases(bench: Bench): void {
  test('created, running, exited: each with its time', async () => {
    const sandbox = await bench.sandbox();
    const containerId = await bench.container(sandbox, 'sleep 0.3');
    expect(await bench.status(containerId)).toMatchObject({ state: 'CONTAINER_CREATED', started_at: '0' });
    await bench.ask('cri.startContainer', { containerId });
    expect(await bench.status(containerId)).toMatchObject({ state: 'CONTAINER_RUNNING', finished_at: '0' });
    const ended = await bench.exit(containerId);
    expect(ended).toMatchObject({ exit_code: 0, reason: 'Completed' });
    expect(BigInt(ended.started_at)).toBeGreaterThanOrEqual(BigInt(ended.created_at));
    expect(BigInt(ended.finished_at)).toBeGreaterThan(BigInt(ended.started_at));
  });

  test.each([
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

  test('a command that does not exist fails the start, and the container stays to be looked at', async () => {
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

  test('an image that is absent fails the creation', async () => {
    const { config, podSandboxId } = await bench.sandbox();
    const create = bench.ask('cri.createContainer', {
      podSandboxId,
      sandboxConfig: config,
      config: { ...bench.containerConfig(config, ''), image: { image: 'localhost/absent:1' } },
    });
    await expect(create).rejects.toMatchObject({ code: expect.stringMatching(/^(NOT_FOUND|UNKNOWN)$/) });
  });

  test('reserves the name of a container, and the port adopts the one that has it', async () => {
    const sandbox = await bench.sandbox();
    const containerId = await bench.container(sandbox, 'sleep 600');
    const request = {
      pod_sandbox_id: sandbox.podSandboxId,
      sandbox_config: sandbox.config,
      config: bench.containerConfig(sandbox.config, 'sleep 600'),
    };
    await expect(bench.client.call('CreateContainer', request, PATIENT)).rejects.toThrow(/reserved/);
    expect(await bench.container(sandbox, 'sleep 600')).toBe(containerId);
  });

  test('does not start twice', async () => {
    const { containerId } = await bench.started('sleep 600');
    await expect(bench.ask('cri.startContainer', { containerId })).rejects.toThrow(/CONTAINER_RUNNING/);
  });

  test('removing kills what runs, and may be repeated', async () => {
    const { containerId, uid } = await bench.started('sleep 600');
    for (let time = 1; time <= 2; time += 1) await bench.ask('cri.removeContainer', { containerId });
    expect((await bench.ask('cri.podStatus', { uid })).containers).toEqual([]);
  });

  test('the environment, the arguments and the working directory arrive', async () => {
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

  test.skipIf(!bench.runtime.isolates)('has process ids and a host name of its own', async () => {
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

  test('SIGTERM first: the container may end on its own terms', async () => {
    const { containerId } = await readied(TRAPS_TERM);
    const begun = performance.now();
    await bench.ask('cri.stopContainer', { containerId, timeoutSeconds: 30 });
    expect(performance.now() - begun).toBeLessThan(SOON_MS);
    expect(await bench.exit(containerId)).toMatchObject({ exit_code: 7 });
  });

  test('SIGKILL when the grace is over, not before', async () => {
    const { containerId } = await readied(IGNORES_TERM);
    const begun = performance.now();
    await bench.ask('cri.stopContainer', { containerId, timeoutSeconds: 1 });
    const tookMs = performance.now() - begun;
    expect(tookMs).toBeGreaterThan(990);
    expect(tookMs).toBeLessThan(1_000 + SOON_MS);
    expect(await bench.exit(containerId)).toMatchObject({ exit_code: 137 });
  });

  test('without grace SIGKILL comes at once', async () => {
    const { containerId } = await readied(IGNORES_TERM);
    const begun = performance.now();
    await bench.ask('cri.stopContainer', { containerId, timeoutSeconds: 0 });
    expect(performance.now() - begun).toBeLessThan(SOON_MS);
    expect(await bench.exit(containerId)).toMatchObject({ exit_code: 137 });
  });

  test('stopping what has stopped changes nothing', async () => {
    const { containerId } = await bench.started('exit 5');
    await bench.exit(containerId);
    for (let time = 1; time <= 2; time += 1) await bench.ask('cri.stopContainer', { containerId, timeoutSeconds: 1 });
    expect(await bench.status(containerId)).toMatchObject({ exit_code: 5 });
  });

  test('stopping the sandbox stops its containers', async () => {
    const { containerId, podSandboxId } = await readied(IGNORES_TERM);
    await bench.ask('cri.stopPodSandbox', { podSandboxId });
    expect(await bench.exit(containerId)).toMatchObject({ exit_code: 137 });
  });
}

function logCases(bench: Bench): void {
  test('each line has a time, a stream and a tag; an unfinished one is partial', async () => {
    const started = await bench.started('echo out; echo err >&2; printf unfinished');
    await bench.exit(started.containerId);
    const lines = await eventually(async () => {
      const seen = await bench.log(started);
      return seen.length >= 3 ? seen : undefined;
    });
    const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(Z|[+-]\d\d:\d\d)`;
    expect(lines).toEqual(
      expect.arrayContaining([
        expect.stringMatching(new RegExp(`^${time} stdout F out$`)),
        expect.stringMatching(new RegExp(`^${time} stderr F err$`)),
        expect.stringMatching(new RegExp(`^${time} stdout P unfinished$`)),
      ]),
    );
  });

  test('a log that was moved away is opened anew on request', async () => {
    const started = await bench.started('while :; do echo tick; sleep 0.05; done');
    const path = join(started.config.log_directory ?? '', 'app.log');
    await eventually(async () => ((await bench.log(started)).length > 0 ? true : undefined));
    await rename(path, `${path}.1`);
    await bench.ask('cri.reopenContainerLog', { containerId: started.containerId });
    const lines = await eventually(async () => {
      const seen = await bench.log(started).catch(() => []);
      return seen.length > 0 ? seen : undefined;
    });
    expect(lines[0]).toMatch(/ stdout F tick$/);
  });

  test('exec gives both outputs and the exit code', async () => {
    const { containerId } = await bench.started('sleep 600');
    const command = ['sh', '-c', 'echo "to $GREETING"; echo oops >&2; exit 4'];
    expect(await bench.ask('cri.execSync', { containerId, command, timeoutSeconds: 10 })).toEqual({
      exitCode: 4,
      stdout: 'to hello\n',
      stderr: 'oops\n',
    });
  });

  test('exec ends with its time limit', async () => {
    const { containerId } = await bench.started('sleep 600');
    const exec = bench.ask('cri.execSync', { containerId, command: ['sleep', '60'], timeoutSeconds: 1 });
    await expect(exec).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED', retriable: true });
  });

  test('exec in a container that ended is an error', async () => {
    const { containerId } = await bench.started('exit 0');
    await bench.exit(containerId);
    const exec = bench.ask('cri.execSync', { containerId, command: ['true'], timeoutSeconds: 1 });
    await expect(exec).rejects.toThrow(/CONTAINER_EXITED/);
  });
}

function listCases(bench: Bench): void {
  type Started = Awaited<ReturnType<Bench['started']>>;
  let running: Started;
  let ended: Started;
  beforeEach(async () => {
    running = await bench.started('sleep 600');
    ended = await bench.started('exit 0');
    await bench.exit(ended.containerId);
    await bench.ask('cri.stopPodSandbox', { podSandboxId: ended.podSandboxId });
  });

  test('sandboxes by id, by state and by label', async () => {
    const ids = async (filter: object) => {
      const { items } = await bench.client.call('ListPodSandbox', { filter }, PATIENT);
      return items.map(({ id }) => id).sort();
    };
    expect(await ids({})).toEqual([running.podSandboxId, ended.podSandboxId].sort());
    expect(await ids({ id: ended.podSandboxId })).toEqual([ended.podSandboxId]);
    expect(await ids({ state: { state: 'SANDBOX_READY' } })).toEqual([running.podSandboxId]);
    expect(await ids({ state: { state: 'SANDBOX_NOTREADY' } })).toEqual([ended.podSandboxId]);
    expect(await ids({ label_selector: { 'io.kubernetes.pod.uid': running.uid } })).toEqual([running.podSandboxId]);
    expect(await ids({ label_selector: { 'io.kubernetes.pod.uid': 'nobody' } })).toEqual([]);
  });

  test('containers by id, by state, by sandbox and by label, and by all of them at once', async () => {
    const ids = async (filter: object) => {
      const { containers } = await bench.client.call('ListContainers', { filter }, PATIENT);
      return containers.map(({ id }) => id).sort();
    };
    expect(await ids({})).toEqual([running.containerId, ended.containerId].sort());
    expect(await ids({ id: ended.containerId })).toEqual([ended.containerId]);
    expect(await ids({ state: { state: 'CONTAINER_RUNNING' } })).toEqual([running.containerId]);
    expect(await ids({ state: { state: 'CONTAINER_EXITED' } })).toEqual([ended.containerId]);
    expect(await ids({ pod_sandbox_id: running.podSandboxId })).toEqual([running.containerId]);
    const label_selector = { 'io.kubernetes.pod.uid': ended.uid };
    expect(await ids({ label_selector })).toEqual([ended.containerId]);
    expect(await ids({ label_selector, state: { state: 'CONTAINER_RUNNING' } })).toEqual([]);
  });
}

function watchCases(bench: Bench): void {
  let items: WatchPodsItem[];
  let stop: () => Promise<void>;
  beforeEach(async () => {
    items = [];
    const aborter = new AbortController();
    const input = { relistPeriodMs: NEVER_MS, inspectDeadlineMs: SOON_MS, inspectParallel: 4 };
    const emit = (item: WatchPodsItem) => void items.push(item);
    const watching = bench.ask('cri.watchPods', input, { signal: aborter.signal, emit });
    stop = async () => {
      aborter.abort();
      await watching;
    };
    await eventually(() => items.find(({ type }) => type === 'runtime.relisted'));
  });
  afterEach(() => stop());

  const seen = (uid: string, state: string) =>
    eventually(() =>
      items.find(
        (item) =>
          item.type === 'runtime.podChanged' &&
          item.status.uid === uid &&
          item.status.containers.some((container) => container.state === state),
      ),
    );

  test('an empty runtime is said to be empty', () => {
    expect(items).toEqual([{ type: 'runtime.relisted', uids: [] }]);
  });

  test('what we did, what the container did on its own and what was removed is told, without a relist', async () => {
    const { uid, podSandboxId } = await bench.started('sleep 0.3; exit 9');
    await seen(uid, 'CONTAINER_RUNNING');
    expect(await seen(uid, 'CONTAINER_EXITED')).toMatchObject({ status: { containers: [{ exit_code: 9 }] } });
    await bench.ask('cri.removePodSandbox', { podSandboxId });
    await eventually(() => items.find((item) => item.type === 'runtime.podRemoved' && item.uid === uid));
  });

  test('observations of a pod come in their order, and never twice the same', async () => {
    const { uid } = await bench.started('exit 0');
    await seen(uid, 'CONTAINER_EXITED');
    await sleep(200);
    const told = items.flatMap((item) => (item.type === 'runtime.podChanged' ? [item.status] : []));
    const times = told.map(({ observedAtMs }) => observedAtMs);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    const bodies = told.map((status) => JSON.stringify({ ...status, observedAtMs: 0 }));
    expect(bodies.every((body, index) => index === 0 || body !== bodies[index - 1])).toBe(true);
  });

  test('a sandbox without the labels of a pod is nobody of ours', async () => {
    const { labels: _labels, ...foreign } = bench.pod();
    const { uid } = await bench.started('exit 0');
    await bench.client.call('RunPodSandbox', { config: foreign }, PATIENT);
    await seen(uid, 'CONTAINER_EXITED');
    await stop();
    expect(items.filter((item) => item.type === 'runtime.podChanged' && item.status.uid !== uid)).toEqual([]);
  });
}

function resumeCases(bench: Bench): void {
  test('a sandbox and a container that were made are found, not made again', async () => {
    const sandbox = await bench.sandbox();
    const run = { config: sandbox.config, runtimeHandler: '' };
    const found = await bench.ask('cri.runPodSandbox', run, { resume: true });
    expect(found).toEqual({ podSandboxId: sandbox.podSandboxId });
    const containerId = await bench.container(sandbox, 'sleep 600');
    const create = {
      podSandboxId: sandbox.podSandboxId,
      sandboxConfig: sandbox.config,
      config: bench.containerConfig(sandbox.config, 'sleep 600'),
    };
    expect(await bench.ask('cri.createContainer', create, { resume: true })).toEqual({ containerId });
    for (let time = 1; time <= 2; time += 1) await bench.ask('cri.startContainer', { containerId }, { resume: true });
    expect(await bench.status(containerId)).toMatchObject({ state: 'CONTAINER_RUNNING' });
  });

  test('what was never made is made', async () => {
    const config = bench.pod();
    const { podSandboxId } = await bench.ask('cri.runPodSandbox', { config, runtimeHandler: '' }, { resume: true });
    expect(podSandboxId).not.toBe('');
  });

  test('an exec is not run a second time', async () => {
    const { containerId } = await bench.started('sleep 600');
    const input = { containerId, command: ['true'], timeoutSeconds: 1 };
    await expect(bench.ask('cri.execSync', input, { resume: true })).rejects.toMatchObject({ code: 'ABORTED' });
  });
}

function unknownCases(bench: Bench): void {
  const NOT_FOUND = { code: 'NOT_FOUND', retriable: false };

  test('looking at them, creating in them, starting and running in them: not found', async () => {
    const { client } = bench;
    const config = bench.pod();
    await expect(client.call('PodSandboxStatus', { pod_sandbox_id: 'nobody' }, PATIENT)).rejects.toMatchObject(
      NOT_FOUND,
    );
    await expect(bench.status('nobody')).rejects.toMatchObject(NOT_FOUND);
    await expect(bench.container({ config, podSandboxId: 'nobody' }, 'true')).rejects.toMatchObject(NOT_FOUND);
    await expect(bench.ask('cri.startContainer', { containerId: 'nobody' })).rejects.toMatchObject(NOT_FOUND);
    const exec = { containerId: 'nobody', command: ['true'], timeoutSeconds: 1 };
    await expect(bench.ask('cri.execSync', exec)).rejects.toMatchObject(NOT_FOUND);
  });

  test('removing them is done already', async () => {
    await bench.ask('cri.removeContainer', { containerId: 'nobody' });
    await bench.ask('cri.stopPodSandbox', { podSandboxId: 'nobody' });
    await bench.ask('cri.removePodSandbox', { podSandboxId: 'nobody' });
    expect(await bench.ask('cri.podStatus', { uid: 'nobody' })).toMatchObject({ sandboxes: [], containers: [] });
  });
}
