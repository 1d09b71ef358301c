import { existsSync, mkdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type * as cri from '../../../src/machines/model/api/cri.ts';
import { eventually, isProcess, Node } from './harness.ts';

let node: Node;
beforeAll(async () => {
  node = await new Node().start();
});
afterAll(() => node.destroy());

const bytes = (text: string): string => Buffer.from(text).toString('base64');
const text = (base64: string): string => Buffer.from(base64, 'base64').toString();

describe('a container', () => {
  it('is created, runs, and exits with its code and the reason for it', async () => {
    const id = await node.create(await node.pod(), { command: ['/bin/sh', '-c', 'exit 7'], labels: { a: 'b' } });
    expect(await node.status(id)).toMatchObject({ state: 'CONTAINER_CREATED', started_at: '0', finished_at: '0' });
    await node.client.call('StartContainer', { container_id: id });
    const ended = await node.exited(id);
    expect(ended).toMatchObject({
      exit_code: 7,
      reason: 'Error',
      labels: { a: 'b' },
      image_id: expect.stringContaining('sha256:'),
    });
    const times = [ended.created_at, ended.started_at, ended.finished_at].map(BigInt);
    expect(times).toEqual([...times].sort((a, b) => (a < b ? -1 : 1)));
    expect(times[0]! > 1_600_000_000_000_000_000n).toBe(true);
  });

  it('that succeeds is Completed', async () => {
    expect(await node.exited(await node.run('true'))).toMatchObject({ exit_code: 0, reason: 'Completed' });
  });

  it('that dies of a signal has 128 + its number', async () => {
    expect(await node.exited(await node.run('kill -SEGV $$'))).toMatchObject({ exit_code: 139, reason: 'Error' });
  });

  it('gets its environment, arguments and directory, and closed stdin', async () => {
    const id = await node.create(await node.pod(), {
      command: ['/bin/sh', '-c', 'cat; echo "$GREETING $PWD $0 $1 $PATH"'],
      args: ['zero', 'one two'],
      working_dir: '/usr',
      envs: [{ key: 'GREETING', value: bytes('grüß') }],
    });
    await node.client.call('StartContainer', { container_id: id });
    await node.exited(id);
    const [line] = await node.logLines(id);
    expect(line?.text).toMatch(/^grüß \/usr zero one two \/usr\/local\/sbin:/);
  });

  it('without a command runs the entrypoint of the image', async () => {
    const id = await node.create(await node.pod(), { args: ['-c', 'echo entry'] });
    await node.client.call('StartContainer', { container_id: id });
    await node.exited(id);
    expect((await node.logLines(id))[0]?.text).toBe('entry');
  });

  it.skipIf(process.getuid?.() !== 0)('runs as the user and group it asked for', async () => {
    const linux = { security_context: { run_as_user: { value: '1234' }, run_as_group: { value: '4321' } } };
    const id = await node.run('id -u; id -g; id -G', { linux });
    expect((await node.exited(id)).user).toMatchObject({ linux: { uid: '1234', gid: '4321' } });
    expect((await node.logLines(id)).map((line) => line.text)).toEqual(['1234', '4321', '4321']);
  });

  it('has in the log which requests a host process cannot have', async () => {
    const id = await node.create(await node.pod(), {
      command: ['true'],
      mounts: [{ container_path: '/data', host_path: '/tmp' }],
      linux: {
        resources: { memory_limit_in_bytes: '1000' },
        security_context: { capabilities: { drop_capabilities: ['ALL'] } },
      },
    });
    expect(node.logged.find(({ fields }) => fields['containerId'] === id)?.fields['notHonoured']).toEqual([
      'mounts',
      'resources',
      'capabilities',
    ]);
  });

  it.each([
    [['no-such-command'], 'exec: "no-such-command": executable file not found in $PATH'],
    [['/no/such/file'], 'exec: "/no/such/file": stat /no/such/file: no such file or directory'],
    [['/etc/passwd'], 'exec: "/etc/passwd": permission denied'],
  ])('that cannot be executed fails to start: %j', async (command, message) => {
    const id = await node.create(await node.pod(), { command });
    await expect(node.client.call('StartContainer', { container_id: id })).rejects.toMatchObject({
      code: status.UNKNOWN,
      details: expect.stringContaining(message),
    });
    expect(await node.status(id)).toMatchObject({
      state: 'CONTAINER_EXITED',
      exit_code: 128,
      reason: 'StartError',
      message,
      started_at: '0',
    });
  });

  it('with a directory that does not exist fails to start with the reason', async () => {
    const id = await node.create(await node.pod(), { command: ['true'], working_dir: '/no/where' });
    await expect(node.client.call('StartContainer', { container_id: id })).rejects.toThrow(
      'chdir to cwd ("/no/where") failed: no such file or directory',
    );
  });

  it('starts once', async () => {
    const id = await node.run('sleep 60');
    await expect(node.client.call('StartContainer', { container_id: id })).rejects.toMatchObject({
      code: status.UNKNOWN,
      details: `failed to set starting state for container "${id}": container is in CONTAINER_RUNNING state`,
    });
  });

  it('takes what it left running with it when it exits', async () => {
    const id = await node.run('setsid sleep 61 & echo $!; sleep 62 & echo $!');
    await node.exited(id);
    const left = (await node.logLines(id)).map((line) => Number(line.text));
    expect(left).toHaveLength(2);
    expect(left.filter(isProcess)).toEqual([]);
  });

  it('is found by a prefix of its id, and unknown is NOT_FOUND', async () => {
    const id = await node.create(await node.pod(), { command: ['true'] });
    expect((await node.status(id.slice(0, 12))).id).toBe(id);
    await expect(node.status('feed')).rejects.toMatchObject({
      code: status.NOT_FOUND,
      details: 'an error occurred when try to find container "feed": not found',
    });
  });
});

describe('stopping', () => {
  it('sends SIGTERM and waits', async () => {
    const id = await node.run('trap "echo asked; exit 3" TERM; echo ready; while :; do sleep 0.02; done');
    await eventually('it is ready', async () => (await node.logLines(id)).length > 0);
    await node.client.call('StopContainer', { container_id: id, timeout: '10' });
    expect(await node.status(id)).toMatchObject({ exit_code: 3 });
    expect((await node.logLines(id)).map((line) => line.text)).toContain('asked');
  });

  it('sends the stop signal that the container names', async () => {
    const id = await node.run('trap "exit 5" USR1; echo ready; while :; do sleep 0.02; done', {
      stop_signal: 'SIGUSR1',
    });
    await eventually('it is ready', async () => (await node.logLines(id)).length > 0);
    await node.client.call('StopContainer', { container_id: id, timeout: '10' });
    expect(await node.status(id)).toMatchObject({ exit_code: 5, stop_signal: 'SIGUSR1' });
  });

  it('kills the whole group when the grace period is over', async () => {
    const id = await node.run('trap "" TERM; sh -c "trap \\"\\" TERM; echo \\$\\$; sleep 63"; sleep 64');
    const [child] = await eventually('the child speaks', async () => {
      const lines = await node.logLines(id);
      return lines.length > 0 ? lines : undefined;
    });
    const before = Date.now();
    await node.client.call('StopContainer', { container_id: id, timeout: '1' });
    expect(Date.now() - before).toBeGreaterThanOrEqual(1_000);
    expect(await node.status(id)).toMatchObject({ exit_code: 137, reason: 'Error' });
    expect(isProcess(Number(child?.text))).toBe(false);
  });

  it('with no grace kills at once; again, and of the unknown, succeeds', async () => {
    const id = await node.run('trap "" TERM; sleep 65');
    await node.client.call('StopContainer', { container_id: id, timeout: '0' });
    expect(await node.status(id)).toMatchObject({ exit_code: 137 });
    await node.client.call('StopContainer', { container_id: id, timeout: '0' });
    await node.client.call('StopContainer', { container_id: 'unknown' });
    await node.client.call('RemoveContainer', { container_id: 'unknown' });
  });

  it('a caller that goes away does not shorten the grace that another one gives', async () => {
    const id = await node.run('trap "" TERM; echo ready; sleep 66');
    await eventually('it is ready', async () => (await node.logLines(id)).length > 0);
    await expect(node.client.call('StopContainer', { container_id: id, timeout: '1' }, 200)).rejects.toMatchObject({
      code: status.DEADLINE_EXCEEDED,
    });
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    expect(await node.status(id)).toMatchObject({ state: 'CONTAINER_RUNNING' });
  });

  it('removing a running container kills it first', async () => {
    const id = await node.run('trap "" TERM; sleep 67');
    const pid = await node.pid(id);
    expect(isProcess(pid)).toBe(true);
    await node.client.call('RemoveContainer', { container_id: id });
    expect(isProcess(pid)).toBe(false);
    await expect(node.status(id)).rejects.toMatchObject({ code: status.NOT_FOUND });
    expect(existsSync(join(node.root, 'containers', id))).toBe(false);
  });
});

describe('the log', () => {
  it('has a line for each line, by stream, with a time that grows', async () => {
    const id = await node.run('echo out; echo err >&2; echo; printf "last\\n"');
    await node.exited(id);
    const lines = await node.logLines(id);
    expect(lines.filter(({ stream }) => stream === 'stdout').map(({ tag, text }) => [tag, text])).toEqual([
      ['F', 'out'],
      ['F', ''],
      ['F', 'last'],
    ]);
    expect(lines.filter(({ stream }) => stream === 'stderr').map(({ tag, text }) => [tag, text])).toEqual([
      ['F', 'err'],
    ]);
    const times = lines.map(({ time }) => time);
    expect(times).toEqual([...times].sort());
    for (const time of times) expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/);
  });

  it('cuts long lines into partial ones, and the unfinished end is partial', async () => {
    const id = await node.run('head -c 40000 /dev/zero | tr "\\0" x; echo; printf end');
    await node.exited(id);
    const lines = await node.logLines(id);
    expect(lines.map(({ tag, text }) => [tag, text.length])).toEqual([
      ['P', 16_384],
      ['P', 16_384],
      ['F', 7_232],
      ['P', 3],
    ]);
  });

  it('goes on in a new file after a rotation', async () => {
    const id = await node.run('echo one; read x < /dev/null; while [ ! -e "$GO" ]; do sleep 0.02; done; echo two', {
      envs: [{ key: 'GO', value: bytes(join(node.directory, 'go')) }],
    });
    const path = (await node.status(id)).log_path;
    await eventually('it wrote', async () => (await node.logLines(id)).length > 0);
    renameSync(path, `${path}.1`);
    await node.client.call('ReopenContainerLog', { container_id: id });
    expect(statSync(path).size).toBe(0);
    mkdirSync(join(node.directory, 'go'));
    await node.exited(id);
    expect(readFileSync(path, 'utf8')).toMatch(/ stdout F two\n$/);
    expect(readFileSync(`${path}.1`, 'utf8')).toMatch(/ stdout F one\n$/);
    await expect(node.client.call('ReopenContainerLog', { container_id: id })).rejects.toMatchObject({
      details: 'container is not running',
    });
  });

  it('is not written when the container names no file', async () => {
    const id = await node.run('echo nobody', { log_path: '' });
    expect(await node.exited(id)).toMatchObject({ exit_code: 0, log_path: '' });
  });
});

