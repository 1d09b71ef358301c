/** The verbs for users on the node, with a real daemon: get, describe, logs, exec. */
import { spawn, spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Containerd, containerdAvailable, startContainerd } from '../support/containerd.ts';
import { eventually, shellPod, TestNode } from '../support/daemon.ts';
import { askPodResources } from '../support/pod-resources.ts';
import { requirement } from '../support/require.ts';

const STATELET = new URL('../../src/bin/statelet.js', import.meta.url).pathname;
/** The output contains a sequence that would clear a terminal. */
const SCRIPT = "echo one; : '\u001b[2J'; echo two; trap 'exit 0' TERM; while :; do sleep 1; done";

describe.skipIf(requirement('containerd', containerdAvailable()).skip)('the verbs for people on the node', () => {
  let containerd: Containerd;
  let node: TestNode;
  beforeAll(async () => {
    containerd = await startContainerd();
    node = new TestNode({ endpoint: containerd.endpoint });
    await node.start();
    node.write('app', shellPod('app', containerd.image, SCRIPT));
    await eventually('Running', async () =>
      (await call('get', 'pods')).stdout.includes('Running') ? true : undefined,
    );
  });
  afterAll(async () => {
    await node?.close();
    await containerd?.close();
  });

  /** Runs `statelet VERB`; `input` is typed. */
  async function call(verb: string, ...rest: string[]) {
    const child = spawn(process.execPath, [STATELET, verb, `--root-dir=${node.rootDir}`, ...rest]);
    const output = { stdout: '', stderr: '' };
    child.stdout.on('data', (chunk) => (output.stdout += String(chunk)));
    child.stderr.on('data', (chunk) => (output.stderr += String(chunk)));
    child.stdin.end('typed\n');
    const code = await new Promise<number>((ended) => child.once('close', (status) => ended(status ?? -1)));
    return { code, ...output };
  }

  it('the socket is for its owner alone', () => {
    expect(statSync(`${node.rootDir}/statelet.sock`).mode & 0o777).toBe(0o600);
  });

  it('get lists the pods in columns, and as an object', async () => {
    expect((await call('get', 'pods')).stdout).toMatch(
      /^NAME +READY +STATUS +RESTARTS +AGE\napp-node1 +1\/1 +Running +0 +\d+s\n$/,
    );
    const { stdout } = await call('get', 'pods', 'app', '-o', 'json');
    expect(JSON.parse(stdout)).toMatchObject({ kind: 'Pod', status: { phase: 'Running' } });
  });

  it('describe tells what happened', async () => {
    const { stdout } = await call('describe', 'pod', 'app');
    expect(stdout).toContain('Status:           Running\n');
    expect(stdout).toContain(String.raw`: '\x1b[2J'`);
    expect(stdout).toMatch(/Normal +Started +\d+s +kubelet +Container started/);
  });

  it('logs prints what it said, the last of it when asked', async () => {
    expect((await call('logs', 'app')).stdout).toBe('one\ntwo\n');
    expect((await call('logs', 'app', '--tail=1')).stdout).toBe('two\n');
    expect(await call('logs', 'nobody')).toMatchObject({
      code: 1,
      stderr: 'Error from server (NotFound): pods "nobody" not found\n',
    });
  });

  it('exec passes stdin, output and the exit code', async () => {
    expect(await call('exec', 'app', '-i', '--', 'cat')).toMatchObject({ code: 0, stdout: 'typed\n' });
    expect(await call('exec', 'app', '--', 'sh', '-c', 'echo no >&2; exit 7')).toEqual({
      code: 7,
      stdout: '',
      stderr: 'no\ncommand terminated with exit code 7\n',
    });
  });

  it('exec ends with the exit code though stdin is a file', () => {
    const argv = [STATELET, 'exec', `--root-dir=${node.rootDir}`, 'app', '--', 'sh', '-c', 'exit 7'];
    const { status, stderr } = spawnSync(process.execPath, argv, {
      stdio: ['ignore', 'pipe', 'pipe'],
      encoding: 'utf8',
    });
    expect({ status, stderr }).toEqual({ status: 7, stderr: 'command terminated with exit code 7\n' });
  });

  it('agents are told of the pods that hold resources', async () => {
    expect(await askPodResources(node.podResources, 'List')).toEqual({
      podResources: [{ name: 'app-node1', namespace: 'default', containers: [{ name: 'c' }] }],
    });
    const nobody = askPodResources(node.podResources, 'Get', { podName: 'x', podNamespace: 'y' });
    await expect(nobody).rejects.toThrow('pod x in namespace y not found');
  });

  it('says what is missing when no daemon is there', async () => {
    const { code, stderr } = await call('get', 'pods', '--root-dir=/nowhere');
    expect([code, stderr]).toEqual([
      1,
      'no node answers on this machine:\n  /nowhere/statelet.sock: there is none\n' +
        'start a node, or name the folder of one with --root-dir or --data-dir\n',
    ]);
  });
});
