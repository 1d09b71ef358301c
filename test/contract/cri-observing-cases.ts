/** The observing part of the suite: logs, exec, lists, watching, lost outcomes, unknown ids. */
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { WatchPodsItem } from '../../src/machines/model/operations/cri.ts';
import { type Bench, containerIn, eventually, PATIENT } from './cri-bench.ts';

/** With so rare a relist, only an event can explain what is seen earlier. */
const NEVER_MS = 600_000;

export function logCases(bench: Bench): void {
  it('each line has a time, a stream and a tag; an unfinished one is partial', async () => {
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

  it('a log that was moved away is opened anew on request', async () => {
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

  it('exec gives both outputs and the exit code', async () => {
    const { containerId } = await bench.started('sleep 600');
    const command = ['sh', '-c', 'echo "to $GREETING"; echo oops >&2; exit 4'];
    expect(await bench.ask('cri.execSync', { containerId, command, timeoutSeconds: 60 })).toEqual({
      exitCode: 4,
      stdout: 'to hello\n',
      stderr: 'oops\n',
    });
  });

  it('exec ends with its time limit', async () => {
    const { containerId } = await bench.started('sleep 600');
    const exec = bench.ask('cri.execSync', { containerId, command: ['sleep', '60'], timeoutSeconds: 1 });
    await expect(exec).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED', retriable: true });
  });

  it('exec in a container that ended is an error', async () => {
    const { containerId } = await bench.started('exit 0');
    await bench.exit(containerId);
    const exec = bench.ask('cri.execSync', { containerId, command: ['true'], timeoutSeconds: 1 });
    await expect(exec).rejects.toThrow(/CONTAINER_EXITED/);
  });
}

export function listCases(bench: Bench): void {
  type Started = Awaited<ReturnType<Bench['started']>>;
  let running: Started;
  let ended: Started;
  beforeEach(async () => {
    running = await bench.started('sleep 600');
    ended = await bench.started('exit 0');
    await bench.exit(ended.containerId);
    await bench.ask('cri.stopPodSandbox', { podSandboxId: ended.podSandboxId });
  });

  it('sandboxes by id, by state and by label', async () => {
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

  it('containers by id, by state, by sandbox and by label, and by all of them at once', async () => {
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

export function watchCases(bench: Bench): void {
  let items: WatchPodsItem[];
  let stop: () => Promise<void>;
  beforeEach(async () => {
    items = [];
    const aborter = new AbortController();
    const input = { relistPeriodMs: NEVER_MS, inspectDeadlineMs: PATIENT.timeoutMs, inspectParallel: 4 };
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
    eventually(() => items.map((item) => containerIn(item, uid, state)).find((container) => container !== undefined));

  it('an empty runtime is said to be empty', () => {
    expect(items).toEqual([{ type: 'runtime.relisted', uids: [] }]);
  });

  it('what the container did on its own and what was removed is told, what we did is not', async () => {
    const { uid, podSandboxId, shown, release } = await bench.held('exit 9');
    expect(shown).toMatchObject({ state: 'CONTAINER_RUNNING' });
    await release();
    expect(await seen(uid, 'CONTAINER_EXITED')).toMatchObject({ exit_code: 9 });
    expect(items.filter((item) => containerIn(item, uid, 'CONTAINER_RUNNING'))).toEqual([]);
    await bench.ask('cri.removePodSandbox', { podSandboxId });
    await eventually(() => items.find((item) => item.type === 'runtime.podRemoved' && item.uid === uid));
  });

  it('an observation is never told twice', async () => {
    const { uid, release } = await bench.held('exit 0');
    await release();
    await seen(uid, 'CONTAINER_EXITED');
    await sleep(200);
    const bodies = items.map((item) =>
      JSON.stringify(item.type === 'runtime.podChanged' ? item.status.containers : item),
    );
    expect(new Set(bodies).size).toBe(bodies.length);
  });

  it('an inspection right after the start of a sandbox says what a later one says', async () => {
    const { config } = await bench.sandbox();
    const input = { uid: config.metadata?.uid ?? '' };
    const [first, later] = [await bench.ask('cri.podStatus', input), await bench.ask('cri.podStatus', input)];
    expect(first.sandboxes).toHaveLength(1);
    expect({ ...first, observedAtMs: 0 }).toEqual({ ...later, observedAtMs: 0 });
  });

  it('a sandbox without the labels of a pod is foreign', async () => {
    const { labels: _labels, ...foreign } = bench.pod();
    const { uid, release } = await bench.held('exit 0');
    const { pod_sandbox_id: id } = await bench.client.call('RunPodSandbox', { config: foreign }, PATIENT);
    await release();
    await seen(uid, 'CONTAINER_EXITED');
    await stop();
    expect(JSON.stringify(items)).not.toContain(id);
  });
}

export function resumeCases(bench: Bench): void {
  it('a sandbox and a container that were made are found, not made again', async () => {
    const sandbox = await bench.sandbox();
    const run = { config: sandbox.config, runtimeHandler: '' };
    const found = await bench.ask('cri.runPodSandbox', run, { resume: true });
    expect(found).toEqual({ podSandboxId: sandbox.podSandboxId, status: null });
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

  it('what was never made is made', async () => {
    const config = bench.pod();
    const { podSandboxId } = await bench.ask('cri.runPodSandbox', { config, runtimeHandler: '' }, { resume: true });
    expect(podSandboxId).not.toBe('');
  });

  it('an exec is not run a second time', async () => {
    const { containerId } = await bench.started('sleep 600');
    const input = { containerId, command: ['true'], timeoutSeconds: 1 };
    await expect(bench.ask('cri.execSync', input, { resume: true })).rejects.toMatchObject({ code: 'ABORTED' });
  });
}

export function unknownCases(bench: Bench): void {
  const NOT_FOUND = { code: 'NOT_FOUND', retriable: false };

  it('inspecting them, creating in them, starting and running in them: not found', async () => {
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

  it('removing them is done already', async () => {
    await bench.ask('cri.removeContainer', { containerId: 'nobody' });
    await bench.ask('cri.stopPodSandbox', { podSandboxId: 'nobody' });
    await bench.ask('cri.removePodSandbox', { podSandboxId: 'nobody' });
    expect(await bench.ask('cri.podStatus', { uid: 'nobody' })).toMatchObject({ sandboxes: [], containers: [] });
  });
}