describe('ExecSync', () => {
  const exec = (container_id: string, cmd: readonly string[], timeout = '0') =>
    node.client.call<cri.ExecSyncResponse>('ExecSync', { container_id, cmd, timeout });

  it('runs beside the container with its environment', async () => {
    const id = await node.run('sleep 68', { envs: [{ key: 'WHO', value: bytes('me') }] });
    const answer = await exec(id, ['/bin/sh', '-c', 'echo $WHO; echo oh >&2; exit 4']);
    expect({ ...answer, stdout: text(answer.stdout), stderr: text(answer.stderr) }).toEqual({
      stdout: 'me\n',
      stderr: 'oh\n',
      exit_code: 4,
    });
  });

  it('ends at its deadline and leaves nothing behind', async () => {
    const id = await node.run('sleep 69');
    const file = join(node.directory, 'exec.pid');
    await expect(exec(id, ['/bin/sh', '-c', `echo $$ > ${file}; sleep 70`], '1')).rejects.toMatchObject({
      code: status.DEADLINE_EXCEEDED,
      details: expect.stringContaining('timeout 1s exceeded'),
    });
    await eventually('the command is gone', () => !isProcess(Number(readFileSync(file, 'utf8'))));
  });

  it('gives back what fits into one message', async () => {
    const id = await node.run('sleep 71');
    const { stdout, exit_code } = await exec(id, ['head', '-c', '20000000', '/dev/zero']);
    expect(exit_code).toBe(0);
    expect(Buffer.from(stdout, 'base64').length).toBe(16 * 1024 * 1024 - 1024);
  });

  it('does not wait for a process that keeps its pipe open', async () => {
    const id = await node.run('sleep 72');
    const before = Date.now();
    expect(text((await exec(id, ['/bin/sh', '-c', 'sleep 73 & echo done'])).stdout)).toBe('done\n');
    expect(Date.now() - before).toBeLessThan(60_000);
  });

  it('needs a running container and a command that exists', async () => {
    const id = await node.run('sleep 74');
    await expect(exec(id, ['no-such-command'])).rejects.toThrow('executable file not found in $PATH');
    await expect(exec(id, [])).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await node.client.call('StopContainer', { container_id: id });
    await expect(exec(id, ['true'])).rejects.toMatchObject({
      code: status.UNKNOWN,
      details: 'failed to exec in container: container is in CONTAINER_EXITED state',
    });
  });
});

it('stats count the processes of the container', async () => {
  const id = await node.run('i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo counted; sleep 75');
  await eventually('it counted', async () => (await node.logLines(id)).length > 0);
  const { stats } = await node.client.call<cri.ContainerStatsResponse>('ContainerStats', { container_id: id });
  expect(Number(stats?.cpu?.usage_core_nano_seconds?.value)).toBeGreaterThan(10_000_000);
  expect(Number(stats?.memory?.working_set_bytes?.value)).toBeGreaterThan(100_000);
  expect(stats?.attributes).toMatchObject({ id, metadata: { name: 'app' } });
  const { pod_sandbox_id } = (await node.client.call<cri.ListContainersResponse>('ListContainers', { filter: { id } }))
    .containers[0]!;
  const pod = await node.client.call<cri.PodSandboxStatsResponse>('PodSandboxStats', { pod_sandbox_id });
  expect(pod.stats?.linux?.process?.process_count).toEqual({ value: '2' });
  expect(pod.stats?.linux?.containers).toHaveLength(1);
});
